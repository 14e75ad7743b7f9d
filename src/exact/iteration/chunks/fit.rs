//! Chunks that fit memory, where even ones do not: moves of items that leave less beyond it, as the first phase of the simplex method leaves less beyond its
//! rows before it asks what anything costs.

use rand_chacha::ChaCha8Rng;

use super::asked::rooms;
use super::moves::shift;
use super::options::{ChunkOptions, Rows, least_ns};
use super::starts;
use crate::exact::incumbent::Incumbent;
use crate::formulations::critical_paths::Room;
use crate::problem::Assignment;

/// So many moves for each chunk in vain end it.
const MOVES_IN_VAIN: usize = 200;
/// What runs need beside what rows know of, such as the workspace of a layer: so much of the room is left free, in steps, until a plan is one.
const FREE: f64 = 0.005;
const STEPS: u32 = 10;

/// Offers the first plan that fits, of chunks that are as even as memory lets them be.
pub(super) fn offer_fitting(incumbent: &mut Incumbent, options: &dyn ChunkOptions, rng: &mut ChaCha8Rng) {
    let rooms = rooms(options);
    if rooms.is_empty() {
        return;
    }
    let rows = Rows::of(options);
    let measured = |plan: &Assignment, free: f64| beyond_bytes((options, &rows), (&rooms, free), plan);
    let even = starts::even(options).into_iter();
    let first = even.min_by(|one, other| measured(one, 0.0).total_cmp(&measured(other, 0.0)));
    let Some(mut plan) = first else { return };
    let most = MOVES_IN_VAIN * options.laid().chunks();
    for step in 0..STEPS {
        let free = FREE * f64::from(step);
        let mut now = (measured(&plan, free), least_ns(options, &plan));
        let mut idle = 0;
        while now.0 > 0.0 && idle < most {
            if incumbent.control.must_stop().is_some() {
                return;
            }
            idle += 1;
            let mut other = plan.clone();
            shift(options.row(), &mut other, rng);
            let bytes = measured(&other, free);
            if bytes > now.0 {
                continue;
            }
            let ns = least_ns(options, &other);
            if bytes < now.0 || ns < now.1 {
                (plan, now, idle) = (other, (bytes, ns), 0);
            }
        }
        incumbent.offer_some(options.plan(plan.clone()));
        if incumbent.has_plan() {
            return;
        }
    }
}

/// By how much devices hold more than they have room for, as far as rows know, where a part of that is left free: all moments together, in bytes.
pub(super) fn beyond_bytes(
    (options, rows): (&dyn ChunkOptions, &Rows),
    (rooms, free): (&[Room], f64),
    plan: &Assignment,
) -> f64 {
    let of = options.laid();
    let mut held = vec![[0.0; 2]; of.chunks()];
    for (item, &chunk) in plan.iter().enumerate() {
        let own = &rows.all[rows.of_devices[of.device_of[chunk]]].items[item];
        held[chunk][0] += own.base_bytes as f64;
        held[chunk][1] += own.stash_bytes as f64;
    }
    let beyond = |room: &Room| {
        let own = room.in_flight.iter();
        let bytes: f64 = own.map(|&(c, count)| held[c][0] + count * held[c][1]).sum();
        (bytes - room.most_bytes * (1.0 - free)).max(0.0)
    };
    rooms.iter().map(beyond).sum()
}

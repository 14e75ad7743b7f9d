//! Local search: operations move to other places of their device's list.
//!
//! Only moves on a critical path can shorten an iteration (Nowicki and Smutnicki, Management Science 1996): a longest chain of operations
//! that start when another one ends. There a random operation moves to a random place near by. Moves that make an iteration
//! no longer are kept, and others with a probability that falls (simulated annealing: Kirkpatrick et al., Science 1983).

use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::bound::Bound;
use super::tasks::{Lists, Tasks, Times};
use crate::problem::control::Control;

/// Moves before a search is over, for each operation.
const MOVES_OF_AN_OPERATION: usize = 400;
/// Most moves.
const MOST_MOVES: usize = 200_000;
/// Moves between two looks at the time.
const LOOK: usize = 16;
/// How far an operation moves at most.
const FARTHEST: usize = 12;
/// How much longer an iteration may get at the beginning, as a part of it, with a probability of 1/e.
const WARMTH: f64 = 0.01;

/// Improves lists until they meet the bound, the moves are used up, or a limit comes. What makes an iteration too long is given up as soon as
/// some operation ends so late that its tail tells.
pub(super) fn improve(tasks: &Tasks, lists: &Lists, bound: &Bound, control: &Control) -> Lists {
    let mut random = ChaCha8Rng::seed_from_u64(control.seed);
    let Some(mut times) = tasks.times(lists) else {
        return lists.clone();
    };
    let (mut current, mut moved) = (lists.clone(), Times::new(tasks));
    let (mut best, mut best_ns) = (current.clone(), times.makespan_ns);
    let moves = (MOVES_OF_AN_OPERATION * tasks.count()).min(MOST_MOVES);
    let mut path = critical(tasks, &current, &times);
    let mut cooling = Cooling::new(control);
    for at in 0..moves {
        if best_ns <= bound.least_ns || (at % LOOK == 0 && cooling.is_over(control)) {
            break;
        }
        let Some((device, from, to)) = a_move(&path, &current, &mut random) else {
            break;
        };
        let kind = current[device].remove(from);
        current[device].insert(to, kind);
        let left = cooling.left.min(1.0 - at as f64 / moves as f64);
        let may_add = WARMTH * left * best_ns as f64 * -random.random::<f64>().max(1e-12).ln();
        let most_ns = times.makespan_ns.saturating_add(may_add as u64);
        let latest = |k: usize, m: usize| most_ns.saturating_sub(bound.tails[k][m]);
        if tasks.has_room(device, &current[device]) && tasks.run(&current, &mut moved, latest) {
            std::mem::swap(&mut times, &mut moved);
            path = critical(tasks, &current, &times);
            if times.makespan_ns < best_ns {
                best_ns = times.makespan_ns;
                best.clone_from(&current);
            }
        } else {
            let kind = current[device].remove(to);
            current[device].insert(from, kind);
        }
    }
    best
}

/// How much of the time is left. A search that a limit breaks off has cooled down by then.
struct Cooling {
    given: Option<Duration>,
    left: f64,
}

impl Cooling {
    fn new(control: &Control) -> Self {
        Self {
            given: control.remaining(),
            left: 1.0,
        }
    }

    /// Looks at the time, and says whether there is none left.
    fn is_over(&mut self, control: &Control) -> bool {
        if let Some((left, given)) = control.remaining().zip(self.given) {
            self.left = left.as_secs_f64() / given.as_secs_f64().max(f64::MIN_POSITIVE);
        }
        control.must_stop().is_some()
    }
}

/// A place on the critical path, and another one near by in the same list.
fn a_move(path: &[(usize, usize)], lists: &Lists, random: &mut impl Rng) -> Option<(usize, usize, usize)> {
    let (device, at) = *path.get(random.random_range(0..path.len().max(1)))?;
    let length = lists[device].len();
    if length < 2 {
        return Some((device, at, at));
    }
    let distance = random.random_range(1..=FARTHEST.min(length - 1));
    let to = match random.random::<bool>() {
        true => (at + distance).min(length - 1),
        false => at.saturating_sub(distance),
    };
    // Either what is critical moves, or what lies elsewhere moves to it.
    match random.random::<bool>() {
        true => Some((device, at, to)),
        false => Some((device, to, at)),
    }
}

/// The places, by device and position, of a chain of operations without a gap between them that ends last.
fn critical(tasks: &Tasks, lists: &Lists, times: &Times) -> Vec<(usize, usize)> {
    let mut position = vec![Vec::with_capacity(tasks.micro_batches); tasks.kinds.len()];
    for list in lists {
        for (at, &k) in list.iter().enumerate() {
            position[k].push(at);
        }
    }
    let start = |device: usize, at: usize| times.starts[device][at];
    let end = |device: usize, at: usize| start(device, at) + tasks.kinds[lists[device][at]].duration_ns;
    let last = (0..tasks.devices).filter(|&device| !lists[device].is_empty());
    let Some(mut device) = last.max_by_key(|&device| end(device, lists[device].len() - 1)) else {
        return Vec::new();
    };
    let mut at = lists[device].len() - 1;
    let mut path = Vec::new();
    loop {
        path.push((device, at));
        if start(device, at) == 0 || path.len() > tasks.count() {
            return path;
        }
        if at > 0 && end(device, at - 1) == start(device, at) {
            at -= 1;
            continue;
        }
        let k = lists[device][at];
        let m = position[k].partition_point(|&other| other < at);
        let waited = tasks.kinds[k].before.iter().find(|&&(before, delay_ns)| {
            let from = tasks.kinds[before].device;
            end(from, position[before][m]) + delay_ns == start(device, at)
        });
        let Some(&(before, _)) = waited else {
            return path;
        };
        (device, at) = (tasks.kinds[before].device, position[before][m]);
    }
}

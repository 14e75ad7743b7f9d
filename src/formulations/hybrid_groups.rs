//! The part of the hybrid program that is about a pipeline of groups.
#![doc = include_str!("../../formulations/hybrid_groups.md")]

use good_lp::{Expression, variable};

use super::Column;
use super::hybrid_program::{Places, Rows};

/// Adds all variables, rows and the objective.
pub(super) fn build(rows: &mut Rows) {
    let (slot, layers) = (rows.slot, rows.slot.chain.layers());
    let samples = f64::from(slot.samples);
    let x = rows.staging(0, &1.0.into());
    let used = rows.used(0, &x);
    let crossings = rows.crossings(0, &x);
    let busiest = rows.program.declare(variable().min(0).name("busiest"));
    let mut objective = slot.time_weight * busiest.expression();
    let mut inventory = vec![Expression::default(); rows.classes.len()];
    for k in 0..rows.stages {
        let depth = (rows.stages - k) as f64;
        let compute = rows
            .program
            .declare(variable().min(0).name(format!("compute[{k}]")));
        let ring = rows.program.declare(variable().min(0).name(format!("ring[{k}]")));
        let (mut done, mut members) = (Expression::default(), Expression::default());
        let mut stands_of = Vec::new();
        for (c, inventory) in inventory.iter_mut().enumerate() {
            let device = slot.devices[rows.classes[c][0]].clone();
            let each = rows.taken(format!("each[{k},{c}]"));
            let mut stands = Expression::default();
            for m in 1..=rows.classes[c].len() {
                let count = rows.binary(format!("count[{k},{c},{m}]"));
                let name = format!("{k},{c},{m}");
                let taken = rows.at_most(samples, format!("taken[{name}]"));
                let only = samples * count.expression();
                rows.program
                    .add_row(format!("only_if[{name}]"), taken.expression(), only);
                rows.program.add_row(
                    format!("at_most_each[{name}]"),
                    taken.expression(),
                    each.expression(),
                );
                taken.add_to(&mut done, m as f64);
                for sum in [&mut members, &mut *inventory] {
                    count.add_to(sum, m as f64);
                }
                count.add_to(&mut stands, 1.0);
                count.add_to(&mut objective, m as f64 * slot.weight(rows.classes[c][0]));
            }
            rows.program
                .add_row(format!("one_count[{k},{c}]"), stands.clone(), 1.0.into());
            let on_layer: Vec<Column> = (0..layers)
                .map(|l| rows.product(&format!("layer_samples[{k},{c},{l}]"), each, x[l][k].clone()))
                .collect();
            let on_crossing: Vec<Column> = (1..layers)
                .map(|b| {
                    let crosses = crossings[b - 1][k].expression();
                    rows.product(&format!("crossing_samples[{k},{c},{b}]"), each, crosses)
                })
                .collect();
            let time_ms = rows.stage_ms(c, &on_layer, &on_crossing);
            rows.program
                .add_row(format!("computes[{k},{c}]"), time_ms, compute.expression());
            rows.runs(&format!("{k},{c}"), c, &x, k, &stands);
            if device.memory_bytes.is_finite() {
                let mut bytes = Expression::default();
                for (l, on_layer) in on_layer.iter().enumerate() {
                    bytes += slot.chain.state_bytes[l] * x[l][k].clone();
                    let stash = slot.chain.stash_bytes[l] * slot.micro_batch * depth / samples;
                    on_layer.add_to(&mut bytes, stash);
                }
                let spare = rows.spare_bytes(depth);
                let limit = device.memory_bytes + spare - spare * stands.clone();
                rows.program.add_row(format!("memory[{k},{c}]"), bytes, limit);
            }
            stands_of.push(stands);
        }
        let all = samples * used[k].expression();
        rows.program.add_row(format!("all_samples[{k}]"), all, done);
        rings(rows, k, &x, &used[k], &members, &stands_of, ring);
        let mut stage = compute.expression() + ring.expression();
        for (b, crosses) in crossings.iter().enumerate() {
            crosses[k].add_to(&mut stage, slot.waiting_ms(b + 1));
        }
        rows.program
            .add_row(format!("keeps_up[{k}]"), stage, busiest.expression());
    }
    rows.inventory(inventory);
    rows.program.objective = objective;
}

/// The ring of a stage, by the size of its group and each class that stands there.
fn rings(
    rows: &mut Rows,
    k: usize,
    x: &Places,
    used: &Column,
    members: &Expression,
    stands: &[Expression],
    ring: Column,
) {
    let slot = rows.slot;
    let (mut one, mut counted) = (Expression::default(), Expression::default());
    for n in 1..=slot.devices.len() {
        let size = rows.binary(format!("size[{k},{n}]"));
        size.add_to(&mut one, 1.0);
        size.add_to(&mut counted, n as f64);
        for (c, stands) in stands.iter().enumerate() {
            let bandwidth = slot.devices[rows.classes[c][0]].bandwidth_bytes_per_ms;
            let all = 0..slot.chain.layers();
            let most_ms = slot.ring_ms(&all, n, bandwidth);
            let steps_ms = slot.ring_steps_ms(n, bandwidth);
            let mut ring_ms = most_ms * (size.expression() + stands.clone()) - 2.0 * most_ms + steps_ms;
            for l in all {
                let moving_ms = slot.ring_ms(&(l..l + 1), n, bandwidth) - steps_ms;
                ring_ms += moving_ms * x[l][k].clone();
            }
            rows.program
                .add_row(format!("ring_time[{k},{n},{c}]"), ring_ms, ring.expression());
        }
    }
    rows.program
        .add_row(format!("one_size[{k}]"), one.clone(), used.expression());
    rows.program
        .add_row(format!("one_size[{k},at_least]"), used.expression(), one);
    rows.program
        .add_row(format!("members[{k}]"), members.clone(), counted.clone());
    rows.program
        .add_row(format!("members[{k},at_least]"), counted, members.clone());
}

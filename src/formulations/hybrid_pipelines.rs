//! The part of the hybrid program that is about parallel pipelines.
#![doc = include_str!("../../formulations/hybrid_pipelines.md")]

use good_lp::{Expression, IntoAffineExpression, variable};

use super::Column;
use super::hybrid_program::Rows;

/// Adds all variables, rows and the objective.
pub(super) fn build(rows: &mut Rows) {
    let slot = rows.slot;
    let layers = slot.chain.layers();
    let samples = f64::from(slot.samples);
    let busiest = rows.program.declare(variable().min(0).name("busiest"));
    let compute = rows.program.declare(variable().min(0).name("compute"));
    let mut objective = slot.time_weight * busiest.expression();
    let mut inventory = vec![Expression::default(); rows.classes.len()];
    let (mut pipelines, mut done) = (Expression::default(), Expression::default());
    let mut before: Option<Column> = None;
    for p in 0..slot.devices.len() {
        let on = rows.binary(format!("on[{p}]"));
        if let Some(before) = before.replace(on) {
            rows.program
                .add_row(format!("in_turn[{p}]"), on.expression(), before.expression());
        }
        on.add_to(&mut pipelines, 1.0);
        let taken = rows.taken(format!("each[{p}]"));
        taken.add_to(&mut done, 1.0);
        let only = samples * on.expression();
        rows.program
            .add_row(format!("only_if[{p}]"), taken.expression(), only);
        let x = rows.staging(p, &on.expression());
        let used = rows.used(p, &x);
        let crossings = rows.crossings(p, &x);
        for k in 0..rows.stages {
            let depth = (rows.stages - k) as f64;
            let on_layer: Vec<Column> = (0..layers)
                .map(|l| rows.product(&format!("layer_samples[{p},{k},{l}]"), taken, x[l][k].clone()))
                .collect();
            let on_crossing: Vec<Column> = (1..layers)
                .map(|b| {
                    let crosses = crossings[b - 1][k].expression();
                    rows.product(&format!("crossing_samples[{p},{k},{b}]"), taken, crosses)
                })
                .collect();
            let mut devices = Expression::default();
            for (c, inventory) in inventory.iter_mut().enumerate() {
                let place = format!("{p},{k},{c}");
                let device = slot.devices[rows.classes[c][0]].clone();
                let runs = rows.binary(format!("runs_on[{place}]"));
                for sum in [&mut devices, &mut *inventory] {
                    runs.add_to(sum, 1.0);
                }
                runs.add_to(&mut objective, slot.weight(rows.classes[c][0]));
                // On a class that does not run the stage, its time must not count: at most all samples of all layers.
                let time_ms = rows.stage_ms(c, &on_layer, &on_crossing);
                let most_ms: f64 = (&time_ms).linear_coefficients().map(|(_, ms)| ms * samples).sum();
                let counted = time_ms + most_ms * runs.expression() - most_ms;
                rows.program
                    .add_row(format!("computes[{place}]"), counted, compute.expression());
                rows.runs(&place, c, &x, k, &runs.expression());
                if device.memory_bytes.is_finite() {
                    let mut bytes = Expression::default();
                    for (l, of_layer) in x.iter().enumerate() {
                        let stash = slot.chain.stash_bytes[l] * slot.micro_batch * depth;
                        bytes += (slot.chain.state_bytes[l] + stash) * of_layer[k].clone();
                    }
                    let spare = rows.spare_bytes(depth);
                    let limit = device.memory_bytes + spare - spare * runs.expression();
                    rows.program.add_row(format!("memory[{place}]"), bytes, limit);
                }
            }
            rows.program.add_row(
                format!("one_device[{p},{k}]"),
                devices.clone(),
                used[k].expression(),
            );
            rows.program.add_row(
                format!("one_device[{p},{k},at_least]"),
                used[k].expression(),
                devices,
            );
        }
    }
    rows.program.add_row("all_samples".into(), samples.into(), done);
    let (mut one, mut counted) = (Expression::default(), Expression::default());
    let mut stage = compute.expression();
    for n in 1..=slot.devices.len() {
        let size = rows.binary(format!("size[{n}]"));
        size.add_to(&mut one, 1.0);
        size.add_to(&mut counted, n as f64);
        size.add_to(
            &mut stage,
            slot.ring_ms(&(0..layers), n, slot.backbone_bytes_per_ms),
        );
    }
    rows.program
        .add_row("one_size".into(), one, Expression::from(1.0));
    rows.program.add_row("members".into(), pipelines, counted);
    rows.program
        .add_row("keeps_up".into(), stage, busiest.expression());
    rows.inventory(inventory);
    rows.program.objective = objective;
}

//! The part of the hybrid program that is about parallel pipelines.
#![doc = include_str!("../../formulations/hybrid_pipelines.md")]

use good_lp::{Expression, IntoAffineExpression, variable};

use super::Column;
use super::hybrid_program::{Pipeline, Place, Rows, StageSamples};

/// Adds all variables, rows and the objective.
pub(super) fn build(rows: &mut Rows) {
    let busiest = rows.program.declare(variable().min(0).name("busiest"));
    let compute = rows.program.declare(variable().min(0).name("compute"));
    let mut pipelines = Pipelines {
        objective: rows.slot.time_weight * busiest.expression(),
        inventory: vec![Expression::default(); rows.classes.len()],
        number: Expression::default(),
        done: Expression::default(),
        rows,
        compute,
    };
    let mut before: Option<Column> = None;
    for p in 0..pipelines.rows.slot.devices.len() {
        before = Some(pipelines.pipeline(p, before));
    }
    let Pipelines {
        rows,
        objective,
        inventory,
        number,
        done,
        ..
    } = pipelines;
    let samples = f64::from(rows.slot.samples);
    rows.program.add_row("all_samples".into(), samples.into(), done);
    let exchange_ms = exchange(rows, number);
    let iteration_ms = compute.expression() + exchange_ms;
    rows.program
        .add_row("keeps_up".into(), iteration_ms, busiest.expression());
    rows.inventory(inventory);
    rows.program.objective = objective;
}

/// What the functions below share.
struct Pipelines<'a, 'r> {
    rows: &'a mut Rows<'r>,
    compute: Column,
    objective: Expression,
    /// Devices in use, by class.
    inventory: Vec<Expression>,
    /// Pipelines in use.
    number: Expression,
    /// Samples that they take.
    done: Expression,
}

impl Pipelines<'_, '_> {
    /// A pipeline, used only if the one before it is. Returns whether it is.
    fn pipeline(&mut self, p: usize, before: Option<Column>) -> Column {
        let on = self.rows.binary(format!("on[{p}]"));
        if let Some(before) = before {
            self.rows
                .program
                .add_row(format!("in_turn[{p}]"), on.expression(), before.expression());
        }
        on.add_to(&mut self.number, 1.0);
        let taken = self.rows.taken(format!("each[{p}]"));
        taken.add_to(&mut self.done, 1.0);
        let only = f64::from(self.rows.slot.samples) * on.expression();
        self.rows
            .program
            .add_row(format!("only_if[{p}]"), taken.expression(), only);
        let pipeline = self.rows.pipeline(p, &on.expression());
        for k in 0..self.rows.stages {
            let indices = format!("{p},{k}");
            let samples = self.rows.samples_at(&indices, taken, &pipeline, k);
            self.stage(&indices, k, &pipeline, &samples);
        }
        on
    }

    /// A stage that holds layers runs on one device.
    fn stage(&mut self, indices: &str, k: usize, pipeline: &Pipeline, samples: &StageSamples) {
        let mut devices = Expression::default();
        for c in 0..self.rows.classes.len() {
            let indices = format!("{indices},{c}");
            let runs = self.rows.binary(format!("runs_on[{indices}]"));
            for sum in [&mut devices, &mut self.inventory[c]] {
                runs.add_to(sum, 1.0);
            }
            let weight = self.rows.slot.weight(self.rows.classes[c][0]);
            runs.add_to(&mut self.objective, weight);
            let place = Place {
                indices,
                stage: k,
                class: c,
                stands: runs.expression(),
            };
            self.class(&place, pipeline, samples);
        }
        let used = pipeline.used[k].expression();
        let program = &mut self.rows.program;
        program.add_row(format!("one_device[{indices}]"), devices.clone(), used.clone());
        program.add_row(format!("one_device[{indices},at_least]"), used, devices);
    }

    /// What a stage takes and holds if it runs on a class.
    fn class(&mut self, place: &Place, pipeline: &Pipeline, samples: &StageSamples) {
        let (rows, k) = (&mut *self.rows, place.stage);
        let (slot, depth) = (rows.slot, rows.depth(k));
        // On a class that does not run the stage, its time must not count: at most all samples of all layers.
        let time_ms = rows.stage_ms(place.class, samples);
        let all = f64::from(slot.samples);
        let most_ms: f64 = (&time_ms).linear_coefficients().map(|(_, ms)| ms * all).sum();
        let counted = time_ms + most_ms * place.stands.clone() - most_ms;
        let name = format!("computes[{}]", place.indices);
        rows.program.add_row(name, counted, self.compute.expression());
        rows.runs(place, &pipeline.x);
        let mut bytes = Expression::default();
        for (l, of_layer) in pipeline.x.iter().enumerate() {
            let stash = slot.chain.stash_bytes[l] * slot.micro_batch * depth;
            bytes += (slot.chain.state_bytes[l] + stash) * of_layer[k].clone();
        }
        rows.memory(place, bytes);
    }
}

/// The exchange of gradients between so many pipelines, in ms, by their number.
fn exchange(rows: &mut Rows, pipelines: Expression) -> Expression {
    let slot = rows.slot;
    let layers = 0..slot.chain.layers();
    let (mut one, mut counted, mut ring_ms) = Default::default();
    for n in 1..=slot.devices.len() {
        let size = rows.binary(format!("size[{n}]"));
        size.add_to(&mut one, 1.0);
        size.add_to(&mut counted, n as f64);
        size.add_to(&mut ring_ms, slot.ring_ms(&layers, n, slot.backbone_bytes_per_ms));
    }
    rows.program.add_row("one_size".into(), one, 1.0.into());
    rows.program.add_row("members".into(), pipelines, counted);
    ring_ms
}

//! The part of the hybrid program that is about a pipeline of groups.
#![doc = include_str!("../../formulations/hybrid_groups.md")]

use good_lp::{Expression, variable};

use super::Column;
use super::hybrid_program::{Pipeline, Place, Rows};

/// Adds all variables, rows and the objective.
pub(super) fn build(rows: &mut Rows) {
    let pipeline = rows.pipeline(0, &1.0.into());
    let busiest = rows.program.declare(variable().min(0).name("busiest"));
    let mut groups = Groups {
        objective: rows.slot.time_weight * busiest.expression(),
        inventory: vec![Expression::default(); rows.classes.len()],
        rows,
        pipeline,
        busiest,
    };
    for k in 0..groups.rows.stages {
        groups.stage(k);
    }
    let Groups {
        rows,
        objective,
        inventory,
        ..
    } = groups;
    rows.inventory(inventory);
    rows.program.objective = objective;
}

/// What the functions below share.
struct Groups<'a, 'r> {
    rows: &'a mut Rows<'r>,
    pipeline: Pipeline,
    busiest: Column,
    objective: Expression,
    /// Devices in use, by class.
    inventory: Vec<Expression>,
}

/// What the classes of a stage add up to.
#[derive(Default)]
struct Group {
    /// Samples that its members take.
    done: Expression,
    /// How many there are.
    members: Expression,
    /// By class, 1 if it has members here.
    stands: Vec<Expression>,
}

impl Groups<'_, '_> {
    /// The group of a stage, its ring, and what both take.
    fn stage(&mut self, k: usize) {
        let compute = self.time(format!("compute[{k}]"));
        let ring = self.time(format!("ring[{k}]"));
        let mut group = Group::default();
        for c in 0..self.rows.classes.len() {
            self.class(k, c, compute, &mut group);
        }
        let samples = f64::from(self.rows.slot.samples);
        let all = samples * self.pipeline.used[k].expression();
        self.rows
            .program
            .add_row(format!("all_samples[{k}]"), all, group.done.clone());
        let sizes: Vec<Column> = (1..=self.rows.slot.devices.len())
            .map(|n| self.rows.binary(format!("size[{k},{n}]")))
            .collect();
        self.rings(k, &group, &sizes, ring);
        self.sizes(k, &group, &sizes);
        let mut stage = compute.expression() + ring.expression();
        for (b, crosses) in self.pipeline.crossings.iter().enumerate() {
            crosses[k].add_to(&mut stage, self.rows.slot.waiting_ms(b + 1));
        }
        self.rows
            .program
            .add_row(format!("keeps_up[{k}]"), stage, self.busiest.expression());
    }

    fn time(&mut self, name: String) -> Column {
        self.rows.program.declare(variable().min(0).name(name))
    }

    /// The members of one class in the group of a stage: how many, what each takes, and how long that takes.
    fn class(&mut self, k: usize, c: usize, compute: Column, group: &mut Group) {
        let each = self.rows.taken(format!("each[{k},{c}]"));
        let place = Place {
            indices: format!("{k},{c}"),
            stage: k,
            class: c,
            stands: self.counts(k, c, each, group),
        };
        let (rows, pipeline) = (&mut *self.rows, &self.pipeline);
        let (slot, depth) = (rows.slot, rows.depth(k));
        let samples = rows.samples_at(&place.indices, each, pipeline, k);
        let time_ms = rows.stage_ms(c, &samples);
        rows.program
            .add_row(format!("computes[{k},{c}]"), time_ms, compute.expression());
        rows.runs(&place, &pipeline.x);
        let mut bytes = Expression::default();
        for (l, on_layer) in samples.on_layer.iter().enumerate() {
            bytes += slot.chain.state_bytes[l] * pipeline.x[l][k].clone();
            let stash = slot.chain.stash_bytes[l] * slot.micro_batch * depth / f64::from(slot.samples);
            on_layer.add_to(&mut bytes, stash);
        }
        rows.memory(&place, bytes);
        group.stands.push(place.stands);
    }

    /// How many members of a class there are, each taking as much. Returns 1 if there are any, else 0.
    fn counts(&mut self, k: usize, c: usize, each: Column, group: &mut Group) -> Expression {
        let rows = &mut *self.rows;
        let samples = f64::from(rows.slot.samples);
        let mut stands = Expression::default();
        for m in 1..=rows.classes[c].len() {
            let name = format!("{k},{c},{m}");
            let count = rows.binary(format!("count[{name}]"));
            let taken = rows.at_most(samples, format!("taken[{name}]"));
            let only = samples * count.expression();
            rows.program
                .add_row(format!("only_if[{name}]"), taken.expression(), only);
            rows.program.add_row(
                format!("at_most_each[{name}]"),
                taken.expression(),
                each.expression(),
            );
            taken.add_to(&mut group.done, m as f64);
            for sum in [&mut group.members, &mut self.inventory[c]] {
                count.add_to(sum, m as f64);
            }
            count.add_to(&mut stands, 1.0);
            count.add_to(
                &mut self.objective,
                m as f64 * rows.slot.weight(rows.classes[c][0]),
            );
        }
        rows.program
            .add_row(format!("one_count[{k},{c}]"), stands.clone(), 1.0.into());
        stands
    }

    /// The ring of a stage, by the size of its group and each class that stands there.
    fn rings(&mut self, k: usize, group: &Group, sizes: &[Column], ring: Column) {
        let (rows, x) = (&mut *self.rows, &self.pipeline.x);
        let slot = rows.slot;
        let all = 0..slot.chain.layers();
        for (n, size) in (1..).zip(sizes) {
            for (c, stands) in group.stands.iter().enumerate() {
                let bandwidth = slot.devices[rows.classes[c][0]].bandwidth_bytes_per_ms;
                let most_ms = slot.ring_ms(&all, n, bandwidth);
                let steps_ms = slot.ring_steps_ms(n, bandwidth);
                let mut ring_ms = most_ms * (size.expression() + stands.clone()) - 2.0 * most_ms + steps_ms;
                for l in all.clone() {
                    let moving_ms = slot.ring_ms(&(l..l + 1), n, bandwidth) - steps_ms;
                    ring_ms += moving_ms * x[l][k].clone();
                }
                rows.program
                    .add_row(format!("ring_time[{k},{n},{c}]"), ring_ms, ring.expression());
            }
        }
    }

    /// The group of a stage has one size, if any: the number of its members.
    fn sizes(&mut self, k: usize, group: &Group, sizes: &[Column]) {
        let (mut one, mut counted) = (Expression::default(), Expression::default());
        for (n, size) in (1..).zip(sizes) {
            size.add_to(&mut one, 1.0);
            size.add_to(&mut counted, f64::from(n));
        }
        let used = self.pipeline.used[k].expression();
        let members = group.members.clone();
        let program = &mut self.rows.program;
        program.add_row(format!("one_size[{k}]"), one.clone(), used.clone());
        program.add_row(format!("one_size[{k},at_least]"), used, one);
        program.add_row(format!("members[{k}]"), members.clone(), counted.clone());
        program.add_row(format!("members[{k},at_least]"), counted, members);
    }
}

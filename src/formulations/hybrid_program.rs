//! The program of a slot of hybrid parallelism, in both readings of the hierarchy.
#![doc = include_str!("../../formulations/hybrid_program.md")]

use good_lp::{Expression, variable};

use super::{Column, Program};
use super::{hybrid_groups, hybrid_pipelines};
use crate::model::units::NS_PER_MS;
use crate::problem::hybrid::counts::{Counts, TooMany};
use crate::problem::hybrid::{Reading, Slot};

/// Builds the program of a slot; its objective is `V time + Σ Q cost` with times in ms.
///
/// # Errors
///
/// [`TooMany`] where there are too many classes of devices.
pub fn build(slot: &Slot) -> Result<Program, TooMany> {
    let counts = Counts::new(slot)?;
    let mut rows = Rows {
        slot,
        program: Program::new(NS_PER_MS),
        stages: slot.devices.len().min(slot.chain.layers()),
        classes: counts.classes.iter().map(|class| class.devices.clone()).collect(),
    };
    match slot.reading {
        Reading::PipelineOfGroups => hybrid_groups::build(&mut rows),
        Reading::ParallelPipelines => hybrid_pipelines::build(&mut rows),
    }
    Ok(rows.program)
}

/// A program that grows, and what its rows are about.
pub(super) struct Rows<'a> {
    pub(super) slot: &'a Slot<'a>,
    pub(super) program: Program,
    /// Most stages of a pipeline.
    pub(super) stages: usize,
    /// Devices of each class, by position.
    pub(super) classes: Vec<Vec<usize>>,
}

/// `x_lk`, by layer and stage.
pub(super) type Places = Vec<Vec<Expression>>;

/// The variables that say how a pipeline is cut.
pub(super) struct Pipeline {
    pub(super) x: Places,
    /// Whether stages hold layers.
    pub(super) used: Vec<Column>,
    /// For each inner boundary and stage, 1 if exactly one of its two layers lies there.
    pub(super) crossings: Vec<Vec<Column>>,
}

/// Samples that a stage takes, times what lies there.
pub(super) struct StageSamples {
    /// By layer.
    pub(super) on_layer: Vec<Column>,
    /// By inner boundary.
    pub(super) on_crossing: Vec<Column>,
}

/// A place for a class of devices: a stage.
pub(super) struct Place {
    /// Its indices in names.
    pub(super) indices: String,
    pub(super) stage: usize,
    pub(super) class: usize,
    /// 1 if the class stands there, else 0.
    pub(super) stands: Expression,
}

impl Rows<'_> {
    pub(super) fn binary(&mut self, name: String) -> Column {
        self.program.declare(variable().binary().name(name))
    }

    pub(super) fn at_most(&mut self, most: f64, name: String) -> Column {
        self.program.declare(variable().min(0).max(most).name(name))
    }

    /// Samples: real or whole, up to a batch.
    pub(super) fn taken(&mut self, name: String) -> Column {
        let definition = variable().min(0).max(f64::from(self.slot.samples)).name(name);
        let whole = self.slot.whole;
        self.program
            .declare(if whole { definition.integer() } else { definition })
    }

    /// The variables and rows of how a pipeline is cut: every layer is in one stage if `on` is 1, in none if it is 0.
    pub(super) fn pipeline(&mut self, pipeline: usize, on: &Expression) -> Pipeline {
        let x = self.staging(pipeline, on);
        let used = self.used(pipeline, &x);
        let crossings = self.crossings(pipeline, &x);
        Pipeline { x, used, crossings }
    }

    /// Prefix binaries of a pipeline: every layer in one stage if `on` is 1, in none if it is 0.
    fn staging(&mut self, pipeline: usize, on: &Expression) -> Places {
        let layers = self.slot.chain.layers();
        let mut prefix: Vec<Vec<Expression>> = Vec::new();
        for l in 0..layers {
            let inner =
                (0..self.stages - 1).map(|k| self.binary(format!("prefix[{pipeline},{l},{k}]")).expression());
            let mut of_layer: Vec<Expression> = inner.collect();
            of_layer.push(on.clone());
            for k in 1..self.stages {
                let (before, after) = (of_layer[k - 1].clone(), of_layer[k].clone());
                self.program
                    .add_row(format!("monotone[{pipeline},{l},{k}]"), before, after);
            }
            if let Some(previous) = prefix.last() {
                for k in 0..self.stages - 1 {
                    let name = format!("precedence[{pipeline},{l},{k}]");
                    self.program
                        .add_row(name, of_layer[k].clone(), previous[k].clone());
                }
            }
            prefix.push(of_layer);
        }
        let place = |of_layer: Vec<Expression>| {
            let before = |k: usize| {
                if k == 0 {
                    Expression::default()
                } else {
                    of_layer[k - 1].clone()
                }
            };
            (0..of_layer.len())
                .map(|k| of_layer[k].clone() - before(k))
                .collect()
        };
        prefix.into_iter().map(place).collect()
    }

    /// Whether stages hold layers; those that do not come first, so that position says the depth.
    fn used(&mut self, pipeline: usize, x: &Places) -> Vec<Column> {
        let used: Vec<Column> = (0..self.stages)
            .map(|k| self.binary(format!("used[{pipeline},{k}]")))
            .collect();
        for k in 0..self.stages {
            let mut all = Expression::default();
            for (l, of_layer) in x.iter().enumerate() {
                all += of_layer[k].clone();
                let name = format!("holds[{pipeline},{l},{k}]");
                self.program
                    .add_row(name, of_layer[k].clone(), used[k].expression());
            }
            self.program
                .add_row(format!("not_empty[{pipeline},{k}]"), used[k].expression(), all);
            if k > 0 {
                let name = format!("empty_first[{pipeline},{k}]");
                self.program
                    .add_row(name, used[k - 1].expression(), used[k].expression());
            }
        }
        used
    }

    /// For each inner boundary and stage, 1 if exactly one of its two layers lies there.
    fn crossings(&mut self, pipeline: usize, x: &Places) -> Vec<Vec<Column>> {
        let mut crossings = Vec::new();
        for b in 1..x.len() {
            let mut of_boundary = Vec::new();
            let sides = x[b - 1].iter().zip(&x[b]).enumerate();
            for (k, (before, after)) in sides {
                let crosses = self.at_most(1.0, format!("crosses[{pipeline},{b},{k}]"));
                let name = |way: &str| format!("{way}[{pipeline},{b},{k}]");
                self.program
                    .add_row(name("sent"), before.clone() - after.clone(), crosses.expression());
                self.program.add_row(
                    name("received"),
                    after.clone() - before.clone(),
                    crosses.expression(),
                );
                of_boundary.push(crosses);
            }
            crossings.push(of_boundary);
        }
        crossings
    }

    /// A product of samples and a number from 0 to 1 that is whole in plans: at least the samples where it is 1.
    fn product(&mut self, name: &str, samples: Column, chosen: Expression) -> Column {
        let most = f64::from(self.slot.samples);
        let product = self.at_most(most, format!("of_{name}"));
        let lower = samples.expression() - most + most * chosen;
        self.program.add_row(name.into(), lower, product.expression());
        product
    }

    /// The products of samples with the layers and crossings of a stage; `indices` are those of the samples.
    pub(super) fn samples_at(
        &mut self,
        indices: &str,
        samples: Column,
        pipeline: &Pipeline,
        stage: usize,
    ) -> StageSamples {
        let of_layer = pipeline.x.iter().enumerate().map(|(l, of_layer)| {
            let lies = of_layer[stage].clone();
            self.product(&format!("layer_samples[{indices},{l}]"), samples, lies)
        });
        let on_layer = of_layer.collect();
        let of_boundary = pipeline.crossings.iter().enumerate().map(|(b, of_boundary)| {
            let crosses = of_boundary[stage].expression();
            self.product(
                &format!("crossing_samples[{indices},{}]", b + 1),
                samples,
                crosses,
            )
        });
        let on_crossing = of_boundary.collect();
        StageSamples {
            on_layer,
            on_crossing,
        }
    }

    /// Time of work and links for samples at one stage on a class, in ms.
    pub(super) fn stage_ms(&self, class: usize, samples: &StageSamples) -> Expression {
        let position = self.classes[class][0];
        let device = &self.slot.devices[position];
        let mut time_ms = Expression::default();
        for (l, samples) in samples.on_layer.iter().enumerate() {
            let work_ms = self.slot.chain.work_ms[device.kind][l];
            // What the class cannot run is kept away from it by a row of its own.
            if work_ms.is_finite() {
                samples.add_to(&mut time_ms, work_ms * device.slowdown);
            }
        }
        for (b, samples) in samples.on_crossing.iter().enumerate() {
            samples.add_to(&mut time_ms, self.slot.moving_ms(position, b + 1));
        }
        time_ms
    }

    /// A class that stands at a stage can run its layers.
    pub(super) fn runs(&mut self, place: &Place, x: &Places) {
        let kind = self.slot.devices[self.classes[place.class][0]].kind;
        for (l, of_layer) in x.iter().enumerate() {
            if self.slot.chain.work_ms[kind][l].is_infinite() {
                let both = of_layer[place.stage].clone() + place.stands.clone();
                self.program
                    .add_row(format!("runs[{},{l}]", place.indices), both, 1.0.into());
            }
        }
    }

    /// A class that stands at a stage can hold what it holds there.
    pub(super) fn memory(&mut self, place: &Place, bytes: Expression) {
        let memory_bytes = self.slot.devices[self.classes[place.class][0]].memory_bytes;
        if memory_bytes.is_finite() {
            let spare = self.spare_bytes(self.depth(place.stage));
            let limit = memory_bytes + spare - spare * place.stands.clone();
            self.program
                .add_row(format!("memory[{}]", place.indices), bytes, limit);
        }
    }

    /// Micro-batches in flight at a stage.
    pub(super) fn depth(&self, stage: usize) -> f64 {
        (self.stages - stage) as f64
    }

    /// More than anything held at a depth.
    fn spare_bytes(&self, depth: f64) -> f64 {
        let chain = self.slot.chain;
        let stash: f64 = chain.stash_bytes.iter().sum();
        chain.state_bytes.iter().sum::<f64>() + stash * self.slot.micro_batch * depth + 1.0
    }

    /// There are enough devices of each class.
    pub(super) fn inventory(&mut self, inventory: Vec<Expression>) {
        for (c, counted) in inventory.into_iter().enumerate() {
            let there = Expression::from(self.classes[c].len() as f64);
            self.program.add_row(format!("inventory[{c}]"), counted, there);
        }
    }
}

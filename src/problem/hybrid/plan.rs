//! Plans of a slot: layouts, and what they take once samples are divided.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::shares::{self, Taker};
use super::{Reading, Slot};

/// A stage: consecutive layers and the devices that run them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Stage {
    /// Layers, by position.
    pub layers: Range<usize>,
    /// Devices, by position in the slot.
    pub devices: Vec<usize>,
}

/// Pipelines of stages, before samples are divided. [`Reading::PipelineOfGroups`] has one pipeline;
/// [`Reading::ParallelPipelines`] has one device a stage.
pub type Layout = Vec<Vec<Stage>>;

/// How samples are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// As the closed form says: the least time.
    Best,
    /// The same to each.
    Even,
    /// By speed of computation, whatever links and memory say.
    Proportional,
}

/// A layout with its data shares.
#[derive(Clone, Debug, PartialEq)]
pub struct HybridPlan {
    /// Who runs which layers.
    pub layout: Layout,
    /// Samples of a batch: by stage and device of the only pipeline, or one list with a number for each pipeline.
    pub samples: Vec<Vec<f64>>,
    /// Time of a batch in ms.
    pub time_ms: f64,
    /// Cost by budget.
    pub costs: Vec<f64>,
}

impl HybridPlan {
    /// `V time + Σ Q_i cost_i` in a slot.
    pub fn value(&self, slot: &Slot) -> f64 {
        let costs = self.costs.iter().zip(&slot.queues);
        slot.time_weight * self.time_ms + costs.map(|(cost, queue)| cost * queue).sum::<f64>()
    }
}

/// The plan of a layout, or `None` where memory or a rule of division rules it out.
pub fn plan_of(slot: &Slot, layout: Layout, rule: Rule) -> Option<HybridPlan> {
    let (samples, time_ms) = match slot.reading {
        Reading::ParallelPipelines => parallel_pipelines(slot, &layout, rule)?,
        Reading::PipelineOfGroups => pipeline_of_groups(slot, &layout, rule)?,
    };
    let mut costs = vec![0.0; slot.queues.len()];
    for &device in layout.iter().flatten().flat_map(|stage| &stage.devices) {
        let prices = &slot.devices[device].prices;
        costs
            .iter_mut()
            .zip(prices)
            .for_each(|(cost, price)| *cost += price);
    }
    time_ms.is_finite().then_some(HybridPlan {
        layout,
        samples,
        time_ms,
        costs,
    })
}

/// Samples as a rule divides them.
fn divided(slot: &Slot, takers: &[Taker], speeds: &[f64], rule: Rule) -> Option<Vec<f64>> {
    let by_speed = |speeds: &[f64]| {
        // Whoever has sample times in proportion to what the rule looks at gets the rule's shares from the closed form.
        let seen: Vec<Taker> = speeds
            .iter()
            .map(|speed| Taker {
                sample_ms: 1.0 / speed,
                room: f64::INFINITY,
            })
            .collect();
        shares::divide(&seen, slot.samples, slot.whole)
    };
    let shares = match rule {
        Rule::Best => shares::divide(takers, slot.samples, slot.whole),
        Rule::Even => by_speed(&vec![1.0; takers.len()]),
        Rule::Proportional => by_speed(speeds),
    }?;
    let fits = shares
        .iter()
        .zip(takers)
        .all(|(share, taker)| *share <= taker.room);
    fits.then_some(shares)
}

type Divided = (Vec<Vec<f64>>, f64);

fn pipeline_of_groups(slot: &Slot, layout: &Layout, rule: Rule) -> Option<Divided> {
    let stages = layout.first()?;
    let mut samples = Vec::with_capacity(stages.len());
    let mut time_ms = 0.0_f64;
    for (k, stage) in stages.iter().enumerate() {
        let takers: Option<Vec<Taker>> = stage
            .devices
            .iter()
            .map(|&device| {
                Some(Taker {
                    sample_ms: slot.sample_ms(device, &stage.layers),
                    room: slot.room(device, &stage.layers, stages.len() - k)?,
                })
            })
            .collect();
        let takers = takers?;
        let speeds: Vec<f64> = stage
            .devices
            .iter()
            .map(|&device| 1.0 / work_ms(slot, device, &stage.layers))
            .collect();
        let shares = divided(slot, &takers, &speeds, rule)?;
        let links = stage
            .devices
            .iter()
            .map(|&d| slot.devices[d].bandwidth_bytes_per_ms);
        let slowest = links.fold(f64::INFINITY, f64::min);
        let ring_ms = slot.ring_ms(&stage.layers, stage.devices.len(), slowest);
        let waiting_ms = slot.waiting_ms(stage.layers.start) + slot.waiting_ms(stage.layers.end);
        time_ms = time_ms.max(shares::finish(&takers, &shares) + waiting_ms + ring_ms);
        samples.push(shares);
    }
    Some((samples, time_ms))
}

fn parallel_pipelines(slot: &Slot, layout: &Layout, rule: Rule) -> Option<Divided> {
    let mut takers = Vec::with_capacity(layout.len());
    let mut speeds = Vec::with_capacity(layout.len());
    for stages in layout {
        let (mut slowest_ms, mut slowest_work_ms) = (0.0_f64, 0.0_f64);
        for (k, stage) in stages.iter().enumerate() {
            let device = *stage.devices.first()?;
            slot.room(device, &stage.layers, stages.len() - k)?;
            slowest_ms = slowest_ms.max(slot.sample_ms(device, &stage.layers));
            slowest_work_ms = slowest_work_ms.max(work_ms(slot, device, &stage.layers));
        }
        takers.push(Taker {
            sample_ms: slowest_ms,
            room: f64::from(slot.samples),
        });
        speeds.push(1.0 / slowest_work_ms);
    }
    let shares = divided(slot, &takers, &speeds, rule)?;
    let ring_ms = slot.ring_ms(
        &(0..slot.chain.layers()),
        layout.len(),
        slot.backbone_bytes_per_ms,
    );
    let time_ms = shares::finish(&takers, &shares) + ring_ms;
    Some((vec![shares], time_ms))
}

/// Time of a sample without transfers, in ms.
fn work_ms(slot: &Slot, device: usize, layers: &Range<usize>) -> f64 {
    let device = &slot.devices[device];
    let work: f64 = slot.chain.work_ms[device.kind][layers.clone()].iter().sum();
    (work * device.slowdown).max(super::LEAST_SAMPLE_MS)
}

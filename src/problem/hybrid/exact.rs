//! The per-slot program, solved exactly: the least time for every number of devices of each class, then the best of them.

use super::counts::{Counts, TooMany};
use super::groups::Groups;
use super::pipelines::Pipelines;
use super::plan::{HybridPlan, Rule, plan_of};
use super::{Reading, Slot};

/// The least time of a batch for every number of devices of each class; it depends on neither `V` nor `Q`.
pub struct Front {
    /// Classes of devices and the vectors that count them.
    pub counts: Counts,
    tables: Tables,
}

enum Tables {
    Groups(Groups),
    Pipelines(Pipelines),
}

impl Front {
    /// Solves a slot for all numbers of devices.
    ///
    /// # Errors
    ///
    /// [`TooMany`] where there are too many classes of devices.
    pub fn new(slot: &Slot) -> Result<Self, TooMany> {
        let counts = Counts::new(slot)?;
        let tables = match slot.reading {
            Reading::ParallelPipelines => Tables::Pipelines(Pipelines::new(slot, &counts)),
            Reading::PipelineOfGroups => Tables::Groups(Groups::new(slot, &counts)),
        };
        Ok(Self { counts, tables })
    }

    /// The numbers of count vectors that some plan uses exactly, with the least time of a batch in ms.
    pub fn points(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let all = 1..self.counts.vectors.len();
        all.map(|n| (n, self.time_ms(n)))
            .filter(|(_, time_ms)| time_ms.is_finite())
    }

    fn time_ms(&self, n: usize) -> f64 {
        match &self.tables {
            Tables::Groups(tables) => tables.time_ms(n),
            Tables::Pipelines(tables) => tables.time_ms(n),
        }
    }

    /// The plan of one point.
    pub fn plan(&self, slot: &Slot, n: usize) -> Option<HybridPlan> {
        let layout = match &self.tables {
            Tables::Groups(tables) => tables.layout(&self.counts, n),
            Tables::Pipelines(tables) => tables.layout(&self.counts, n),
        };
        plan_of(slot, layout, Rule::Best)
    }

    /// The plan of least `V time + Σ Q_i cost_i` for the weights of a slot in the same state.
    pub fn best(&self, slot: &Slot) -> Option<HybridPlan> {
        let value = |&(n, time_ms): &(usize, f64)| slot.time_weight * time_ms + self.counts.weight(slot, n);
        let least = self.points().min_by(|a, b| value(a).total_cmp(&value(b)))?;
        self.plan(slot, least.0)
    }
}

/// The best plan of a slot; `None` if the devices that are there cannot run the network.
///
/// # Errors
///
/// [`TooMany`] where there are too many classes of devices.
pub fn solve(slot: &Slot) -> Result<Option<HybridPlan>, TooMany> {
    Ok(Front::new(slot)?.best(slot))
}

//! Layouts that static policies keep, by position in the scenario: planned once, for mean speeds, links and prices.

use super::known::Known;
use super::pipedream;
use super::policies::Layouts;
use super::scenario::Scenario;
use crate::problem::hybrid::counts::TooMany;
use crate::problem::hybrid::plan::Layout;

/// The layouts; empty where nothing runs in the mean state.
pub(crate) struct Fixed {
    myopic: Layout,
    pipedream: Layout,
}

impl Fixed {
    /// Plans both. PipeDream's is on the devices of the myopic one, so that both pay the same.
    ///
    /// # Errors
    ///
    /// [`TooMany`] where there are too many classes of devices.
    pub(crate) fn new(scenario: &Scenario) -> Result<Self, TooMany> {
        let mean = scenario.mean();
        let slot = scenario.slot(&mean, 1.0, vec![0.0; scenario.budgets.len()]);
        let mut known = Known::new(scenario);
        let plan = known.plans(&mean)?.1.best_within(&scenario.per_slot);
        let myopic = plan.map(|plan| plan.layout).unwrap_or_default();
        let stages = myopic.iter().flatten();
        let mut devices: Vec<usize> = stages.flat_map(|stage| stage.devices.clone()).collect();
        devices.sort_unstable();
        Ok(Self {
            pipedream: pipedream::layout(&slot, &devices).unwrap_or_default(),
            myopic,
        })
    }

    /// One of the layouts.
    pub(crate) fn layout(&self, which: Layouts) -> &Layout {
        match which {
            Layouts::Myopic => &self.myopic,
            Layouts::PipeDream => &self.pipedream,
        }
    }
}

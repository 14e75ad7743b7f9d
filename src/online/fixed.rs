//! Layouts that static policies keep, by position in the scenario.

use super::known::frontier;
use super::pipedream;
use super::policies::{self, Layouts};
use super::scenario::Scenario;
use super::states::State;
use crate::hybrid::counts::TooMany;
use crate::hybrid::plan::Layout;

/// The layouts, planned once in the nominal state; empty where nothing runs there.
pub struct Fixed {
    myopic: Layout,
    pipedream: Layout,
}

impl Fixed {
    /// Plans both. PipeDream's is on the devices of the myopic one, so that both pay the same.
    ///
    /// # Errors
    ///
    /// [`TooMany`] where there are too many classes of devices.
    pub fn new(scenario: &Scenario) -> Result<Self, TooMany> {
        let nominal = State::nominal(scenario.devices.len());
        let slot = scenario.slot(&nominal, 1.0, vec![0.0; scenario.budgets.len()]);
        let frontier = frontier(&slot)?;
        let plan = policies::within(&frontier, &scenario.per_slot);
        let myopic = plan.map(|plan| plan.layout.clone()).unwrap_or_default();
        let stages = myopic.iter().flatten();
        let mut devices: Vec<usize> = stages.flat_map(|stage| stage.devices.clone()).collect();
        devices.sort_unstable();
        Ok(Self {
            pipedream: pipedream::layout(&slot, &devices).unwrap_or_default(),
            myopic,
        })
    }

    /// One of the layouts.
    pub fn layout(&self, which: Layouts) -> &Layout {
        match which {
            Layouts::Myopic => &self.myopic,
            Layouts::PipeDream => &self.pipedream,
        }
    }
}

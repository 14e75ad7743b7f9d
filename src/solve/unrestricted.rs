//! What the region of a framework, or equal degrees, cost against plans of no region.

use std::time::Duration;

use crate::exact;
use crate::model::settings::Settings;
use crate::problem::control::Control;
use crate::problem::plan::{Plan, Unrestricted};
use crate::solve::error::Error;
use crate::solve::methods::Method;
use crate::solve::posed::Posed;

/// How long a search may take at least and at most: it is an answer to a question that was not asked.
const PATIENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(20)];

impl Posed<'_> {
    /// What is known of plans that keep to no region, where one was asked for and a plan found, in what is left of the time that its search was given.
    ///
    /// # Errors
    ///
    /// [`Error::Solver`] where HiGHS breaks down.
    pub fn unrestricted(&self, plan: &Plan, control: &Control) -> Result<Option<Unrestricted>, Error> {
        let spent = Duration::try_from_secs_f64(plan.statistics.seconds).unwrap_or_default();
        let left = control.time_limit.map(|limit| limit.saturating_sub(spent));
        let [least, most] = PATIENCE;
        let patience = left.map_or(most, |left| left.min(most));
        let Some(settings) = without_region(&self.settings) else {
            return Ok(None);
        };
        let method = Method::Exact(exact::Method::Exact);
        let is_answer = plan.method == method.name() && !plan.stages.is_empty();
        if !is_answer || patience < least || control.is_interrupted() || self.chooses_chunks() {
            return Ok(None);
        }
        let within = Control {
            known: None,
            beat_ns: None,
            ..control.with_time(Some(patience))
        };
        let Ok(free) = Posed::with_settings(self.instance, settings) else {
            return Ok(None);
        };
        let free = free.solve(method, &within)?;
        Ok(free.bound_ms.map(|bound_ms| Unrestricted {
            objective_ms: free.objective_ms,
            bound_ms,
        }))
    }
}

/// The same without a region; `None` where there is none.
fn without_region(settings: &Settings) -> Option<Settings> {
    // Chunks know equal degrees alone.
    let is_uniform = settings.uniform && settings.may_have_virtual_stages();
    let is_free = settings.target.is_none() && settings.uniform == is_uniform;
    (!is_free).then(|| Settings {
        target: None,
        uniform: is_uniform,
        ..settings.clone()
    })
}

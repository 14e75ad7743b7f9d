//! Proofs at single values, and what known plans take at others: every number comes from the solve path and the checker.

use std::collections::HashMap;
use std::time::Duration;

use super::Question;
use super::parameter::Parameter;
use crate::check::{self, Violation};
use crate::exact;
use crate::model::instance::Instance;
use crate::model::options::PipelineOptions;
use crate::model::settings::Settings;
use crate::model::units::NS_PER_MS;
use crate::problem::control::Control;
use crate::problem::plan::split::Split;
use crate::problem::plan::{Plan, PlanStage, Status, StoppedBy};
use crate::solve::error::Error;
use crate::solve::methods::Method;
use crate::solve::posed::Posed;

/// What every search runs.
const METHOD: Method = Method::Exact(exact::Method::Exact);

/// What a search has proved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// No plan takes less; `u64::MAX` where there is none.
    pub lower_ns: u64,
    /// What its plan takes; `u64::MAX` without one.
    pub upper_ns: u64,
    /// Its plan.
    pub plan: Option<usize>,
}

/// Problems that differ in a number.
pub(super) struct Prover<'a> {
    instance: &'a Instance,
    options: PipelineOptions,
    question: &'a Question,
    control: &'a Control<'a>,
    point_limit: Option<Duration>,
    /// Every plan that was found, as it was found; no two have the same stages.
    pub plans: Vec<Plan>,
    /// Searches that were run.
    pub searches: usize,
    /// Why some search stopped before its proof, if one did.
    pub left_open_by: Option<StoppedBy>,
    costs_ns: HashMap<(usize, Option<usize>, u64), Option<u64>>,
}

impl<'a> Prover<'a> {
    pub(super) fn new(
        instance: &'a Instance,
        options: &PipelineOptions,
        question: &'a Question,
        control: &'a Control<'a>,
    ) -> Self {
        /// Where nobody says how long a search may take: such a part of all the time, so that none takes all of it.
        const PART: u32 = 8;
        let part = control.time_limit.map(|limit| limit / PART);
        Self {
            instance,
            options: options.clone(),
            question,
            control,
            point_limit: question.point_limit.or(part),
            plans: Vec::new(),
            searches: 0,
            left_open_by: None,
            costs_ns: HashMap::new(),
        }
    }

    /// Why everything must stop now, if it must.
    pub(super) fn must_stop(&self) -> Option<StoppedBy> {
        self.control.must_stop()
    }

    /// The options at a place, with so many stages where these make curves.
    pub(super) fn options(&self, stages: Option<usize>, at: f64) -> PipelineOptions {
        let value = self.question.easier().across(at);
        let mut options = self.question.parameter.set(&self.options, value);
        options.stages = stages.or(options.stages);
        options
    }

    pub(super) fn settings(&self, stages: Option<usize>, at: f64) -> Result<Settings, Error> {
        Ok(Settings::resolve(self.instance, &self.options(stages, at))?)
    }

    /// Searches at a place.
    ///
    /// # Errors
    ///
    /// Options that contradict the instance, a solver that breaks down, a plan that fails its check.
    pub(super) fn search(&mut self, stages: Option<usize>, at: f64) -> Result<Found, Error> {
        self.searches += 1;
        let settings = self.settings(stages, at)?;
        let posed = Posed::with_settings(self.instance, settings)?;
        let left = self.control.remaining();
        let limit = [self.point_limit, left].into_iter().flatten().min();
        let control = self.control.elsewhere().with_time(limit);
        let mut plan = posed.solve(METHOD, &control)?;
        if plan.stopped_by != StoppedBy::Completed {
            self.left_open_by = Some(plan.stopped_by);
        }
        plan.statistics.seconds = 0.0;
        let upper_ns = plan.objective_ms.map_or(u64::MAX, |ms| ns(ms).round() as u64);
        let lower_ns = match plan.status {
            Status::Optimal => upper_ns,
            Status::Infeasible => u64::MAX,
            Status::Feasible | Status::Unknown => ns(plan.bound_ms.unwrap_or(0.0)).floor() as u64,
        };
        Ok(Found {
            lower_ns,
            upper_ns,
            plan: (!plan.stages.is_empty()).then(|| self.known(plan)),
        })
    }

    /// What a plan takes at a place, by the checker; `None` where it is no plan of it.
    pub(super) fn cost_ns(
        &mut self,
        plan: usize,
        stages: Option<usize>,
        at: f64,
    ) -> Result<Option<u64>, Error> {
        let key = (plan, stages, at.to_bits());
        if let Some(known) = self.costs_ns.get(&key) {
            return Ok(*known);
        }
        let settings = self.settings(stages, at)?;
        let plan = &self.plans[plan];
        let there = Plan {
            problem: settings.to_options(self.instance),
            split: (plan.split.as_ref()).map(|_| Split::new(self.instance, &settings, &plan.stages)),
            order: None,
            overruns: Vec::new(),
            run: None,
            ..plan.clone()
        };
        let verdict = check::examine(self.instance, &settings, &there);
        // What the plan says of itself are numbers of another value.
        let is_number =
            |violation: &Violation| matches!(violation, Violation::Stated { .. } | Violation::Claim(_));
        let is_plan = verdict.violations.iter().all(is_number);
        let cost_ns = verdict.objective_ms.filter(|_| is_plan);
        let cost_ns = cost_ns.map(|ms| ns(ms).round() as u64);
        self.costs_ns.insert(key, cost_ns);
        Ok(cost_ns)
    }

    /// The first place at which a plan of a whole value is one all the same, as far as its stages say, and at the same cost.
    pub(super) fn least(
        &mut self,
        (plan, cost_ns): (usize, u64),
        stages: Option<usize>,
        at: f64,
    ) -> Result<f64, Error> {
        for need in needs(self.question, &self.plans[plan]) {
            let least = self.question.easier().across(need);
            if least < at && self.cost_ns(plan, stages, least)? == Some(cost_ns) {
                return Ok(least);
            }
        }
        Ok(at)
    }

    /// The position of a plan, after those that are known already.
    fn known(&mut self, plan: Plan) -> usize {
        let same = |known: &Plan| {
            let stages = known.stages.iter().zip(&plan.stages);
            let is_same = |(one, other): (&PlanStage, &PlanStage)| {
                [&one.forward, &one.backward, &one.devices]
                    == [&other.forward, &other.backward, &other.devices]
                    && one.shares == other.shares
                    && one.mode == other.mode
            };
            known.stages.len() == plan.stages.len() && stages.into_iter().all(is_same)
        };
        match self.plans.iter().position(same) {
            Some(at) => at,
            None => {
                self.plans.push(plan);
                self.plans.len() - 1
            }
        }
    }
}

/// A time in ns. Objectives are compared in whole ones, also those of replicas and micro-batches that share out what they are made of.
fn ns(ms: f64) -> f64 {
    ms * NS_PER_MS
}

/// Values that may do for a plan, the hardest first; the checker tells which does.
fn needs(question: &Question, plan: &Plan) -> Vec<f64> {
    let stages = &plan.stages;
    let devices = |stage: &PlanStage| stage.devices.len().max(1);
    match question.parameter {
        Parameter::Bandwidth => Vec::new(),
        Parameter::Memory => {
            // Of a group every device holds a part, or every device all of it.
            let parts = stages
                .iter()
                .map(|stage| stage.memory_bytes.div_ceil(devices(stage) as u64));
            let whole = stages.iter().map(|stage| stage.memory_bytes);
            [parts.max(), whole.max()]
                .into_iter()
                .flatten()
                .map(|bytes| bytes as f64)
                .collect()
        }
        Parameter::Stages => vec![stages.len() as f64],
        Parameter::Devices => vec![stages.iter().map(devices).sum::<usize>() as f64],
        Parameter::Tokens => plan
            .tokens
            .map(|room| question.to.min(room as f64))
            .into_iter()
            .collect(),
    }
}

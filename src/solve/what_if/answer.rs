//! An answer: curves in stretches of one plan each.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Question;
use super::better::Better;
use super::cell::{Cell, Point};
use super::curve::Curve;
use super::parameter::{Easier, Parameter};
use super::prover::Prover;
use crate::model::instance::Instance;
use crate::model::options::PipelineOptions;
use crate::model::settings::Settings;
use crate::model::units::ns_to_ms;
use crate::problem::plan::{Plan, Status, StoppedBy};

/// The format of an answer.
const SCHEMA: &str = "stagecut-what-if/1";

/// The optimum as a function of a number.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The format.
    pub schema: &'static str,
    /// Name of the instance.
    pub instance: String,
    /// What is varied.
    pub parameter: Parameter,
    /// The smallest value: bytes per second, bytes, or a number of stages, devices or tokens.
    pub from: f64,
    /// The largest value.
    pub to: f64,
    /// How closely it was asked for, as a part of the optimum.
    pub tolerance: f64,
    /// The problem at the largest value.
    pub problem: PipelineOptions,
    /// Why nothing more was asked.
    pub stopped_by: StoppedBy,
    /// Searches that were run.
    pub searches: usize,
    /// Wall-clock seconds.
    pub seconds: f64,
    /// The optimum, a curve for each number of stages where these are varied too.
    pub curves: Vec<AnswerCurve>,
    /// Numbers of stages against the next smaller ones.
    pub better: Vec<Better>,
    /// All plans, each as it was found.
    pub plans: Vec<Plan>,
}

/// One curve.
#[derive(Clone, Debug, Serialize)]
pub struct AnswerCurve {
    /// The most stages, where these make curves.
    pub stages: Option<usize>,
    /// How much longer than the best plan the best known one may take at any value, as a part of that; absent where that is not known.
    pub gap: Option<f64>,
    /// What is known from one end to the other.
    pub segments: Vec<Segment>,
    /// What is known at single values.
    pub points: Vec<AnswerPoint>,
    /// With all bounds in ns, for who computes on.
    #[doc(hidden)]
    #[serde(skip)]
    pub bounds: Curve,
}

/// What is known of values from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Segment {
    /// The smallest value.
    pub from: f64,
    /// The largest value.
    pub to: f64,
    /// What is known.
    pub kind: Kind,
    /// The plan, by position in [`Answer::plans`].
    pub plan: Option<usize>,
    /// Its stages.
    pub stages: Option<usize>,
    /// What it takes at the smallest value, in ms; between plans, what the best one takes there.
    pub from_ms: Option<f64>,
    /// What it takes at the largest value, in ms.
    pub to_ms: Option<f64>,
    /// How much longer than the optimum it may take at any of the values, as a part of that; absent where that is not known.
    pub gap: Option<f64>,
}

/// What is known of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One plan is the best known.
    Plan,
    /// Somewhere in it one plan takes the place of another.
    Changes,
    /// It is proved that there is no plan.
    Infeasible,
    /// No plan is known, and none is ruled out.
    Unknown,
}

/// What is known at a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AnswerPoint {
    /// The value.
    pub at: f64,
    /// What is known of its optimum.
    pub status: Status,
    /// What the best known plan takes, in ms.
    pub objective_ms: Option<f64>,
    /// No plan takes less, in ms; absent where there is no plan.
    pub bound_ms: Option<f64>,
    /// The plan, by position in [`Answer::plans`].
    pub plan: Option<usize>,
    /// Its stages.
    pub stages: Option<usize>,
    /// Whether a search was run here, rather than that other values tell.
    pub searched: bool,
}

impl Answer {
    pub(super) fn new(
        instance: &Instance,
        settings: &Settings,
        question: &Question,
        mut curves: Vec<Curve>,
        prover: Prover,
    ) -> Self {
        let plans = in_order(&mut curves, prover.plans);
        let pairs = curves.windows(2);
        let better = pairs.filter_map(|pair| Better::new(&pair[1], &pair[0]));
        let mut limits = curves.iter().map(|curve| curve.stopped_by);
        let stopped_by = limits.find(|&why| why != StoppedBy::Completed);
        let is_open = curves.iter().any(|curve| curve.gap() > question.tolerance);
        // Where searches stopped one by one, that is why it is not closer.
        let otherwise = prover
            .left_open_by
            .filter(|_| is_open)
            .unwrap_or(StoppedBy::Completed);
        Self {
            schema: SCHEMA,
            instance: instance.name.clone(),
            parameter: question.parameter,
            from: question.from,
            to: question.to,
            tolerance: question.tolerance,
            problem: settings.to_options(instance),
            stopped_by: stopped_by.unwrap_or(otherwise),
            searches: prover.searches,
            seconds: 0.0,
            better: better.collect(),
            curves: curves
                .iter()
                .map(|curve| AnswerCurve::new(curve, &plans))
                .collect(),
            plans,
        }
    }

    /// Whether any plan was found.
    pub fn has_plan(&self) -> bool {
        !self.plans.is_empty()
    }

    /// Whether it is proved that there is no plan at any value.
    pub fn is_infeasible(&self) -> bool {
        let is_none = |segment: &Segment| segment.kind == Kind::Infeasible;
        let mut curves = self.curves.iter();
        curves.all(|curve| !curve.segments.is_empty() && curve.segments.iter().all(is_none))
    }
}

/// The plans that some curve has at a point, in the order in which they are met there; the curves are told their new places.
fn in_order(curves: &mut [Curve], plans: Vec<Plan>) -> Vec<Plan> {
    let mut place = vec![None; plans.len()];
    let mut order = Vec::new();
    let mut points: Vec<&mut Point> = Vec::new();
    for curve in curves {
        let from = points.len();
        points.extend(&mut curve.points);
        // By value, as people read them.
        if curve.easier != Easier::Larger {
            points[from..].reverse();
        }
    }
    for plan in points.into_iter().filter_map(|point| point.plan.as_mut()) {
        *plan = *place[*plan].get_or_insert_with(|| {
            order.push(*plan);
            order.len() - 1
        });
    }
    let mut plans: Vec<Option<Plan>> = plans.into_iter().map(Some).collect();
    order.into_iter().filter_map(|plan| plans[plan].take()).collect()
}

/// How a curve becomes segments.
struct Lift<'a> {
    curve: &'a Curve,
    plans: &'a [Plan],
}

impl AnswerCurve {
    fn new(curve: &Curve, plans: &[Plan]) -> Self {
        let lift = Lift { curve, plans };
        let in_places = Self {
            stages: curve.stages,
            gap: Some(curve.gap()).filter(|gap| gap.is_finite() && !curve.points.is_empty()),
            segments: match curve.is_whole {
                true => lift.steps(),
                false => lift.stretches(),
            },
            points: curve.points.iter().map(|point| lift.point(point)).collect(),
            bounds: curve.clone(),
        };
        in_places.by_value(curve.easier)
    }

    /// Values in place of places, the smallest first.
    fn by_value(mut self, easier: Easier) -> Self {
        self.points
            .iter_mut()
            .for_each(|point| point.at = easier.across(point.at));
        for segment in &mut self.segments {
            [segment.from, segment.to] = easier.between([segment.from, segment.to]);
        }
        if easier != Easier::Larger {
            self.points.reverse();
            self.segments.reverse();
            for segment in &mut self.segments {
                std::mem::swap(&mut segment.from_ms, &mut segment.to_ms);
            }
        }
        self
    }
}

impl Lift<'_> {
    fn ms(&self, ns: u64) -> Option<f64> {
        (ns < u64::MAX).then(|| ns_to_ms(ns))
    }

    /// Stages that a plan uses; virtual ones of the same devices are one.
    fn stages(&self, plan: Option<usize>) -> Option<usize> {
        let devices: BTreeSet<&[String]> = (self.plans[plan?].stages.iter())
            .map(|stage| &stage.devices[..])
            .collect();
        Some(devices.len())
    }

    fn point(&self, point: &Point) -> AnswerPoint {
        let status = match (point.upper_ns, point.lower_ns) {
            (u64::MAX, u64::MAX) => Status::Infeasible,
            (u64::MAX, _) => Status::Unknown,
            _ if point.is_proved() => Status::Optimal,
            _ => Status::Feasible,
        };
        AnswerPoint {
            at: point.at,
            status,
            objective_ms: self.ms(point.upper_ns),
            bound_ms: self.ms(point.lower_ns),
            plan: point.plan,
            stages: self.stages(point.plan),
            searched: point.is_searched,
        }
    }

    /// A segment of one kind from point to point.
    fn segment(&self, [from, to]: [&Point; 2], kind: Kind, plan: Option<usize>, gap: f64) -> Segment {
        Segment {
            from: from.at,
            to: to.at,
            kind,
            plan,
            stages: self.stages(plan),
            from_ms: self.ms(from.upper_ns),
            to_ms: self.ms(to.upper_ns),
            gap: Some(gap).filter(|gap| gap.is_finite()),
        }
    }

    /// Whole values: the plan of a point serves until the next one.
    fn steps(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        let points = &self.curve.points;
        for (k, point) in points.iter().enumerate() {
            let cell = (k + 1 < points.len()).then(|| self.curve.cell(k));
            let inside = cell.filter(Cell::has_inside);
            let gap = inside.map_or(0.0, |cell| cell.gap()).max(point.gap());
            let is_apart = inside.is_some_and(|cell| cell.lower_ns(cell.from.at + 1.0) < u64::MAX as f64);
            let kind = match (point.upper_ns, point.lower_ns) {
                (u64::MAX, u64::MAX) if is_apart && gap > 0.0 => Kind::Unknown,
                (u64::MAX, u64::MAX) => Kind::Infeasible,
                (u64::MAX, _) => Kind::Unknown,
                _ => Kind::Plan,
            };
            let own = Segment {
                to: cell.map_or(point.at, |cell| cell.to.at - 1.0),
                ..self.segment([point, point], kind, point.plan, gap)
            };
            match segments.last_mut() {
                Some(last) if last.kind == kind && last.plan == own.plan && last.from_ms == own.from_ms => {
                    last.to = own.to;
                    last.gap = last.gap.zip(own.gap).map(|(one, other)| one.max(other));
                }
                _ => segments.push(own),
            }
        }
        segments
    }

    /// Real values: a plan serves between two points if it is best at both, as far as is known.
    fn stretches(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        for cell in self.curve.cells() {
            let ends = [cell.from.plan, cell.to.plan];
            let before = segments.last().and_then(|last| last.plan);
            let kept = cell.kept();
            let candidates = (0..2).filter(|&end| kept[end]).map(|end| ends[end]);
            let preferred = candidates.clone().find(|plan| *plan == before);
            let plan = preferred.or(candidates.clone().next()).flatten();
            let kind = match plan {
                Some(_) => Kind::Plan,
                None if ends.iter().all(Option::is_some) => Kind::Changes,
                None if cell.from.lower_ns == u64::MAX => Kind::Infeasible,
                None => Kind::Unknown,
            };
            let gap = cell.gap().max(cell.from.gap()).max(cell.to.gap());
            let own = self.segment([cell.from, cell.to], kind, plan, gap);
            match segments.last_mut() {
                Some(last) if last.kind == kind && last.plan == plan => {
                    last.to = own.to;
                    last.to_ms = own.to_ms;
                    last.gap = last.gap.zip(own.gap).map(|(one, other)| one.max(other));
                }
                _ => segments.push(own),
            }
        }
        segments
    }
}

//! The optimum as a function of the parameter: where to ask next, until what is left open is small enough.

use super::Question;
use super::cell::{Cell, Point, finite};
use super::parameter::{Easier, Law};
use super::prover::Prover;
use crate::problem::plan::StoppedBy;
use crate::solve::error::Error;

/// The optimum from one end of a range to the other.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The most stages, where these make curves.
    pub stages: Option<usize>,
    /// What holds from place to place.
    pub law: Law,
    /// Which values are easier: points lie at places, further on easier ones.
    pub easier: Easier,
    /// Whether values are whole numbers.
    pub is_whole: bool,
    /// What is known, by place; at least the two ends where there was time.
    pub points: Vec<Point>,
    /// For every point but the last, what its plan takes at the next one and the next one's here, in ns.
    pub crossed_ns: Vec<[u64; 2]>,
    /// Why nothing more was asked.
    pub stopped_by: StoppedBy,
}

impl Curve {
    pub(super) fn new(stages: Option<usize>, law: Law, question: &Question) -> Self {
        Self {
            stages,
            law,
            easier: question.easier(),
            is_whole: !question.parameter.is_continuous(),
            points: Vec::new(),
            crossed_ns: Vec::new(),
            stopped_by: StoppedBy::Completed,
        }
    }

    /// The cell behind a point.
    pub fn cell(&self, at: usize) -> Cell<'_> {
        Cell {
            law: self.law,
            is_whole: self.is_whole,
            from: &self.points[at],
            to: &self.points[at + 1],
            crossed_ns: self.crossed_ns[at],
        }
    }

    /// All cells, by place.
    pub fn cells(&self) -> impl DoubleEndedIterator<Item = Cell<'_>> {
        (0..self.crossed_ns.len()).map(|at| self.cell(at))
    }

    /// No plan takes less and some known plan no more at a place, in ns.
    pub fn bounds_ns(&self, at: f64) -> [f64; 2] {
        if let Some(point) = self.points.iter().find(|point| point.at == at) {
            return [point.lower_ns, point.upper_ns].map(finite);
        }
        if let Some(cell) = self.cells().find(|cell| cell.from.at < at && at < cell.to.at) {
            return [cell.lower_ns(at), cell.upper_ns(at)];
        }
        let larger = self.points.iter().find(|point| point.at > at);
        let larger = larger.filter(|_| self.law != Law::Apart);
        let lower_ns = larger.map_or(0, |point| point.lower_ns);
        [finite(lower_ns), f64::INFINITY]
    }

    /// How much longer than the best plan the best known one may take anywhere, as a part of that.
    pub fn gap(&self) -> f64 {
        let at_points = self.points.iter().map(Point::gap);
        let between = self.cells().map(|cell| cell.gap());
        at_points.chain(between).fold(0.0, f64::max)
    }
}

/// Asks until what is left open is within the tolerance, or a limit comes first.
pub(super) struct CurveSearch<'a, 'b> {
    pub prover: &'a mut Prover<'b>,
    pub question: &'a Question,
    /// The curve of one stage more, whose plans and bounds may tell something.
    pub above: Option<&'a Curve>,
    pub curve: Curve,
    /// Values that were asked.
    pub asked: usize,
}

impl CurveSearch<'_, '_> {
    /// # Errors
    ///
    /// Those of a search, and bounds that contradict each other.
    pub(super) fn run(mut self, show: &dyn Fn(usize, &Curve)) -> Result<Curve, Error> {
        let ends = [self.question.to, self.question.from];
        for at in ends {
            if self.must_stop() {
                return Ok(self.curve);
            }
            self.ask(at)?;
            show(self.prover.searches, &self.curve);
        }
        while let Some(at) = self.next() {
            if self.must_stop() {
                break;
            }
            self.ask(at)?;
            show(self.prover.searches, &self.curve);
        }
        Ok(self.curve)
    }

    fn must_stop(&mut self) -> bool {
        match self.prover.must_stop() {
            Some(why) => {
                self.curve.stopped_by = why;
                true
            }
            None => false,
        }
    }

    /// Where most is open: first where bounds are furthest apart, then where plans change.
    fn next(&self) -> Option<f64> {
        let tolerance = self.question.tolerance;
        let open = |cell: &Cell| {
            // What is open at an end no value between can close.
            let ends = cell.from.gap().max(cell.to.gap());
            let least = tolerance.max(1.5 * ends);
            cell.has_inside() && cell.gap() > least
        };
        let cells = self.curve.cells().enumerate();
        let widest = cells
            .map(|(at, cell)| (at, cell, cell.gap()))
            .filter(|(_, cell, _)| open(cell))
            .max_by(|one, other| one.2.total_cmp(&other.2));
        if let Some((at, cell, _)) = widest {
            return Some(self.split(at, &cell));
        }
        /// Changes of plans are found as closely as this, where the tolerance is smaller.
        const CLOSEST: f64 = 1e-3;
        let width = |cell: &Cell| cell.to.at / cell.from.at - 1.0;
        let changes = self.curve.cells().filter(|cell| {
            let has_plans = cell.from.plan.is_some() && cell.to.plan.is_some();
            let is_proved = cell.from.is_proved() && cell.to.is_proved();
            !cell.is_whole
                && has_plans
                && is_proved
                && cell.kept() == [false; 2]
                && width(cell) > tolerance.max(CLOSEST)
        });
        let widest = changes.max_by(|one, other| width(one).total_cmp(&width(other)));
        widest.map(|cell| cell.middle())
    }

    /// A value in a cell. Of whole numbers the one below which the plan of the larger end is none: if the optimum is another there, the
    /// place where it changes is exact. Where plans of one value follow on each other, and where not every change is of interest, every
    /// other time the middle.
    fn split(&self, at: usize, cell: &Cell) -> f64 {
        if !cell.is_whole {
            return cell.middle();
        }
        let same = |point: &&Point| point.is_searched && point.upper_ns == cell.to.upper_ns;
        let again = self.curve.points[at + 1..].iter().filter(same).count() > 1;
        let may_halve = again || self.question.tolerance > 0.0 || !cell.to.is_proved();
        match may_halve && self.asked.is_multiple_of(2) {
            true => cell.middle(),
            false => cell.to.at - 1.0,
        }
    }

    /// Learns what there is to know at a value, by a search unless known plans and bounds tell.
    fn ask(&mut self, at: f64) -> Result<(), Error> {
        self.asked += 1;
        let stages = self.curve.stages;
        let mut point = Point {
            at,
            lower_ns: 0,
            upper_ns: u64::MAX,
            plan: None,
            is_searched: false,
        };
        let is_joined = self.curve.law != Law::Apart;
        if is_joined {
            for plan in self.plans_near(at) {
                self.offer(&mut point, plan)?;
            }
            let above = self.above.map_or(0.0, |above| above.bounds_ns(at)[0]);
            point.lower_ns = whole(self.curve.bounds_ns(at)[0].max(above));
        }
        let mut equal = point.plan;
        if !point.is_proved() {
            let known = point;
            let found = self.prover.search(stages, at)?;
            point.is_searched = true;
            point.lower_ns = known.lower_ns.max(found.lower_ns);
            if found.upper_ns < known.upper_ns {
                (point.upper_ns, point.plan) = (found.upper_ns, found.plan);
            }
            equal = found.plan.filter(|_| found.upper_ns == point.upper_ns);
        }
        self.insert(point);
        if is_joined && self.curve.is_whole {
            for plan in [point.plan, equal].into_iter().flatten() {
                let least = self.prover.least((plan, point.upper_ns), stages, at)?;
                self.insert_least(Point {
                    at: least.max(self.question.from),
                    plan: Some(plan),
                    is_searched: false,
                    ..point
                });
            }
        }
        self.settle()
    }

    /// The plan of a value is as good down to a smaller one, and nothing is better there.
    fn insert_least(&mut self, point: Point) {
        if !self.curve.points.iter().any(|known| known.at == point.at) {
            self.insert(point);
        }
    }

    /// Plans of the neighbours, and of the curve of more stages, which may use few enough.
    fn plans_near(&self, at: f64) -> Vec<usize> {
        let near = |curve: &Curve| {
            let right = curve.points.partition_point(|point| point.at < at);
            let near = [right.checked_sub(1), Some(right)];
            let points = near.into_iter().flatten().filter_map(|k| curve.points.get(k));
            points.filter_map(|point| point.plan).collect::<Vec<_>>()
        };
        let mut plans = near(&self.curve);
        plans.extend(self.above.map(near).unwrap_or_default());
        plans
    }

    fn offer(&mut self, point: &mut Point, plan: usize) -> Result<(), Error> {
        let cost_ns = self.prover.cost_ns(plan, self.curve.stages, point.at)?;
        if let Some(cost_ns) = cost_ns.filter(|&ns| ns < point.upper_ns) {
            (point.upper_ns, point.plan) = (cost_ns, Some(plan));
        }
        Ok(())
    }

    fn insert(&mut self, point: Point) {
        let points = &mut self.curve.points;
        let right = points.partition_point(|known| known.at < point.at);
        match points.get_mut(right).filter(|known| known.at == point.at) {
            Some(known) => *known = point,
            None => points.insert(right, point),
        }
    }

    /// Lets every point know what its neighbours tell, and holds their bounds against each other.
    fn settle(&mut self) -> Result<(), Error> {
        let last = self.curve.points.len() - 1;
        if self.curve.law != Law::Apart {
            for k in 1..=last {
                self.carry(k - 1, k, true)?;
                let bound_ns = self.scaled_ns(k);
                let point = &mut self.curve.points[k];
                point.lower_ns = point.lower_ns.max(bound_ns);
            }
            for k in (0..last).rev() {
                self.carry(k + 1, k, false)?;
                let larger_ns = self.curve.points[k + 1].lower_ns;
                let point = &mut self.curve.points[k];
                point.lower_ns = point.lower_ns.max(larger_ns);
            }
        }
        self.curve.crossed_ns.clear();
        for k in 0..last {
            let [from, to] = [self.curve.points[k], self.curve.points[k + 1]];
            let crossed_ns = [self.cost_ns(from.plan, to.at)?, self.cost_ns(to.plan, from.at)?];
            self.curve.crossed_ns.push(crossed_ns);
        }
        self.contradiction()
    }

    /// A bound that follows from the value before, where what plans take is linear.
    fn scaled_ns(&self, at: usize) -> u64 {
        let [before, point] = [&self.curve.points[at - 1], &self.curve.points[at]];
        match self.curve.law {
            Law::Linear { slack_ns } if before.lower_ns < u64::MAX => {
                whole(before.lower_ns as f64 * before.at / point.at - slack_ns)
            }
            Law::Linear { .. } | Law::Apart | Law::Falling => 0,
        }
    }

    /// Takes over the plan of another point if it is better here, or as good where that is preferred.
    fn carry(&mut self, from: usize, to: usize, is_preferred: bool) -> Result<(), Error> {
        let Some(plan) = self.curve.points[from].plan else {
            return Ok(());
        };
        let point = self.curve.points[to];
        let cost_ns = self.cost_ns(Some(plan), point.at)?;
        let is_better = cost_ns < point.upper_ns || (is_preferred && cost_ns == point.upper_ns);
        if is_better && cost_ns < u64::MAX {
            let point = &mut self.curve.points[to];
            (point.upper_ns, point.plan) = (cost_ns, Some(plan));
        }
        Ok(())
    }

    fn cost_ns(&mut self, plan: Option<usize>, at: f64) -> Result<u64, Error> {
        let Some(plan) = plan else {
            return Ok(u64::MAX);
        };
        let cost_ns = self.prover.cost_ns(plan, self.curve.stages, at)?;
        Ok(cost_ns.unwrap_or(u64::MAX))
    }

    /// Bounds hold for all plans and plans have been checked: one above the other is a fault of the library.
    fn contradiction(&mut self) -> Result<(), Error> {
        /// A time on shares is one over a sum of doubles, and may be rounded either way.
        const ROUNDING_NS: u64 = 1;
        for point in &mut self.curve.points {
            if point.plan.is_some() && point.lower_ns > point.upper_ns.saturating_add(ROUNDING_NS) {
                let what = format!(
                    "at {} it is proved that no plan takes less than {} ns, and one takes {}",
                    self.curve.easier.across(point.at),
                    point.lower_ns,
                    point.upper_ns
                );
                return Err(Error::Contradiction(what.into()));
            }
        }
        Ok(())
    }
}

/// A bound as whole ns: rounded down.
fn whole(ns: f64) -> u64 {
    match ns.is_finite() {
        true => ns.max(0.0).floor() as u64,
        false => u64::MAX,
    }
}

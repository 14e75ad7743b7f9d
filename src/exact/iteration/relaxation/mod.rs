//! The least bound of all plans, from every ideal on: a dynamic program.

mod rests;
mod stages;

use rayon::prelude::*;
use rests::{ByPasses, Rest, Rests, add, merged};
use stages::{Boundary, Stage};

use super::cells::Cells;
use super::options::{Left, StageOption, StageOptions, Stock};
use crate::exact::incumbent::Incumbent;
use crate::model::options::WorkerMode;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;
use crate::search::ideals::{Ideals, IdealsError};

/// More ideals than this have more stages between them than can be looked at.
const MOST_IDEALS: usize = 50_000;

/// The most states of ideals and what is left behind them, and of the stages that begin there, where that may be told apart less: some seconds.
const MOST_STATES: usize = 6_000_000;
const MOST_STAGES_OF_STATES: usize = 2_000_000_000;

/// Beyond so many stages of states of an ideal, threads share them: a millisecond.
const STAGES_OF_A_THREAD: usize = 100_000;

/// The most ways to go on that are told apart behind an ideal with something left, and of all of these.
const MOST_WAYS: usize = 8;
const MOST_WAYS_IN_ALL: usize = 16_000_000;

/// All stages between ideals, and the least bound of the plans that go through each ideal.
pub(super) struct Relaxation {
    pub ideals: Ideals,
    /// Work of each ideal's items, in ns.
    work_ns: Vec<u64>,
    /// The stages that begin at each ideal, by where that lies.
    stages: Vec<[Vec<Stage>; 2]>,
    /// Units of a node, where boundaries between nodes are told apart.
    node: Option<u32>,
    /// With so many units left, whether a stage of each tag may begin.
    may_begin: Vec<Vec<bool>>,
    /// What is said of what lies behind each ideal, by what is left for it: units, and of these replicas.
    rests: Vec<Rests>,
    micro_batches: u64,
    /// How many forward passes of a stage surely lie behind its first backward pass.
    late: Late,
    /// What plans may take, of as many replicas as are told apart.
    stock: Stock,
    /// Stages that are counted and are none of those that are looked at.
    others: Others,
    /// No plan with others takes less, in ns, where plans without them are looked at first; else `u64::MAX`.
    pub others_ns: u64,
}

/// How many stages of a plan hold nothing that is looked at. Those that do count each as if all of these came behind it, which is no fewer in flight than it has, and so no more late.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    None,
    Some,
    Any,
}

/// How many forward passes of a stage come after the first micro-batch has gone all the way to its backward pass, or before its last.
#[derive(Clone, Copy)]
enum Late {
    /// All but as many as there are stages from it to the end.
    BeyondLead,
    /// All but one: phases, or a single one.
    AllButOne,
    /// Nobody knows: a device runs both phases at once.
    SideBySide,
}

/// What the first stages of a plan say of its iteration, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct First {
    /// What they hold.
    pub ideal: u32,
    /// What a micro-batch spends in them at least.
    pub latency_ns: u64,
    /// Their bound.
    own: ByPasses,
    /// What the first of them does when all is done.
    pub once_ns: u64,
    /// When the first micro-batch has passed them forwards, and when the last of them has done what it does once, at least.
    passed_ns: u64,
    end_ns: u64,
}

impl Relaxation {
    /// Enumerates ideals and stages, as far as plans may be better than the incumbent's.
    ///
    /// # Errors
    ///
    /// Too many of either, or a limit.
    pub(super) fn new(options: &dyn StageOptions, incumbent: &Incumbent) -> Result<Self, StoppedBy> {
        let ideals = Self::ideals(options.pipeline(), incumbent.control)?;
        Self::over(ideals, options, incumbent)
    }

    /// The ideals of a problem that are not too many.
    ///
    /// # Errors
    ///
    /// They are, or a limit.
    pub(super) fn ideals(problem: &Problem, control: &Control) -> Result<Ideals, StoppedBy> {
        let stop = || control.must_stop().is_some();
        Ideals::enumerate(problem, MOST_IDEALS, &stop).map_err(|error| match error {
            IdealsError::TooManyIdeals { .. } => StoppedBy::SizeLimit,
            IdealsError::Interrupted => control.must_stop().unwrap_or(StoppedBy::Interrupt),
        })
    }

    /// The same for plans whose stages lie between these ideals.
    ///
    /// # Errors
    ///
    /// Too many stages, or a limit.
    pub(super) fn over(
        ideals: Ideals,
        options: &dyn StageOptions,
        incumbent: &Incumbent,
    ) -> Result<Self, StoppedBy> {
        let problem = options.pipeline();
        let work =
            |set: &fixedbitset::FixedBitSet| set.ones().map(|item| problem.items[item].work_ns()).sum();
        let work_ns = ideals.sets.iter().map(work).collect();
        let mut relaxation = Self::begun(ideals, work_ns, options);
        relaxation.add_stages(options, incumbent)?;
        relaxation.tell_apart_less();
        if options.may_have_others() {
            relaxation.others = Others::Some;
            relaxation.fill(incumbent)?;
            relaxation.others_ns = relaxation.bound_ns();
            relaxation.others = Others::None;
        }
        relaxation.fill(incumbent)?;
        Ok(relaxation)
    }

    /// The same for plans whose stages lie between cells of ideals, of which nothing is known but the work.
    ///
    /// # Errors
    ///
    /// Too many stages, or a limit.
    pub(super) fn over_cells(
        cells: &Cells,
        options: &dyn StageOptions,
        incumbent: &Incumbent,
    ) -> Result<Self, StoppedBy> {
        let work_ns: Vec<u64> = cells.work_ns().collect();
        let mut relaxation = Self::begun(Ideals::unknown(work_ns.len()), work_ns, options);
        relaxation.others = Others::Any;
        relaxation.add_stages_of_cells(cells, incumbent)?;
        relaxation.fill(incumbent)?;
        Ok(relaxation)
    }

    /// Without stages.
    fn begun(ideals: Ideals, work_ns: Vec<u64>, options: &dyn StageOptions) -> Self {
        let settings = &options.pipeline().settings;
        let mut relaxation = Self {
            work_ns,
            stages: vec![Default::default(); ideals.sets.len()],
            node: options.between_nodes().map(|(node, _)| node),
            may_begin: Vec::new(),
            stock: options.stock(),
            ideals,
            rests: Vec::new(),
            micro_batches: settings.run_micro_batches(),
            late: match (settings.mode.trains(), settings.schedule.is_all_forward_first()) {
                (true, false) if settings.worker == WorkerMode::Concurrent => Late::SideBySide,
                (true, false) => Late::BeyondLead,
                (false, _) | (true, true) => Late::AllButOne,
            },
            others: Others::None,
            others_ns: u64::MAX,
        };
        let units = 0..=relaxation.stock.most.units;
        let of_tags = |units: u32| {
            (0..options.tags())
                .map(|tag| options.may_begin(tag, units))
                .collect()
        };
        relaxation.may_begin = units.map(of_tags).collect();
        relaxation
    }

    /// Tells no more replicas apart than there is time for.
    fn tell_apart_less(&mut self) {
        if self.stock.is_open {
            let units = self.stock.most.units as usize + 1;
            let at = |[anywhere, apart]: &[Vec<Stage>; 2]| anywhere.len().max(apart.len());
            let stages: usize = self.stages.iter().map(at).sum();
            let by_states = MOST_STATES / (self.ideals.sets.len() * units);
            let by_stages = MOST_STAGES_OF_STATES / (stages.max(1) * units);
            let most = by_states.min(by_stages) as u32;
            self.stock.most.replicas = self.stock.most.replicas.min(most);
        }
    }

    /// The ideal of all items.
    pub(super) fn all(&self) -> usize {
        self.ideals.sets.len() - 1
    }

    /// What plans may take.
    pub(super) fn starts(&self) -> impl Iterator<Item = Left> + use<> {
        let Stock {
            most, least_replicas, ..
        } = self.stock;
        (least_replicas..=most.replicas).map(move |replicas| Left { replicas, ..most })
    }

    /// The least bound of all plans, in ns; `u64::MAX` without any.
    pub(super) fn bound_ns(&self) -> u64 {
        let bounds = self.starts().map(|left| self.least_ns(left));
        bounds.min().unwrap_or(u64::MAX)
    }

    /// The least bound of all plans that take so much, in ns.
    pub(super) fn least_ns(&self, left: Left) -> u64 {
        let least = self.rests(0, left).iter().map(|rest| rest.least_ns);
        least.min().unwrap_or(u64::MAX).max(self.end_behind_ns(0, left))
    }

    /// What a micro-batch spends behind an ideal at least, there and back, with so much left, in ns; `u64::MAX` where no plan goes on so.
    pub(super) fn rest_ns(&self, ideal: usize, left: Left) -> u64 {
        self.rests(ideal, left)
            .first()
            .map_or(u64::MAX, |rest| rest.passage_ns)
    }

    /// The ways to go on behind an ideal, of which none beats another, the soonest first.
    fn rests(&self, ideal: usize, left: Left) -> &[Rest] {
        self.rests[ideal].of(self.position(left))
    }

    /// When the last stage behind an ideal has done what it does once, at least, from when the first micro-batch gets there.
    fn end_behind_ns(&self, ideal: usize, left: Left) -> u64 {
        self.rests[ideal].end_ns(self.position(left))
    }

    fn position(&self, left: Left) -> usize {
        left.units as usize * (self.stock.most.replicas as usize + 1) + left.replicas as usize
    }

    /// The stages that may come next behind an ideal, each with its position among those that begin there and with what may be left behind it.
    pub(super) fn next_stages(
        &self,
        ideal: usize,
        left: Left,
    ) -> impl Iterator<Item = (usize, &Stage, Left)> {
        let stages = self.stages_from(ideal, left).iter().enumerate();
        stages.flat_map(move |(at, stage)| self.behind(stage, left).map(move |behind| (at, stage, behind)))
    }

    /// The stages that begin at an ideal with so much left for them, fit or not.
    pub(super) fn stages_from(&self, ideal: usize, left: Left) -> &[Stage] {
        &self.stages[ideal][self.boundary(left.units) as usize]
    }

    /// Where the boundary lies behind which so many units are left.
    fn boundary(&self, left: u32) -> Boundary {
        let before = self.stock.most.units - left;
        match self.node {
            Some(node) if before.is_multiple_of(node) => Boundary::Apart,
            Some(_) | None => Boundary::Anywhere,
        }
    }

    /// What may be left behind a stage, with so much left for both.
    fn behind(&self, stage: &Stage, left: Left) -> impl Iterator<Item = Left> + use<> {
        let way = &stage.way;
        let units = left.units.saturating_sub(way.units);
        // With others less may be in flight than is counted.
        let has_memory = left.replicas <= way.most_left || self.others != Others::None;
        let fits = has_memory
            && left.units >= way.units
            && self.boundary(units) == stage.behind
            && self.may_begin[left.units as usize][way.tag as usize];
        let fewest = left.replicas.checked_sub(way.replicas);
        let behind = match self.is_open(left) {
            true => Some(fewest.unwrap_or(0)..=left.replicas),
            false => fewest.map(|fewest| fewest..=fewest),
        };
        let behind = behind.filter(|_| fits).into_iter().flatten();
        behind.map(move |replicas| Left { units, replicas })
    }

    /// Whether there may be more replicas than it says.
    fn is_open(&self, left: Left) -> bool {
        self.stock.is_open && left.replicas == self.stock.most.replicas
    }

    /// How many micro-batches each replica of a stage has in flight by its schedule, and as many as there are where more would be; `None` where that is not known.
    pub(super) fn known_in_flight(&self, way: &StageOption, left: Left) -> Option<u64> {
        let replicas = u64::from(left.replicas);
        let is_known = !self.is_open(left) || replicas >= self.micro_batches;
        is_known.then(|| replicas.div_ceil(u64::from(way.replicas)))
    }

    /// How many micro-batches each replica of a stage has in flight at most.
    fn in_flight(&self, way: &StageOption, left: Left, behind: Left) -> u64 {
        let most = match self.is_open(left) {
            // There is a unit for each.
            true => way.replicas + behind.units,
            false => left.replicas,
        };
        u64::from(most.div_ceil(way.replicas))
    }

    /// Micro-batches that each replica of a stage takes at least.
    fn share_of(&self, way: &StageOption) -> u64 {
        self.micro_batches.div_ceil(u64::from(way.replicas))
    }

    /// What a stage says of an iteration with so much left for it and those behind it, and so much for these, from when a micro-batch gets to it.
    fn of_stage(&self, stage: &Stage, left: Left, behind: Left) -> ByPasses {
        let way = &stage.way;
        let ([forward_ns, backward_ns], load_ns) = (stage.times, stage.load_ns);
        let micro_batches = self.share_of(way);
        let others = micro_batches - 1;
        let never_ns = (micro_batches * load_ns).max(stage.sending_ns);
        match self.late {
            Late::BeyondLead => {
                let late = micro_batches.saturating_sub(self.in_flight(way, left, behind));
                let (more_ns, fewer_ns) = (forward_ns.max(backward_ns), forward_ns.min(backward_ns));
                ByPasses {
                    never_ns,
                    once_ns: stage.latency_ns + others * more_ns + late * fewer_ns,
                    twice_ns: (late > 0).then_some(stage.latency_ns + late * load_ns),
                }
            }
            Late::SideBySide => ByPasses {
                never_ns,
                once_ns: stage.latency_ns + others * forward_ns.max(backward_ns),
                twice_ns: None,
            },
            Late::AllButOne => ByPasses {
                never_ns,
                once_ns: stage.latency_ns + others * load_ns,
                twice_ns: None,
            },
        }
    }

    /// The dynamic program: from the last stage to the first.
    fn fill(&mut self, incumbent: &Incumbent) -> Result<(), StoppedBy> {
        let count = self.ideals.sets.len();
        let Left { units, replicas } = self.stock.most;
        let states = (units as usize + 1) * (replicas as usize + 1);
        let nothing = Rest {
            passage_ns: 0,
            least_ns: 0,
        };
        self.rests = (0..count).map(|_| Rests::default()).collect();
        for left in self.states() {
            let is_end = match self.others {
                Others::None => left.replicas == 0,
                Others::Some => left.replicas > 0,
                Others::Any => true,
            };
            match is_end {
                true => self.rests[count - 1].push(&[nothing], 0),
                false => self.rests[count - 1].push(&[], u64::MAX),
            }
        }
        let mut room = MOST_WAYS_IN_ALL.min(incumbent.control.room_bytes() / (2 * size_of::<Rest>()));
        for from in (0..count - 1).rev() {
            incumbent.control.check_limits()?;
            let most = (room / (states * (from + 1))).clamp(1, MOST_WAYS);
            let of_state = |left: Left| {
                let (ways, end_ns) = self.ways(from, left, incumbent.target_ns());
                (merged(ways, most), end_ns)
            };
            let stages = self.stages[from].iter().map(Vec::len).sum::<usize>();
            let is_shared = incumbent.control.switches.parallel && states * stages > STAGES_OF_A_THREAD;
            let found: Vec<(Vec<Rest>, u64)> = match is_shared {
                true => {
                    let all: Vec<Left> = self.states().collect();
                    all.into_par_iter().map(of_state).collect()
                }
                false => self.states().map(of_state).collect(),
            };
            let mut rests = Rests::default();
            found.iter().for_each(|(ways, end_ns)| rests.push(ways, *end_ns));
            room = room.saturating_sub(rests.len());
            self.rests[from] = rests;
        }
        Ok(())
    }

    /// All that may be left, by position.
    fn states(&self) -> impl Iterator<Item = Left> + use<> {
        let Left { units, replicas } = self.stock.most;
        (0..=units).flat_map(move |units| (0..=replicas).map(move |replicas| Left { units, replicas }))
    }

    /// The ways to go on behind an ideal, of which none beats another, as far as plans with them may take so long at most; and when the last stage is done.
    fn ways(&self, from: usize, left: Left, target_ns: u64) -> (Vec<Rest>, u64) {
        let most_ns = target_ns.saturating_sub(self.work_ns[from]);
        let (mut ways, mut end_ns) = (Vec::new(), u64::MAX);
        for (_, stage, behind) in self.next_stages(from, left) {
            end_ns = end_ns.min(self.ends_ns(stage, behind));
            let longer = self.with_stage((from, left), stage, behind);
            let longer = longer.filter(|rest| rest.least_ns <= most_ns);
            longer.for_each(|rest| add(&mut ways, rest));
        }
        (ways, end_ns)
    }

    /// When a stage has done what it does once, from when the first micro-batch gets to it: work for all of a replica's lies before.
    fn end_ns(&self, stage: &Stage) -> u64 {
        self.share_of(&stage.way) * stage.load_ns + stage.way.once_ns
    }

    /// The same of it and those behind it, with so much left for these.
    fn ends_ns(&self, stage: &Stage, behind: Left) -> u64 {
        let end_ns = self.end_behind_ns(stage.to as usize, behind);
        self.end_ns(stage).max(end_ns.saturating_add(stage.times[0]))
    }

    /// The ways to go on whose next stage is this one, with so much left for it and so much behind it.
    fn with_stage(
        &self,
        (from, left): (usize, Left),
        stage: &Stage,
        behind: Left,
    ) -> impl Iterator<Item = Rest> {
        let own = self.of_stage(stage, left, behind);
        // The last task of all is the first stage's.
        let once_ns = if from == 0 { stage.way.once_ns } else { 0 };
        let latency_ns = stage.latency_ns;
        let behind_ns = move |ns: u64| ns.saturating_add(latency_ns);
        let longer = move |rest: &Rest| {
            let own_ns = own.ns(rest.passage_ns).max(behind_ns(rest.least_ns));
            Rest {
                passage_ns: behind_ns(rest.passage_ns),
                least_ns: own_ns.saturating_add(once_ns),
            }
        };
        self.rests(stage.to as usize, behind).iter().map(longer)
    }

    /// The first stages of a plan and a next one, with so much left for it and so much behind it, and the bound of plans that begin with these; `None` where
    /// there is none.
    pub(super) fn extended(
        &self,
        first: &First,
        stage: &Stage,
        (left, behind): (Left, Left),
    ) -> Option<(First, u64)> {
        let rests = self.rests(stage.to as usize, behind);
        let own = self.of_stage(stage, left, behind);
        let once_ns = match first.ideal {
            0 => stage.way.once_ns,
            _ => first.once_ns,
        };
        let first = First {
            once_ns,
            ideal: stage.to,
            latency_ns: first.latency_ns + stage.latency_ns,
            own: first
                .own
                .before(stage.latency_ns)
                .max(own.behind(first.latency_ns)),
            passed_ns: first.passed_ns + stage.times[0],
            end_ns: first.end_ns.max(first.passed_ns + self.end_ns(stage)),
        };
        let of_rest = |rest: &Rest| {
            let behind_ns = rest.least_ns.saturating_add(first.latency_ns);
            first.own.ns(rest.passage_ns).max(behind_ns)
        };
        let bound_ns = rests.iter().map(of_rest).min()?.saturating_add(once_ns);
        let ends_ns = self
            .end_behind_ns(stage.to as usize, behind)
            .saturating_add(first.passed_ns);
        let bound_ns = bound_ns.max(ends_ns).max(first.end_ns);
        (bound_ns < u64::MAX).then_some((first, bound_ns))
    }
}

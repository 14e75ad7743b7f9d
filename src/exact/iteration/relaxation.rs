//! The least bound of all plans, from every ideal on: a dynamic program.

use super::in_flight::{Delays, Hiding};
use super::options::{StageOption, StageOptions};
use super::simple::is_alternating;
use crate::exact::incumbent::Incumbent;
use crate::problem::cost::{self, StageCost};
use crate::problem::plan::StoppedBy;
use crate::search::ideals::{Ideals, IdealsError};

/// More ideals than this have more stages between them than can be looked at.
const MOST_IDEALS: usize = 50_000;

/// The most stages: half a gigabyte.
const MOST_STAGES: usize = 6_000_000;

/// A stage that holds the items between two ideals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    /// The larger ideal.
    pub to: u32,
    /// How it is run.
    pub way: StageOption,
    /// Forward and backward time of its worker, in ns, each at least.
    pub times: [u64; 2],
    /// Both together at least.
    load_ns: u64,
    /// Time that a micro-batch spends in it and on its way to and from the next stage at least, in ns.
    pub latency_ns: u64,
    /// Time until its link out has sent all but the last gradient, from the arrival of the first micro-batch on, in ns; 0 without links.
    sending_ns: u64,
}

/// All stages between ideals, and the least bound of the plans that go through each ideal.
pub(super) struct Relaxation {
    pub ideals: Ideals,
    /// Work of each ideal's items, in ns.
    work_ns: Vec<u64>,
    /// The stages that begin at each ideal.
    pub stages: Vec<Vec<Stage>>,
    /// For so many units left, the least bound from each ideal on, counted from when a micro-batch gets there and with what comes
    /// back behind it.
    least: Vec<Vec<Least>>,
    /// For so many units left, what a micro-batch spends behind each ideal at least, in ns; `u64::MAX` where no plan goes on so.
    passages: Vec<Vec<u64>>,
    /// For so many units left, when the last stage behind each ideal has done at least what it does once, from when the first micro-batch gets there, in
    /// ns; `u64::MAX` where no plan goes on so.
    ends: Vec<Vec<u64>>,
    micro_batches: u64,
    /// How many forward passes of a stage surely lie behind its first backward pass.
    late: Late,
    /// Which stages may have more in flight than their schedule's own number.
    hiding: Option<Hiding>,
    /// How many units of devices plans may take.
    counts: Vec<usize>,
}

/// How many forward passes of a stage come after the first micro-batch has gone all the way to its backward pass, or before its last.
#[derive(Clone, Copy)]
enum Late {
    /// All but as many as there are stages from it to the end, if it has no more in flight.
    BeyondLead,
    /// All but one: phases, or a single one.
    AllButOne,
    /// Nobody knows: as many may be in flight as hide transfers.
    Unknown,
}

/// The least bounds of what begins at an ideal, in ns; `u64::MAX` where no plan goes on so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Least {
    /// No stage has more in flight than the schedule's own number, nor can one before it because of the first of them.
    own_ns: u64,
    /// No stage has more in flight, and the first is so long that one before it may.
    long_ns: u64,
    /// Some stage has more in flight.
    more_ns: u64,
}

impl Least {
    const NONE: Self = Self {
        own_ns: u64::MAX,
        long_ns: u64::MAX,
        more_ns: u64::MAX,
    };

    fn min(self, other: Self) -> Self {
        Self {
            own_ns: self.own_ns.min(other.own_ns),
            long_ns: self.long_ns.min(other.long_ns),
            more_ns: self.more_ns.min(other.more_ns),
        }
    }

    fn ns(self) -> u64 {
        self.own_ns.min(self.long_ns).min(self.more_ns)
    }
}

/// What the first stages of a plan say of its iteration, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct First {
    /// What they hold.
    pub ideal: u32,
    /// What a micro-batch spends in them at least.
    pub latency_ns: u64,
    /// Their bound if no stage behind them has more in flight than the schedule's own number.
    own_ns: u64,
    /// Their bound if one has.
    more_ns: u64,
    /// What the first of them does when all is done.
    pub once_ns: u64,
    /// When the first micro-batch has passed them forwards, and when the last of them has done what it does once, at least.
    passed_ns: u64,
    end_ns: u64,
    /// Whether the last of them may have more in flight while no stage behind it has.
    may_have_more: bool,
}

impl Relaxation {
    /// Enumerates ideals and stages, as far as plans may be better than the incumbent's.
    ///
    /// # Errors
    ///
    /// Too many of either, or a limit.
    pub(super) fn new(options: &dyn StageOptions, incumbent: &Incumbent) -> Result<Self, StoppedBy> {
        let control = incumbent.control;
        let stop = || control.must_stop().is_some();
        let ideals =
            Ideals::enumerate(options.pipeline(), MOST_IDEALS, &stop).map_err(|error| match error {
                IdealsError::TooManyIdeals { .. } => StoppedBy::SizeLimit,
                IdealsError::Interrupted => control.must_stop().unwrap_or(StoppedBy::Interrupt),
            })?;
        Self::over(ideals, options, incumbent)
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
        let settings = &problem.settings;
        let least = if settings.all_stages { problem.stages() } else { 1 };
        let mut relaxation = Self {
            work_ns: ideals.sets.iter().map(work).collect(),
            stages: vec![Vec::new(); ideals.sets.len()],
            ideals,
            least: Vec::new(),
            passages: Vec::new(),
            ends: Vec::new(),
            micro_batches: settings.run_micro_batches(),
            late: match (settings.mode.trains(), settings.schedule.is_all_forward_first()) {
                (true, false) if options.hides_as_told() => Late::BeyondLead,
                (true, false) => Late::Unknown,
                (false, _) | (true, true) => Late::AllButOne,
            },
            hiding: None,
            counts: (least..=problem.stages()).collect(),
        };
        let delays = relaxation.add_stages(options, incumbent)?;
        if matches!(relaxation.late, Late::BeyondLead) && !is_alternating(problem) {
            relaxation.hiding = Some(Hiding {
                period_ns: relaxation.least_period_ns(problem.stages()),
                delays,
            });
        }
        relaxation.fill(problem.stages());
        Ok(relaxation)
    }

    /// The ideal of all items.
    pub(super) fn all(&self) -> usize {
        self.ideals.sets.len() - 1
    }

    /// How many units of devices plans may take.
    pub(super) fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// The least bound of all plans, in ns; `u64::MAX` without any.
    pub(super) fn bound_ns(&self) -> u64 {
        let bounds = self.counts.iter().map(|&count| self.least_ns(count));
        bounds.min().unwrap_or(u64::MAX)
    }

    /// The least bound of all plans of so many units, in ns.
    pub(super) fn least_ns(&self, count: usize) -> u64 {
        self.least[count][0].ns().max(self.ends[count][0])
    }

    /// What a micro-batch spends behind an ideal at least, there and back, with so many units left, in ns; `u64::MAX` where no plan goes on so.
    pub(super) fn rest_ns(&self, ideal: usize, left: usize) -> u64 {
        self.passages[left][ideal]
    }

    /// Micro-batches that each replica of a stage takes at least.
    fn share_of(&self, way: &StageOption) -> u64 {
        self.micro_batches.div_ceil(u64::from(way.replicas))
    }

    /// What a stage says of an iteration with so many units left for it and those behind it, from when a micro-batch gets to it: if it has no
    /// more in flight than the schedule's own number, and if that is unknown. `None` where it has no memory there, or takes more units.
    fn of_stage_ns(&self, stage: &Stage, left: usize) -> Option<[u64; 2]> {
        let way = &stage.way;
        if left > way.most_left as usize {
            return None;
        }
        let behind = left.checked_sub(way.units as usize)?;
        let [forward_ns, backward_ns] = stage.times;
        let load_ns = stage.load_ns;
        let micro_batches = self.share_of(way);
        let (rest_ns, others) = (self.rest_ns(stage.to as usize, behind), micro_batches - 1);
        if rest_ns == u64::MAX {
            return None;
        }
        let passed_ns = stage.latency_ns + rest_ns;
        let busy_ns = (micro_batches * load_ns).max(stage.sending_ns);
        let alternating_ns = |late: u64| {
            let (more_ns, fewer_ns) = (forward_ns.max(backward_ns), forward_ns.min(backward_ns));
            let again_ns = match late {
                0 => 0,
                late => rest_ns + late * load_ns,
            };
            busy_ns.max(passed_ns + again_ns.max(others * more_ns + late * fewer_ns))
        };
        Some(match self.late {
            Late::BeyondLead => {
                let in_flight = 1 + behind.div_ceil(way.lead as usize);
                let late = micro_batches.saturating_sub(in_flight as u64);
                [alternating_ns(late), alternating_ns(0)]
            }
            Late::AllButOne => [busy_ns.max(passed_ns + others * load_ns); 2],
            Late::Unknown => [alternating_ns(0); 2],
        })
    }

    fn add_stages(
        &mut self,
        options: &dyn StageOptions,
        incumbent: &Incumbent,
    ) -> Result<Vec<Delays>, StoppedBy> {
        let (problem, control) = (options.pipeline(), incumbent.control);
        let upper_ns = u128::from(incumbent.target_ns());
        let most = MOST_STAGES.min(control.room_bytes() / (2 * size_of::<Stage>()));
        let mut count = 0;
        let mut delays = vec![Delays::default(); self.ideals.sets.len()];
        for to in 1..self.ideals.sets.len() {
            control.check_limits()?;
            // Both only grow with the stage.
            let may_take = |from: usize, stage_ns: u64, micro_batches: u64| {
                u128::from(self.work_ns[from]) + u128::from(micro_batches) * u128::from(stage_ns) <= upper_ns
            };
            let least_share = self.micro_batches.div_ceil(options.most_replicas());
            let may_be = |from: &usize| may_take(*from, self.work_ns[to] - self.work_ns[*from], least_share);
            for from in self.ideals.inside_while(to, |from| may_be(&from)) {
                let members = self.ideals.between(from, to);
                let ways = options.options(&members);
                if ways.is_empty() {
                    continue;
                }
                let inside = |item: usize| {
                    self.ideals.sets[to].contains(item) && !self.ideals.sets[from].contains(item)
                };
                let cost = cost::stage_cost(problem, &members, inside);
                delays[from].take_behind(&cost);
                delays[to].take_before(&cost);
                let stages = ways.iter().map(|way| self.stage(to, way, &cost));
                let stages = stages.filter(|stage| may_take(from, stage.load_ns, self.share_of(&stage.way)));
                let stages: Vec<Stage> = stages.collect();
                count += stages.len();
                self.stages[from].extend(stages);
            }
            if count > most {
                return Err(StoppedBy::SizeLimit);
            }
        }
        Ok(delays)
    }

    fn stage(&self, to: usize, way: &StageOption, cost: &StageCost) -> Stage {
        let [forward_ns, backward_ns] = way.works_ns;
        let times = [
            forward_ns + cost.forward.communication_ns,
            backward_ns + cost.backward.communication_ns,
        ];
        let load_ns = way.work_ns + cost.forward.communication_ns + cost.backward.communication_ns;
        let sent_ns = cost.forward.link_out_ns + cost.backward.link_out_ns;
        let sending_ns = match sent_ns {
            0 => 0,
            // Something may be sent back only after it has come here and on.
            _ if cost.forward.link_out_ns == 0 => 0,
            _ => times[0] + self.share_of(way) * sent_ns - cost.backward.link_out_ns,
        };
        let (there_ns, back_ns) = (cost.forward.link_out_ns, cost.backward.link_in_ns);
        let on_the_way_ns = match to == self.all() {
            // Between its passes both links of the last stage work side by side.
            true => there_ns.max(back_ns),
            false => there_ns + back_ns,
        };
        Stage {
            to: to as u32,
            way: *way,
            times,
            load_ns,
            latency_ns: load_ns + on_the_way_ns,
            sending_ns,
        }
    }

    /// The least work of the busiest stage, in ns, of all plans; 0 where there is none.
    fn least_period_ns(&self, most: usize) -> u64 {
        let count = self.ideals.sets.len();
        let mut least = vec![u64::MAX; count];
        least[count - 1] = 0;
        let mut best = u64::MAX;
        for _ in 0..most {
            let of = |from: usize| {
                let stages = self.stages[from].iter();
                let periods = stages.map(|stage| stage.load_ns.max(least[stage.to as usize]));
                periods.min().unwrap_or(u64::MAX)
            };
            least = (0..count).map(of).collect();
            best = best.min(least[0]);
        }
        match best {
            u64::MAX => 0,
            best => best,
        }
    }

    /// The dynamic program: from the last stage to the first.
    fn fill(&mut self, most: usize) {
        let count = self.ideals.sets.len();
        let mut last = vec![Least::NONE; count];
        // The last stage may wait between its passes, too, and have more in flight for that.
        let waits = |stage: &Stage| stage.to as usize == count - 1 && stage.latency_ns > stage.load_ns;
        let waits = self.hiding.is_some() && self.stages.iter().flatten().any(waits);
        last[count - 1] = Least {
            own_ns: 0,
            long_ns: if waits { 0 } else { u64::MAX },
            more_ns: u64::MAX,
        };
        self.least = vec![last];
        self.passages = vec![vec![u64::MAX; count]];
        self.passages[0][count - 1] = 0;
        self.ends.clone_from(&self.passages);
        for left in 1..=most {
            let passages = (0..count).map(|from| self.passage_ns(from, left)).collect();
            self.passages.push(passages);
            let ends = (0..count).map(|from| self.last_end_ns(from, left)).collect();
            self.ends.push(ends);
            let of = |from: usize| {
                let stages = self.stages[from].iter();
                let bounds = stages.filter_map(|stage| self.through(from, stage, left));
                bounds.fold(Least::NONE, Least::min)
            };
            let row = (0..count).map(of).collect();
            self.least.push(row);
        }
    }

    /// What a micro-batch spends behind an ideal at least, with so many units left, of which rows of fewer are known.
    fn passage_ns(&self, from: usize, left: usize) -> u64 {
        let passages = self.next_stages(from, left).map(|(stage, behind)| {
            let rest_ns = self.passages[behind][stage.to as usize];
            stage.latency_ns.saturating_add(rest_ns)
        });
        passages.min().unwrap_or(u64::MAX)
    }

    /// The stages that may come next with so many units left, each with how many are left behind it.
    fn next_stages(&self, from: usize, left: usize) -> impl Iterator<Item = (&Stage, usize)> {
        self.stages[from].iter().filter_map(move |stage| {
            let behind = left.checked_sub(stage.way.units as usize)?;
            (left <= stage.way.most_left as usize).then_some((stage, behind))
        })
    }

    /// When the last stage behind an ideal has done at least what it does once, with so many units left, of which rows of fewer are known.
    fn last_end_ns(&self, from: usize, left: usize) -> u64 {
        let ends = self.next_stages(from, left).map(|(stage, behind)| {
            let others_ns = self.ends[behind][stage.to as usize].saturating_add(stage.times[0]);
            self.end_ns(stage).max(others_ns)
        });
        ends.min().unwrap_or(u64::MAX)
    }

    /// When a stage has done what it does once, from when the first micro-batch gets to it: work for all of a replica's lies before.
    fn end_ns(&self, stage: &Stage) -> u64 {
        self.share_of(&stage.way) * stage.load_ns + stage.way.once_ns
    }

    /// The least bounds of plans whose next stage, of so many, is this one.
    fn through(&self, from: usize, stage: &Stage, left: usize) -> Option<Least> {
        let next = self.least[left.checked_sub(stage.way.units as usize)?][stage.to as usize];
        let behind_ns = |ns: u64| ns.saturating_add(stage.latency_ns);
        let [own_ns, more_ns] = self.of_stage_ns(stage, left)?;
        let own_ns = own_ns.max(behind_ns(next.own_ns.min(next.long_ns)));
        let exceeded_ns = match self.may_have_more(stage) {
            true => next.long_ns.min(next.more_ns),
            false => next.more_ns,
        };
        let is_long = self.may_be_behind(from, stage);
        // The last task of all is the first stage's.
        let once_ns = if from == 0 { stage.way.once_ns } else { 0 };
        let own_ns = own_ns.saturating_add(once_ns);
        Some(Least {
            own_ns: if is_long { u64::MAX } else { own_ns },
            long_ns: if is_long { own_ns } else { u64::MAX },
            more_ns: more_ns.max(behind_ns(exceeded_ns)).saturating_add(once_ns),
        })
    }

    fn may_have_more(&self, stage: &Stage) -> bool {
        let hiding = self.hiding.as_ref();
        hiding.is_some_and(|hiding| hiding.may_have_more(stage.load_ns, stage.to as usize))
    }

    fn may_be_behind(&self, from: usize, stage: &Stage) -> bool {
        let hiding = self.hiding.as_ref();
        hiding.is_some_and(|hiding| hiding.may_be_behind(stage.load_ns, [from, stage.to as usize]))
    }

    /// The first stages of a plan and a next one, of so many that are left, and the bound of plans that begin with these; `None` where there
    /// is none.
    pub(super) fn extended(&self, first: &First, stage: &Stage, left: usize) -> Option<(First, u64)> {
        let [own_ns, more_ns] = self.of_stage_ns(stage, left)?;
        let is_long = self.may_be_behind(first.ideal as usize, stage);
        let before_ns = match first.may_have_more && is_long {
            true => first.more_ns,
            false => first.own_ns,
        };
        let once_ns = match first.ideal {
            0 => stage.way.once_ns,
            _ => first.once_ns,
        };
        let first = First {
            once_ns,
            ideal: stage.to,
            latency_ns: first.latency_ns + stage.latency_ns,
            own_ns: before_ns.max(first.latency_ns + own_ns),
            more_ns: first.more_ns.max(first.latency_ns + more_ns),
            passed_ns: first.passed_ns + stage.times[0],
            end_ns: first.end_ns.max(first.passed_ns + self.end_ns(stage)),
            may_have_more: self.may_have_more(stage),
        };
        let behind = left.checked_sub(stage.way.units as usize)?;
        let next = self.least[behind][stage.to as usize];
        let ends_ns = self.ends[behind][stage.to as usize].saturating_add(first.passed_ns);
        let exceeded_ns = match first.may_have_more {
            true => next.long_ns.min(next.more_ns),
            false => next.more_ns,
        };
        let behind_ns = |ns: u64| ns.saturating_add(first.latency_ns);
        let own_ns = first.own_ns.max(behind_ns(next.own_ns.min(next.long_ns)));
        let bound_ns = own_ns.min(first.more_ns.max(behind_ns(exceeded_ns)));
        let bound_ns = bound_ns.saturating_add(once_ns).max(ends_ns).max(first.end_ns);
        (bound_ns < u64::MAX).then_some((first, bound_ns))
    }
}

//! PipeDream's dynamic program over antichain states, for stages on one device each or on several.
//!
//! [`pipedream`](super::pipedream) says what it computes and where it comes from. PipeDream builds plans from the first
//! stage; from the last, as here, the least bottleneck is the same, and a stage's memory is known, since that depends on
//! how many stages come after it.

use std::cmp::Reverse;

use super::MustStop;
use crate::model::words::Words;
use crate::problem::{Assignment, Problem, Transfer};
use crate::search::ideals::{Ideals, IdealsError};

/// Most states that the program looks at: a few seconds without extra devices, half a minute with many.
pub(crate) const MOST_STATES: usize = 10_000;

/// The devices of a plan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Devices {
    /// Most stages; each has a device.
    pub stages: usize,
    /// Whether there must be just as many.
    pub all_stages: bool,
    /// Devices in all.
    pub count: usize,
    /// Devices beyond the first that stages may have together.
    pub extra: usize,
    /// Bytes a device may hold.
    pub memory_bytes: u64,
}

/// What a stage holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StageSums {
    /// Forward work in ns.
    pub forward_ns: u64,
    /// Backward work in ns.
    pub backward_ns: u64,
    /// Bytes of the parameters.
    pub parameter_bytes: u64,
}

/// A plan of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Laid {
    /// Stage of every item.
    pub assignment: Assignment,
    /// Devices of each stage.
    pub devices: Vec<usize>,
    /// PipeDream's own objective in ns: the busiest stage or link.
    pub objective_ns: u64,
}

/// Whether the program takes a problem, or why not.
pub(crate) fn has_few_states(problem: &Problem) -> Result<(), Words> {
    match enumerate(problem, &|| false) {
        Ok(_) => Ok(()),
        Err(_) => Err("it has more than 10,000 antichain states".into()),
    }
}

/// The plan of the least bottleneck; `None` where there are too many states, or no plan, or when it must stop.
///
/// * `stage_ns`: what a stage takes on so many devices; no less if it holds more.
///
/// Of equal plans it takes one of the fewest stages, and of those one of the most devices. It asks for plans ever further
/// above an equal share of the work: those near it have few stages to choose from.
///
/// # Complexity
///
/// Time O(P (d + q s²)) for P pairs of nested states, a stage no longer than the limit apart, d states just below one, q
/// stages and s - 1 extra devices. Space O(N (n / 64 + q s)) for N states of n items.
pub(crate) fn lay(
    problem: &Problem,
    devices: Devices,
    stage_ns: impl Fn(&StageSums, usize) -> u64,
    must_stop: MustStop<'_>,
) -> Option<Laid> {
    let mut program = Program::new(problem, devices, must_stop)?;
    let all_ns = stage_ns(&program.states[program.states.len() - 1].sums, 1);
    let share_ns = all_ns / devices.count as u64;
    let mut margin_ns = (share_ns / FIRST_MARGIN).max(1);
    while share_ns + margin_ns < all_ns {
        let laid = program.lay_within(share_ns + margin_ns, &stage_ns, must_stop);
        if laid.is_some() {
            return laid;
        }
        margin_ns *= 2;
    }
    program.lay_within(u64::MAX, &stage_ns, must_stop)
}

/// The first limit is this fraction above an equal share of the work.
const FIRST_MARGIN: u64 = 16;

fn enumerate(problem: &Problem, must_stop: MustStop<'_>) -> Result<Ideals, IdealsError> {
    Ideals::enumerate(problem, MOST_STATES, must_stop)
}

struct Program {
    devices: Devices,
    /// Stages of use: no more than there are items.
    stages: usize,
    /// Numbers of extra devices, 0 among them.
    width: usize,
    ideals: Ideals,
    /// One for each ideal.
    states: Vec<State>,
    /// The best way to lay all items outside each ideal, at `stages * width + extra devices`.
    steps: Vec<Vec<Step>>,
}

/// Sums over the items of an ideal.
struct State {
    sums: StageSums,
    /// Transfers between the ideal and the rest, in ns.
    link_ns: u64,
    /// Bytes of the items on a stage with r stages behind it, by r.
    bytes: Vec<u64>,
}

/// A way to lay what is left.
#[derive(Clone, Copy)]
struct Step {
    /// The busiest stage or link; `u64::MAX` where no way is known.
    objective_ns: u64,
    /// The ideal that ends its first stage.
    after: usize,
    /// Spare devices of that stage.
    extra: usize,
}

impl Step {
    const UNKNOWN: Self = Self {
        objective_ns: u64::MAX,
        after: 0,
        extra: 0,
    };

    /// Takes another step where that is better, if its bottleneck is no more than a limit.
    fn improve(&mut self, other: Self, limit_ns: u64) {
        if other.objective_ns <= limit_ns && other.objective_ns < self.objective_ns {
            *self = other;
        }
    }
}

impl Program {
    fn new(problem: &Problem, devices: Devices, must_stop: MustStop<'_>) -> Option<Self> {
        let ideals = enumerate(problem, must_stop).ok()?;
        let stages = devices.stages.min(problem.items.len());
        let width = devices.extra + 1;
        let state = |ideal| State::new(problem, &ideals, ideal, stages);
        Some(Self {
            devices,
            stages,
            width,
            states: (0..ideals.sets.len()).map(state).collect(),
            ideals,
            steps: Vec::new(),
        })
    }

    /// The best plan, if its bottleneck is no more than a limit.
    fn lay_within(
        &mut self,
        limit_ns: u64,
        stage_ns: impl Fn(&StageSums, usize) -> u64,
        must_stop: MustStop<'_>,
    ) -> Option<Laid> {
        let all = self.states.len() - 1;
        self.steps = vec![vec![Step::UNKNOWN; (self.stages + 1) * self.width]; all + 1];
        self.steps[all][0].objective_ns = 0;
        // Ideals are numbered by size, so every state is final when the program comes to it.
        for after in (1..=all).rev() {
            if self.is_known(after) && self.states[after].link_ns <= limit_ns {
                let outer = self.states[after].sums;
                let is_short = |before: usize| {
                    let sums = outer.minus(self.states[before].sums);
                    // More devices need not be faster: they have weights to keep equal.
                    (1..=self.width)
                        .rev()
                        .any(|devices| stage_ns(&sums, devices) <= limit_ns)
                };
                if must_stop() {
                    return None;
                }
                for before in self.ideals.inside_while(after, is_short) {
                    self.put_stage(before, after, limit_ns, &stage_ns);
                }
            }
        }
        self.best()
    }

    /// Whether some way is known to lay what follows an ideal that leaves a stage free.
    fn is_known(&self, ideal: usize) -> bool {
        let ways = &self.steps[ideal][..self.stages * self.width];
        ways.iter().any(|way| way.objective_ns < u64::MAX)
    }

    /// Puts the stage between two ideals in front of every way to lay what follows, as far as that keeps the limit.
    fn put_stage(
        &mut self,
        before: usize,
        after: usize,
        limit_ns: u64,
        stage_ns: impl Fn(&StageSums, usize) -> u64,
    ) {
        let (inner, outer) = (&self.states[before], &self.states[after]);
        let sums = outer.sums.minus(inner.sums);
        let link_ns = outer.link_ns;
        let times_ns: Vec<u64> = (1..=self.width).map(|devices| stage_ns(&sums, devices)).collect();
        let (smaller, larger) = self.steps.split_at_mut(after);
        for r in 0..self.stages {
            if outer.bytes[r] - inner.bytes[r] > self.devices.memory_bytes {
                // Further from the end a stage holds no less.
                break;
            }
            let Some(extra) = self.devices.count.checked_sub(r + 1) else {
                break;
            };
            // The fewer stages, the more devices each may have.
            let width = self.width.min(extra + 1);
            let ways = larger[0][r * self.width..].iter().take(width);
            for (behind, way) in ways.enumerate().filter(|(_, way)| way.objective_ns < u64::MAX) {
                for (extra, &time_ns) in times_ns[..width - behind].iter().enumerate() {
                    let step = Step {
                        objective_ns: way.objective_ns.max(link_ns).max(time_ns),
                        after,
                        extra,
                    };
                    smaller[before][(r + 1) * self.width + behind + extra].improve(step, limit_ns);
                }
            }
        }
    }

    fn best(&self) -> Option<Laid> {
        let least = if self.devices.all_stages {
            self.devices.stages
        } else {
            1
        };
        let step = |ideal: usize, stages: usize, extra: usize| self.steps[ideal][stages * self.width + extra];
        let ends = (least..=self.stages).flat_map(|stages| (0..self.width).map(move |extra| (stages, extra)));
        let (stages, mut extra) = ends
            .min_by_key(|&(stages, extra)| (step(0, stages, extra).objective_ns, stages, Reverse(extra)))?;
        let objective_ns = step(0, stages, extra).objective_ns;
        if objective_ns == u64::MAX {
            return None;
        }
        let items = self.ideals.sets[self.states.len() - 1].len();
        let mut laid = Laid {
            assignment: vec![0; items],
            devices: Vec::new(),
            objective_ns,
        };
        let mut ideal = 0;
        for stage in 0..stages {
            let first = step(ideal, stages - stage, extra);
            for item in self.ideals.between(ideal, first.after) {
                laid.assignment[item] = stage;
            }
            laid.devices.push(1 + first.extra);
            (ideal, extra) = (first.after, extra - first.extra);
        }
        Some(laid)
    }
}

impl State {
    fn new(problem: &Problem, ideals: &Ideals, ideal: usize, stages: usize) -> Self {
        let set = &ideals.sets[ideal];
        let items = || set.ones().map(|item| &problem.items[item]);
        let crosses = |transfer: &&Transfer| {
            let is_in = set.contains(transfer.producer);
            transfer.consumers.iter().any(|&to| set.contains(to) != is_in)
        };
        let crossing = problem.transfers.iter().filter(crosses);
        let bytes = |r| items().map(|item| problem.memory_bytes(item, r + 1)).sum();
        Self {
            sums: StageSums {
                forward_ns: items().map(|item| item.forward_ns).sum(),
                backward_ns: items().map(|item| item.backward_ns).sum(),
                parameter_bytes: items().map(|item| item.parameter_bytes).sum(),
            },
            link_ns: crossing.map(|transfer| transfer.total_ns()).sum(),
            bytes: (0..stages).map(bytes).collect(),
        }
    }
}

impl StageSums {
    /// What is left without a part of it.
    fn minus(self, part: Self) -> Self {
        Self {
            forward_ns: self.forward_ns - part.forward_ns,
            backward_ns: self.backward_ns - part.backward_ns,
            parameter_bytes: self.parameter_bytes - part.parameter_bytes,
        }
    }
}

//! One question: is there a plan whose every stage keeps a limit?

use crate::control::Control;
use crate::cost;
use crate::cost::allocation::Allocation;
use crate::exact::ideals::growth;
use crate::exact::modal::ahead::Ahead;
use crate::exact::modal::items::{self, Sum};
use crate::exact::modal::round::Round;
use crate::exact::modal::spans::Spans;
use crate::modes::{Chosen, Knapsack, Modes};
use crate::plan::StoppedBy;
use crate::problem::{Assignment, Problem};

/// What a pass found.
pub(super) enum Pass {
    /// A plan. Where tensors skip stages and links have two levels, it may take longer than the limit.
    Found(Assignment, Chosen),
    /// No plan takes less than this many ticks.
    Exhausted(u64),
    /// A limit of the search.
    Stopped(StoppedBy),
}

/// What a pass looks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    /// The longest period of a stage, in ticks.
    pub limit: u64,
    /// Plans that take as long are of no interest: the best that is known. At least the limit.
    pub ceiling: u64,
    /// Only stages that follow the numbering of the items.
    pub in_order: bool,
    /// Of all such plans the one that computes least again; else any.
    pub least_again: bool,
}

/// A search over the ideals of a problem, pass after pass.
pub(super) struct ModalSearch<'a> {
    pub(super) problem: &'a Problem,
    pub(super) modes: &'a Modes,
    pub(super) control: &'a Control<'a>,
    pub(super) sums: Vec<Vec<Sum>>,
    /// The least time that each item takes of all devices together.
    pub(super) device_times: Vec<u64>,
    pub(super) predecessors: Vec<Vec<usize>>,
    pub(super) successors: Vec<Vec<usize>>,
    /// What stages along the numbering of the items take; `None` where there are too many items.
    pub(super) spans: Option<Spans<'a>>,
    /// Ideals met in all passes.
    pub ideals: usize,
}

impl<'a> ModalSearch<'a> {
    pub(super) fn new(problem: &'a Problem, modes: &'a Modes, control: &'a Control<'a>) -> Self {
        let sums = items::sums(modes);
        let predecessors = growth::predecessors(problem);
        let mut successors = vec![Vec::new(); predecessors.len()];
        for (item, before) in predecessors.iter().enumerate() {
            before.iter().for_each(|&first| successors[first].push(item));
        }
        Self {
            problem,
            modes,
            control,
            device_times: items::device_times(modes, &sums),
            spans: Spans::new(modes, &sums),
            sums,
            predecessors,
            successors,
            ideals: 0,
        }
    }

    /// No plan takes less: all devices share the work evenly. `None` where some item runs at no degree.
    pub(super) fn least(&self) -> Option<u64> {
        let mut times = self.device_times.iter();
        let all = times.try_fold(0u64, |sum, &time| (time < u64::MAX).then(|| sum + time))?;
        Some(all.div_ceil(self.modes.devices as u64))
    }

    /// Every plan takes at most this.
    pub(super) fn most(&self) -> u64 {
        self.modes.longest()
    }

    /// Time that a plan computes again, beyond the fastest ways of its layers at their degrees, in ticks.
    pub(super) fn again(&self, plan: &Allocation) -> u64 {
        let Some(chosen) = &plan.modes else {
            return 0;
        };
        let of_item = |(item, &stage): (usize, &usize)| {
            let degree = chosen.stages[stage].degree;
            let layers = self.modes.items[item][degree]
                .iter()
                .flat_map(|item| &item.layers);
            let beyond = layers.map(|layer| {
                let way = layer
                    .ways
                    .iter()
                    .find(|way| way.mode == chosen.layers[layer.layer]);
                way.map_or(0, |way| way.time() - layer.ways[0].time())
            });
            beyond.sum::<u64>()
        };
        plan.assignment.iter().enumerate().map(of_item).sum()
    }

    /// Whether stages cost the least they can.
    pub(super) fn is_exact(&self) -> bool {
        self.modes.knapsack == Knapsack::Exact
    }

    /// Whether each item but the first must follow the one before it: then plans follow the numbering anyway.
    pub(super) fn is_chain(&self) -> bool {
        let follows = |item: usize| self.predecessors[item].contains(&(item - 1));
        (1..self.predecessors.len()).all(follows)
    }

    /// One pass for each place of a node at which the last stage may end; for stages in order first one from the front, which may do.
    pub(super) fn ask(&mut self, question: Question) -> Pass {
        let spans = self.spans.as_ref().filter(|_| question.in_order);
        let ahead = spans.map(|spans| Ahead::new(self.modes, spans, question.limit, question.ceiling));
        let keeps = |(assignment, modes): &(Assignment, Chosen)| {
            let plan = Allocation {
                modes: Some(modes.clone()),
                ..Allocation::from(assignment.clone())
            };
            cost::modal_ns(self.problem, self.modes, &plan).is_some_and(|ns| ns <= question.limit)
        };
        if let Some(ahead) = ahead.as_ref().filter(|_| !question.least_again)
            && let Some((assignment, chosen)) = ahead.plans().find(keeps)
        {
            return Pass::Found(assignment, chosen);
        }
        let mut ideals = 0;
        let pass = self.ask_behind(question, ahead.as_ref(), &mut ideals);
        self.ideals += ideals;
        pass
    }

    /// The passes from the end.
    fn ask_behind(&self, question: Question, ahead: Option<&Ahead>, ideals: &mut usize) -> Pass {
        let node = self.modes.links.node.unwrap_or(1);
        let ends = match self.modes.links.node {
            Some(node) => node.min(self.modes.devices),
            None => 1,
        };
        let mut next = ahead.map_or(u64::MAX, |ahead| ahead.next);
        let mut best: Option<(u64, (Assignment, Chosen))> = None;
        // Numbers of devices that leave the same rest, counted from far enough on that no stage begins below 0.
        let far = self.modes.devices.next_multiple_of(node);
        let is_open = |end: &usize| ahead.is_none_or(|ahead| ahead.devices(self.sums.len(), *end).is_some());
        for end in (1..=ends).filter(is_open) {
            let mut round = Round::new(self, question, ahead, far + end);
            let found = match round.run() {
                Ok(found) => found,
                Err(stopped) => return Pass::Stopped(stopped),
            };
            next = next.min(round.next);
            *ideals += round.reached.ideals.len();
            let Some(label) = found else { continue };
            let again = round.reached.labels[label].again;
            let (assignment, chosen) = round.plan(label);
            if !question.least_again {
                return Pass::Found(assignment, chosen);
            }
            if best.as_ref().is_none_or(|(least, _)| again < *least) {
                best = Some((again, (assignment, chosen)));
            }
        }
        match best {
            Some((_, (assignment, chosen))) => Pass::Found(assignment, chosen),
            None => Pass::Exhausted(next),
        }
    }
}

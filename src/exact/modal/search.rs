//! One question: is there a plan whose every stage keeps a limit?

use crate::exact::ideals::growth;
use crate::exact::modal::aims::Aim;
use crate::exact::modal::field::{Field, Least};
use crate::exact::modal::items::{self, Sum, Work};
use crate::exact::modal::lattice::Lattice;
use crate::exact::modal::space::Space;
use crate::problem::control::Control;
use crate::problem::cost::allocation::Allocation;
use crate::problem::modes::{Chosen, Knapsack, Modes};
use crate::problem::plan::StoppedBy;
use crate::problem::{Assignment, Problem};
use crate::search::limits::Answer;

/// What a pass found. Where tensors skip stages and links have two levels, a plan may take longer than the limit.
pub(super) type ModalAnswer = Answer<(Assignment, Chosen)>;

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
    sums: Vec<Vec<Sum>>,
    /// The least time that each item takes of all devices together.
    device_times: Vec<u64>,
    /// What work takes of devices that differ.
    work: Option<Work>,
    predecessors: Vec<Vec<usize>>,
    /// The passes over ideals along the numbering of the items, and over all, once they are asked for.
    fields: [Option<Field<'a>>; 2],
}

impl<'a> ModalSearch<'a> {
    pub(super) fn new(problem: &'a Problem, modes: &'a Modes, control: &'a Control<'a>) -> Self {
        let sums = items::sums(modes);
        let device_times = items::device_times(modes, &sums);
        let work = || Work::of_items(modes, &sums, &device_times);
        Self {
            problem,
            modes,
            control,
            work: (modes.rows.len() > 1).then(work).flatten(),
            device_times,
            sums,
            predecessors: growth::predecessors(problem),
            fields: [None, None],
        }
    }

    /// No plan takes less: all devices share the work evenly. `None` where some item runs at no degree.
    pub(super) fn least(&self) -> Option<u64> {
        let mut times = self.device_times.iter();
        let all = times.try_fold(0u64, |sum, &time| (time < u64::MAX).then(|| sum + time))?;
        let devices = self.modes.rows.iter().map(|row| row.devices);
        match &self.work {
            Some(work) => Some(work.least_period(devices)),
            None => Some(all.div_ceil(self.modes.devices as u64)),
        }
    }

    /// No plan takes a micro-batch through all stages sooner, each item on the devices of some degree. `None` where some item runs at no degree.
    pub(super) fn least_once(&self) -> Option<u64> {
        items::least_times(&self.sums).into_iter().sum()
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

    /// Whether what is proved of all stages, or of those in order, holds for all plans.
    pub(super) fn is_bound(&self, in_order: bool) -> bool {
        (!in_order || self.is_chain()) && self.is_exact()
    }

    /// Ideals of the largest lattice that was searched.
    pub(super) fn ideals(&self) -> usize {
        let fields = self.fields.iter().flatten();
        fields.map(|field| field.space.lattice.len()).max().unwrap_or(0)
    }

    /// Asks over all stages, or over those that follow the numbering of the items.
    pub(super) fn ask(&mut self, question: Question) -> ModalAnswer {
        self.asked(question).unwrap_or_else(Answer::Stopped)
    }

    /// What no plan takes less than of an aim, and the plan of that, over all stages or those that follow the numbering of the items; see [`Field::least`].
    pub(super) fn least_of<A: Aim>(
        &mut self,
        limit: u64,
        in_order: bool,
    ) -> Result<Option<Least>, StoppedBy> {
        let Some(work) = Work::of_items(self.modes, &self.sums, &self.device_times) else {
            return Ok(None);
        };
        self.field(in_order)?.least::<A>(limit, &work)
    }

    fn asked(&mut self, question: Question) -> Result<ModalAnswer, StoppedBy> {
        let most = self.most();
        let field = self.field(question.in_order)?;
        field.narrow(question.ceiling.min(most))?;
        field.ask(question)
    }

    /// The passes over all ideals, or over those along the numbering of the items.
    fn field(&mut self, in_order: bool) -> Result<&mut Field<'a>, StoppedBy> {
        let own = &mut self.fields[usize::from(in_order)];
        if own.is_none() {
            let lattice = Lattice::new(&self.predecessors, in_order, self.control)?;
            let known = (self.modes, self.problem.confined.as_ref());
            let space = Space::new(known, self.control, lattice, self.sums.clone());
            *own = Some(Field::new(self.problem, space, self.work.as_ref()));
        }
        Ok(own.as_mut().expect("it was made"))
    }
}

//! The shortest iteration of M micro-batches within the room of the devices.
#![doc = include_str!("../../../../formulations/iteration_orders.md")]

mod bound;
mod branch;
mod greedy;
mod local;
mod tasks;
mod work_before;

use crate::problem::control::Control;
use crate::problem::plan::{Status, StoppedBy};
use crate::schedule::rules::{RULES, Shape};
use crate::schedule::{Chunks, Order, Pattern};
use crate::search::in_time::{self, Ending, Latest};
use bound::Bound;
use greedy::Taste;
use tasks::{Lists, Tasks};

/// What a published rule takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfRule {
    /// The rule.
    pub name: &'static str,
    /// Its iteration; `None` where devices have no room for it.
    pub iteration_ns: Option<u64>,
}

/// What a search for an order found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The best order.
    pub order: Option<Order>,
    /// Its iteration.
    pub iteration_ns: Option<u64>,
    /// No order takes less.
    pub bound_ns: u64,
    /// What is proved of it.
    pub status: Status,
    /// Why the search stopped.
    pub stopped_by: StoppedBy,
    /// What rules take that are for such pipelines.
    pub rules: Vec<OfRule>,
}

/// Operations up to which branch and bound is tried.
const MOST_OPERATIONS: usize = 400;

/// Gives a pattern that fits the room of the devices, if one is found soon.
pub type FindPattern<'a> = &'a dyn Fn() -> Option<Pattern>;

/// The shortest iteration of so many micro-batches, of which there is one at least.
///
/// Rules come first, then lists by urgency, then local search, then the order of a pattern, then branch and bound, each only if there is
/// still a gap.
pub fn best(chunks: &Chunks, micro_batches: usize, pattern: Option<FindPattern>, control: &Control) -> Found {
    search(
        chunks,
        micro_batches,
        (None, pattern),
        &Latest::default(),
        control,
    )
}

/// The same in the time that `control` allows and a moment more, whatever a step of it takes: then what was found by then.
///
/// * `pattern`: gives a pattern as [`FindPattern`] does, under a control.
pub fn best_in_time<P>(chunks: &Chunks, micro_batches: usize, pattern: P, control: &Control) -> Found
where
    P: Fn(&Control) -> Option<Pattern> + Send + 'static,
{
    let own = chunks.clone();
    let in_time = move |control: &Control, latest: &Latest<Found>| {
        let pattern = || pattern(control);
        search(&own, micro_batches, (None, Some(&pattern)), latest, control)
    };
    match in_time::latest(control, in_time) {
        Ending::Ended(found) => found,
        Ending::Left(Some(found), _) if found.status == Status::Optimal => found,
        Ending::Left(Some(found), stopped_by) => Found { stopped_by, ..found },
        Ending::Left(None, stopped_by) => Found {
            order: None,
            iteration_ns: None,
            bound_ns: 0,
            status: Status::Unknown,
            stopped_by,
            rules: Vec::new(),
        },
    }
}

/// The same with an order that is known, from which local search starts if it is better than rules and lists.
pub fn better(chunks: &Chunks, micro_batches: usize, known: Option<&Order>, control: &Control) -> Found {
    search(chunks, micro_batches, (known, None), &Latest::default(), control)
}

fn search(
    chunks: &Chunks,
    micro_batches: usize,
    (known, pattern): (Option<&Order>, Option<FindPattern>),
    latest: &Latest<Found>,
    control: &Control,
) -> Found {
    let tasks = Tasks::new(chunks, micro_batches);
    if !has_room(chunks) {
        return Found {
            order: None,
            iteration_ns: None,
            bound_ns: 0,
            status: Status::Infeasible,
            stopped_by: StoppedBy::Completed,
            rules: Vec::new(),
        };
    }
    let mut best = Best::new(&tasks);
    let rules = rules(chunks, micro_batches, &mut best);
    known.into_iter().for_each(|order| best.offer_order(order));
    // The busiest device works off all micro-batches.
    let busiest_ns = micro_batches as u64 * chunks.least_period_ns();
    let show =
        |best: &Best, bound_ns: u64| latest.show(best.found(bound_ns, StoppedBy::Completed, rules.clone()));
    show(&best, busiest_ns);
    let bound = Bound::new(&tasks);
    show(&best, bound.least_ns);
    best.list(&bound, control);
    show(&best, bound.least_ns);
    best.improve(&bound, control);
    show(&best, bound.least_ns);
    if best.makespan_ns > bound.least_ns
        && let Some(pattern) = pattern.and_then(|find| find())
        && let Some(lists) = tasks.lists(&pattern.order(chunks, micro_batches))
    {
        best.offer(local::improve(&tasks, &lists, &bound, control));
        show(&best, bound.least_ns);
    }
    let (least_ns, stopped_by) = best.prove(&bound, control);
    best.found(least_ns, stopped_by, rules)
}

/// What no order of so many micro-batches falls below, without a search; 0 where devices have no room for one micro-batch.
pub fn bound_ns(chunks: &Chunks, micro_batches: usize) -> u64 {
    match has_room(chunks) {
        true => Bound::new(&Tasks::new(chunks, micro_batches)).least_ns,
        false => 0,
    }
}

/// A good order that is found at once, by rules and lists by urgency, and its iteration in ns; `None` where devices have no room.
pub fn quick(chunks: &Chunks, micro_batches: usize, control: &Control) -> Option<(Order, u64)> {
    rules_and(chunks, micro_batches, |best, tasks| {
        best.list(&Bound::new(tasks), control)
    })
}

/// The order of the best published rule that is for such chunks and has room there, and its iteration in ns; one micro-batch after the other where
/// that is shorter, or no rule is. `None` where devices have no room. Time O(operations) for each rule.
pub fn by_rules(chunks: &Chunks, micro_batches: usize) -> Option<(Order, u64)> {
    rules_and(chunks, micro_batches, |_, _| ())
}

/// The best order of the published rules and of what else is offered, and its iteration in ns; `None` where devices have no room.
fn rules_and(
    chunks: &Chunks,
    micro_batches: usize,
    offer: impl FnOnce(&mut Best, &Tasks),
) -> Option<(Order, u64)> {
    if !has_room(chunks) {
        return None;
    }
    let tasks = Tasks::new(chunks, micro_batches);
    let mut best = Best::new(&tasks);
    best.offer_rules(chunks, micro_batches);
    offer(&mut best, &tasks);
    Some((tasks.order(&best.lists), best.makespan_ns))
}

/// What an order takes; `None` where it cannot be run. Backward passes that it leaves whole are split where they may be.
pub fn time_ns(chunks: &Chunks, order: &Order, micro_batches: usize) -> Option<u64> {
    let tasks = Tasks::new(chunks, micro_batches);
    tasks.makespan_ns(&tasks.lists(order)?)
}

/// What the published rules take that are for such chunks.
pub fn rules_on(chunks: &Chunks, micro_batches: usize) -> Vec<OfRule> {
    let tasks = Tasks::new(chunks, micro_batches);
    rules(chunks, micro_batches, &mut Best::new(&tasks))
}

/// Whether every device has room for one micro-batch: then there is an order.
fn has_room(chunks: &Chunks) -> bool {
    let fits = |device: usize| chunks.room[device].is_none_or(|room| chunks.least_held(device) <= room);
    (0..chunks.devices()).all(fits)
}

/// The best lists so far.
struct Best<'a> {
    tasks: &'a Tasks,
    lists: Lists,
    makespan_ns: u64,
}

impl<'a> Best<'a> {
    /// One micro-batch after the other.
    fn new(tasks: &'a Tasks) -> Self {
        let mut best = Self {
            tasks,
            lists: greedy::one_by_one(tasks),
            makespan_ns: u64::MAX,
        };
        best.offer(best.lists.clone());
        best
    }

    /// What is known of them, under a bound on all orders.
    fn found(&self, bound_ns: u64, stopped_by: StoppedBy, rules: Vec<OfRule>) -> Found {
        let (status, stopped_by) = match self.makespan_ns <= bound_ns {
            true => (Status::Optimal, StoppedBy::Completed),
            false => (Status::Feasible, stopped_by),
        };
        Found {
            order: Some(self.tasks.order(&self.lists)),
            iteration_ns: Some(self.makespan_ns),
            bound_ns,
            status,
            stopped_by,
            rules,
        }
    }

    /// The orders of all rules that are for such pipelines.
    fn offer_rules(&mut self, chunks: &Chunks, micro_batches: usize) {
        for (_, order) in orders_of_rules(chunks, micro_batches) {
            self.offer_order(&order);
        }
    }

    /// Lists by urgency.
    fn list(&mut self, bound: &Bound, control: &Control) {
        for taste in tastes(self.tasks.devices) {
            if self.makespan_ns > bound.least_ns && control.must_stop().is_none() {
                self.offer(greedy::list(self.tasks, &bound.tails, taste));
            }
        }
    }

    /// Local search from the best of all.
    fn improve(&mut self, bound: &Bound, control: &Control) {
        if self.makespan_ns > bound.least_ns {
            self.offer(local::improve(self.tasks, &self.lists, bound, control));
        }
    }

    /// What no order falls below after branch and bound, and why that stopped if there is a gap.
    fn prove(&mut self, bound: &Bound, control: &Control) -> (u64, StoppedBy) {
        if self.makespan_ns <= bound.least_ns {
            return (bound.least_ns, StoppedBy::Completed);
        }
        if self.tasks.count() > MOST_OPERATIONS {
            return (
                bound.least_ns,
                control.must_stop().unwrap_or(StoppedBy::SizeLimit),
            );
        }
        let known_ns = self.makespan_ns;
        let searched = branch::search(self.tasks, &bound.tails, known_ns, bound.least_ns, control);
        searched.lists.into_iter().for_each(|lists| self.offer(lists));
        match searched.stopped_by {
            None => (self.makespan_ns, StoppedBy::Completed),
            Some(stopped_by) => (bound.least_ns, stopped_by),
        }
    }

    fn offer_order(&mut self, order: &Order) {
        if let Some(lists) = self.tasks.lists(order) {
            self.offer(lists);
        }
    }

    fn offer(&mut self, lists: Lists) {
        if let Some(makespan_ns) = self.tasks.makespan_ns(&lists)
            && makespan_ns < self.makespan_ns
        {
            (self.lists, self.makespan_ns) = (lists, makespan_ns);
        }
    }
}

/// Runs every rule that is for such pipelines.
fn rules(chunks: &Chunks, micro_batches: usize, best: &mut Best) -> Vec<OfRule> {
    let ran = orders_of_rules(chunks, micro_batches)
        .into_iter()
        .map(|(name, order)| {
            let iteration = crate::schedule::run(chunks, &order, micro_batches);
            best.offer_order(&order);
            OfRule {
                name,
                iteration_ns: iteration.ok().map(|ran| ran.makespan_ns),
            }
        });
    ran.collect()
}

/// The orders of all rules that are for such pipelines. Where backward passes may be split, those that a rule leaves whole are.
fn orders_of_rules(chunks: &Chunks, micro_batches: usize) -> Vec<(&'static str, Order)> {
    let Some(shape) = Shape::from_chunks(chunks, micro_batches) else {
        return Vec::new();
    };
    let may = RULES.iter().filter(|rule| chunks.may_split || !rule.splits);
    may.filter_map(|rule| Some((rule.name, rule.order(&shape)?)))
        .collect()
}

/// Tastes of lists: from depth first to breadth first, with gradients of weights early and late.
fn tastes(devices: usize) -> impl Iterator<Item = Taste> {
    const FORWARD: [f64; 5] = [-1.0, 0.0, 0.1, 0.3, 1.0];
    const WEIGHT: [f64; 3] = [0.0, 0.3, 2.0];
    let ahead = [0, devices.div_ceil(2), devices, 2 * devices];
    FORWARD.into_iter().flat_map(move |forward| {
        WEIGHT.into_iter().flat_map(move |weight| {
            ahead.into_iter().map(move |ahead| Taste {
                forward,
                weight,
                ahead,
            })
        })
    })
}

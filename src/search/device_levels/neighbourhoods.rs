//! Plans made better a window of neighbouring stations at a time.
//!
//! A plan is as long as its longest stations. The tasks and devices of such a one and of a few stations beside it are a small line of their
//! own, in which a narrow search looks for a shorter plan; together with the other stations it is a plan of the whole line. Windows grow
//! while they find nothing, and then searches do. Example: of stations of 5, 9 and 4 ms, the window of the first two is a line of 14 ms of
//! work for two devices; a plan of it with stations of 7 and 7 ms makes the whole plan shorter.
//!
//! Large neighbourhood search (P. Shaw, *Using constraint programming and local search methods to solve vehicle routing problems*, CP
//! 1998). Windows of neighbouring stations are ours.

use std::collections::HashSet;

use crate::search::device_levels::line::{Line, TaskSet, tasks};
use crate::search::device_levels::search::{LevelSearch, Outcome, Stations};

/// Stations of the first windows.
const FIRST_SIZE: usize = 2;
/// Widths of searches, in turn, which are their subgradient steps too: large windows need better prices.
const WIDTHS: [usize; 3] = [20, 60, 180];

/// Improves the plan of an outcome in about `budget` more search nodes.
///
/// `must_stop`, asked every few milliseconds, ends it from outside.
pub(super) fn improve(line: &Line, outcome: &mut Outcome, budget: u64, must_stop: &dyn Fn() -> bool) {
    let Some(stations) = outcome.plan.take() else {
        return;
    };
    let last = outcome.work + budget;
    let mut plan = Plan { line, stations };
    for width in WIDTHS {
        // Periods only fall: a window that was left as it is has no better plan of this width later either.
        let mut seen = HashSet::new();
        let mut size = FIRST_SIZE;
        while size <= plan.stations.len() && outcome.work < last && !must_stop() {
            let mut windows = plan.windows(size).into_iter();
            let Some(window) = windows.find(|window| seen.insert((window.tasks, window.classes.clone())))
            else {
                size += 1;
                continue;
            };
            let budget = last - outcome.work;
            let (better, work) = plan.search(&window, width, budget, must_stop);
            outcome.work += work;
            if let Some(stations) = better {
                plan.stations.splice(window.first..window.first + size, stations);
                size = FIRST_SIZE;
            }
        }
    }
    outcome.upper = Some(plan.longest());
    outcome.plan = Some(plan.stations);
}

/// Neighbouring stations.
struct Window {
    first: usize,
    /// Their tasks.
    tasks: TaskSet,
    /// The classes of their devices, in ascending order.
    classes: Vec<usize>,
}

/// Stations of a line, in order.
struct Plan<'a> {
    line: &'a Line,
    stations: Stations,
}

impl Plan<'_> {
    /// Loads of all stations.
    fn loads(&self) -> Vec<u64> {
        let load = |(class, tasks): &(usize, Vec<usize>)| {
            let times = tasks.iter().filter_map(|&task| self.line.times[*class][task]);
            times.sum()
        };
        self.stations.iter().map(load).collect()
    }

    /// The longest load.
    fn longest(&self) -> u64 {
        self.loads().into_iter().max().unwrap_or(0)
    }

    /// The windows of `size` stations with a longest one among them.
    fn windows(&self, size: usize) -> Vec<Window> {
        let loads = self.loads();
        let longest = loads.iter().max();
        let has_longest = |first: &usize| loads[*first..first + size].iter().max() == longest;
        let firsts = (0..=loads.len() - size).filter(has_longest);
        firsts.map(|first| self.window(first, size)).collect()
    }

    fn window(&self, first: usize, size: usize) -> Window {
        let stations = &self.stations[first..first + size];
        let inside = stations.iter().flat_map(|(_, tasks)| tasks);
        let mut classes: Vec<usize> = stations.iter().map(|&(class, _)| class).collect();
        classes.sort_unstable();
        Window {
            first,
            tasks: inside.fold(0, |set, &task| set | 1 << task),
            classes,
        }
    }

    /// Stations for a window that all are shorter than the longest one of the plan, if any are found, and the work that this took.
    fn search(
        &self,
        window: &Window,
        width: usize,
        budget: u64,
        must_stop: &dyn Fn() -> bool,
    ) -> (Option<Stations>, u64) {
        let inside: Vec<usize> = tasks(window.tasks).collect();
        let mut counts = vec![0; self.line.classes()];
        window.classes.iter().for_each(|&class| counts[class] += 1);
        let part = self.line.part(&inside, &counts);
        let longest = self.longest();
        let mut search = LevelSearch::new(&part, window.classes.len(), Some(longest), budget, must_stop);
        search.steps = width;
        search.decide(longest.saturating_sub(1), width, 1);
        let of_line = |(class, tasks): (usize, Vec<usize>)| {
            let tasks = tasks.into_iter().map(|task| inside[task]);
            (class, tasks.collect())
        };
        let better = search.outcome.plan;
        let better = better.map(|stations| stations.into_iter().map(of_line).collect());
        (better, search.outcome.work)
    }
}

//! Best first over ideals, states and the times at which chunks leave the stages so far.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::options::Stage;
use super::stages::Stages;
use crate::exact::incumbent::Incumbent;
use crate::problem::bound_source::BoundSource;
use crate::problem::plan::StoppedBy;

/// How often limits are looked at and a plan is completed, in labels.
const LOOK: u64 = 256;

/// The first stages of a plan.
struct Label {
    /// The same without its last stage; its own position where it has none.
    parent: usize,
    at: Place,
    option: usize,
    /// No plan that begins so is faster.
    bound_ns: u64,
    /// Whether others of the same place are as fast for every chunk.
    is_dominated: bool,
}

/// Where the first stages of a plan end, and when each chunk leaves them.
#[derive(Clone)]
struct Place {
    ideal: usize,
    state: usize,
    /// The row of the last stage.
    last: usize,
    /// For each level that the boundary behind them may have, all chunks.
    left_ns: Box<[u64]>,
}

/// The search.
pub(super) struct ReadingSearch<'s, 'a> {
    stages: &'s Stages<'s, 'a>,
    labels: Vec<Label>,
    /// By ideal, state and last row, those that no other dominates.
    kept: Vec<Vec<usize>>,
    /// By bound, and of equals those that hold more.
    open: BinaryHeap<Reverse<(u64, Reverse<usize>, usize)>>,
    /// The least bound of a whole plan that takes longer than that, over a link that bounds do not know.
    inexact_ns: u64,
}

impl<'s, 'a> ReadingSearch<'s, 'a> {
    pub(super) fn new(stages: &'s Stages<'s, 'a>) -> Self {
        let lasts = if stages.options.levels.len() > 1 {
            stages.options.devices.len()
        } else {
            1
        };
        let mut search = Self {
            kept: vec![Vec::new(); (stages.all() + 1) * stages.states * lasts],
            labels: Vec::new(),
            open: BinaryHeap::new(),
            inexact_ns: u64::MAX,
            stages,
        };
        search.push(Label {
            parent: 0,
            at: Place {
                ideal: 0,
                state: 0,
                last: 0,
                left_ns: vec![0; stages.options.levels.len() * stages.times].into(),
            },
            option: 0,
            bound_ns: stages.first_ns(),
            is_dominated: false,
        });
        search
    }

    /// Looks at labels until the least bound meets the incumbent, or a limit does.
    pub(super) fn run(&mut self, incumbent: &mut Incumbent) -> StoppedBy {
        let times = self.stages.options.levels.len() * self.stages.times;
        let bytes = size_of::<Label>() + (times + 8) * size_of::<u64>();
        let most_labels = incumbent.control.room_bytes() / (2 * bytes);
        for looked in 0.. {
            let next = self.open.peek().map(|&Reverse((bound_ns, _, at))| (bound_ns, at));
            let next = next.filter(|&(bound_ns, _)| bound_ns < u64::MAX && bound_ns <= incumbent.target_ns());
            let Some((bound_ns, at)) = next else {
                self.conclude(incumbent);
                return StoppedBy::Completed;
            };
            if looked % LOOK == 0 {
                incumbent.raise(BoundSource::ChainsOfIdeals, bound_ns.min(self.inexact_ns));
                incumbent.report();
                if let Some(stopped_by) = incumbent.control.must_stop() {
                    return stopped_by;
                }
                if incumbent.is_over() {
                    return StoppedBy::Completed;
                }
                self.dive(at, incumbent);
            }
            if self.labels.len() >= most_labels {
                return StoppedBy::MemoryLimit;
            }
            self.open.pop();
            incumbent.statistics.nodes += 1;
            if self.labels[at].at.ideal == self.stages.all() {
                incumbent.offer_some(self.stages.options.plan(&self.path(at)));
                if incumbent.upper_ns > bound_ns {
                    self.inexact_ns = self.inexact_ns.min(bound_ns);
                }
            } else if !self.labels[at].is_dominated {
                self.branch(at, incumbent.target_ns());
            }
        }
        StoppedBy::Completed
    }

    /// Nothing else is of interest.
    fn conclude(&self, incumbent: &mut Incumbent) {
        let source = BoundSource::ChainsOfIdeals;
        match (self.inexact_ns, incumbent.has_plan()) {
            (u64::MAX, true) => incumbent.exhausted(source),
            (least_ns, true) => {
                incumbent.raise(source, least_ns.min(incumbent.target_ns().saturating_add(1)))
            }
            (least_ns, false) => incumbent.raise(source, least_ns),
        }
    }

    /// The stages that may come next, with where they end and the bound of what begins so.
    fn next<'n>(&'n self, at: &'n Place) -> impl Iterator<Item = (&'s Stage, Place, u64)> + 'n {
        let (stages, times) = (self.stages, self.stages.times);
        stages.from(at.ideal).iter().filter_map(move |stage| {
            let state = stages.after(at.state, stage)?;
            let behind = stages.behind(stage.to, state);
            if behind[0] == u64::MAX {
                return None;
            }
            let taken = [at.last, stage.row].map(|row| stages.taken(at.state, row));
            let ahead = match at.ideal {
                0 => 0,
                _ => stages.options.level([at.last, stage.row], taken),
            };
            let before = &at.left_ns[ahead * times..(ahead + 1) * times];
            let mut left_ns = Vec::with_capacity(at.left_ns.len());
            let mut bound_ns = u64::MAX;
            for level in 0..stages.options.levels.len() {
                let own = left_ns.len();
                left_ns.extend_from_slice(before);
                stage.pass(&mut left_ns[own..], [ahead, level]);
                let all = left_ns[own..]
                    .iter()
                    .zip(behind)
                    .map(|(left, behind)| left + behind);
                bound_ns = bound_ns.min(all.max().unwrap_or(0));
            }
            let place = Place {
                ideal: stage.to,
                state,
                last: stage.row,
                left_ns: left_ns.into(),
            };
            Some((stage, place, bound_ns))
        })
    }

    fn branch(&mut self, at: usize, target_ns: u64) {
        let (place, bound_ns) = (self.labels[at].at.clone(), self.labels[at].bound_ns);
        let next: Vec<_> = self.next(&place).collect();
        for (stage, place, next_ns) in next {
            let bound_ns = bound_ns.max(next_ns);
            if bound_ns <= target_ns {
                self.push(Label {
                    parent: at,
                    at: place,
                    option: stage.option,
                    bound_ns,
                    is_dominated: false,
                });
            }
        }
    }

    /// Keeps a label unless another is as fast for every chunk; drops those that are no faster.
    fn push(&mut self, label: Label) {
        let lasts = self.kept.len() / ((self.stages.all() + 1) * self.stages.states);
        let last = label.at.last.min(lasts - 1);
        let kept = &mut self.kept[(label.at.ideal * self.stages.states + label.at.state) * lasts + last];
        let is_faster = |one: &Place, other: &Place| {
            let mut both = one.left_ns.iter().zip(&other.left_ns);
            both.all(|(one, other)| one <= other)
        };
        if kept
            .iter()
            .any(|&other| is_faster(&self.labels[other].at, &label.at))
        {
            return;
        }
        let labels = &mut self.labels;
        kept.retain(|&other| {
            labels[other].is_dominated = is_faster(&label.at, &labels[other].at);
            !labels[other].is_dominated
        });
        let at = labels.len();
        kept.push(at);
        self.open
            .push(Reverse((label.bound_ns, Reverse(label.at.ideal), at)));
        labels.push(label);
    }

    /// Where the stages of a label end, and what they run on.
    fn path(&self, mut at: usize) -> Vec<(usize, usize)> {
        let mut path = Vec::new();
        while self.labels[at].parent != at {
            path.push((self.labels[at].at.ideal, self.labels[at].option));
            at = self.labels[at].parent;
        }
        path.reverse();
        path
    }

    /// Completes a label by what has the least bound, stage by stage.
    fn dive(&self, at: usize, incumbent: &mut Incumbent) {
        let mut path = self.path(at);
        let mut place = self.labels[at].at.clone();
        while place.ideal < self.stages.all() {
            let next = self.next(&place).min_by_key(|next| next.2);
            let Some((stage, after, _)) = next else {
                return;
            };
            path.push((stage.to, stage.option));
            place = after;
        }
        incumbent.offer_some(self.stages.options.plan(&path));
    }
}

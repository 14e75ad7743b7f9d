//! Plans stage by stage from one end, those first whose stages are worth most.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::exact::bits;
use crate::exact::busy_times::{BusyTimes, keep_limit, sum};
use crate::exact::joint_memory::{JointMemory, Ledger, Seen};
use crate::exact::stage_diagram::budget::Budget;
use crate::exact::stage_diagram::diagram::{Diagram, NOWHERE};
use crate::exact::stage_diagram::prices::{DEVICE, Prices};
use crate::exact::stage_diagram::sweep::{Choice, From, Sweep};
use crate::exact::tuning::TUNING;
use crate::problem::plan::StoppedBy;
use crate::problem::{Assignment, Problem};
use crate::search::limits::Answer;

/// Items that stages at one end hold.
struct Reached {
    placed: Box<[u64]>,
    /// What the devices of these stages are worth beyond the items.
    slack: u64,
    /// What these stages leave open of their memory.
    ledger: Ledger,
    /// Where they are without the last of these that was taken.
    parent: usize,
}

/// A search over sets of items that so many stages at one end hold, for all sets or a few of each number of stages.
pub(super) struct Layers<'s> {
    problem: &'s Problem,
    diagram: &'s Diagram,
    prices: &'s Prices,
    sweep: &'s Sweep,
    /// Where memory ties stages together.
    joint: Option<JointMemory<'s>>,
    /// Sets kept of each number of stages, at most.
    width: usize,
    reached: Vec<Reached>,
    /// Sets that need no second look.
    seen: Seen,
    /// Whether some set was left out.
    is_truncated: bool,
}

impl<'s> Layers<'s> {
    pub(super) fn new(
        problem: &'s Problem,
        sweep: &'s Sweep,
        diagram: &'s Diagram,
        prices: &'s Prices,
        width: usize,
    ) -> Self {
        let nothing = Reached {
            placed: vec![0; bits::words(problem.items.len())].into(),
            slack: 0,
            ledger: Ledger::default(),
            parent: usize::MAX,
        };
        Self {
            problem,
            diagram,
            prices,
            sweep,
            joint: JointMemory::new(problem),
            width,
            reached: vec![nothing],
            seen: Seen::default(),
            is_truncated: false,
        }
    }

    /// Sets reached.
    pub(super) fn reached(&self) -> usize {
        self.reached.len()
    }

    /// One more stage to every set of the last layer, until one holds everything.
    ///
    /// # Errors
    ///
    /// The limit that is reached.
    pub(super) fn run(&mut self, budget: &mut Budget) -> Result<Answer, StoppedBy> {
        let all_stages = self.problem.settings.all_stages;
        // A set is kept as reached and to be recognised, in tables that double.
        let bytes_of_a_set = 2 * 8 * bits::words(self.problem.items.len()) + TUNING.bytes_of_a_reached_ideal;
        let most_seen = budget.room_bytes / 2 / bytes_of_a_set;
        let mut layer = 0..1;
        for taken in 1..=self.problem.stages() {
            if all_stages {
                self.seen.clear();
            }
            let mut kept = Kept::default();
            for parent in layer {
                self.take_stages(parent, taken, &mut kept, budget)?;
                if self.seen.count() > most_seen {
                    return Err(StoppedBy::SizeLimit);
                }
                if kept.is_complete {
                    return Ok(Answer::Plan(self.plan()));
                }
            }
            let start = self.reached.len();
            self.reached.extend(kept.sorted());
            layer = start..self.reached.len();
        }
        Ok(match self.is_truncated {
            true => Answer::Undecided,
            false => Answer::none_within(self.diagram.limit_ns),
        })
    }

    /// Every stage next to the items of one set.
    fn take_stages(
        &mut self,
        parent: usize,
        taken: usize,
        kept: &mut Kept,
        budget: &mut Budget,
    ) -> Result<(), StoppedBy> {
        let Reached { placed, slack, .. } = &self.reached[parent];
        let mut stage = Stage {
            parent,
            taken,
            slack: *slack,
            placed: placed.clone(),
        };
        let start = Way {
            layer: 0,
            node: 0,
            busy: [0; 3],
            price: 0,
            bytes: 0,
        };
        self.grow(&mut stage, start, kept, budget)
    }

    /// Every stage that begins as one does, with one or more further items.
    fn grow(
        &mut self,
        stage: &mut Stage,
        mut way: Way,
        kept: &mut Kept,
        budget: &mut Budget,
    ) -> Result<(), StoppedBy> {
        let Self {
            diagram,
            prices,
            problem,
            ..
        } = *self;
        while let Some(layer) = diagram.layers.get(way.layer) {
            budget.take(1)?;
            let spare_ns = diagram.limit_ns - way.busy[0];
            let Some(most) = prices
                .completions
                .most(way.layer, way.node, spare_ns)
                .filter(|&most| most > 0)
            else {
                // Nothing else fits.
                return Ok(());
            };
            if !self.is_wanted(stage, way.price + most, kept) {
                return Ok(());
            }
            let node = &layer.nodes[way.node as usize];
            let item = layer.item;
            let bytes = way.bytes + problem.memory_bytes(&problem.items[item], stage.taken);
            let inside = Way {
                layer: way.layer + 1,
                node: node.to[Choice::Inside as usize],
                busy: sum(way.busy, node.busy[Choice::Inside as usize]),
                price: way.price + prices.of_item[item],
                bytes,
            };
            let is_free = || {
                self.sweep.first[item]
                    .iter()
                    .all(|&first| bits::contains(&stage.placed, first))
            };
            if inside.node != NOWHERE
                && keep_limit(inside.busy, diagram.limit_ns)
                && problem.settings.memory_limit.is_none_or(|limit| bytes <= limit)
                && !bits::contains(&stage.placed, item)
                && is_free()
            {
                bits::insert(&mut stage.placed, item);
                self.close(stage, &inside, kept);
                if kept.is_complete {
                    return Ok(());
                }
                self.grow(stage, inside, kept, budget)?;
                bits::remove(&mut stage.placed, item);
                if kept.is_complete {
                    return Ok(());
                }
            }
            way.node = node.to[Choice::Outside as usize];
            if way.node == NOWHERE {
                return Ok(());
            }
            way.busy = sum(way.busy, node.busy[Choice::Outside as usize]);
            way.layer += 1;
            if !keep_limit(way.busy, diagram.limit_ns) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether a stage worth so much at most may lead to a plan, and its set of items be kept.
    fn is_wanted(&mut self, stage: &Stage, most: u64, kept: &Kept) -> bool {
        let slack = (stage.slack + DEVICE).saturating_sub(most);
        if slack > self.prices.slack {
            return false;
        }
        let is_kept = kept.has_room(self.width, slack);
        self.is_truncated |= !is_kept;
        is_kept
    }

    /// Keeps the items of a stage and all behind it, if nothing else joins.
    fn close(&mut self, stage: &Stage, way: &Way, kept: &mut Kept) {
        let problem = self.problem;
        let Some(rest) = self.prices.completions.closing(way.layer, way.node) else {
            return;
        };
        let busy = sum(way.busy, rest);
        if !keep_limit(busy, self.diagram.limit_ns) || !self.is_wanted(stage, way.price, kept) {
            return;
        }
        let Some(ledger) = self
            .ledger(stage)
            .filter(|ledger| !self.seen.contains(&stage.placed, ledger))
        else {
            return;
        };
        let is_last = stage.taken == problem.stages();
        let is_everything = bits::count(&stage.placed) as usize == problem.items.len();
        // Items without a stage, or stages left without an item.
        let is_late = is_last && !is_everything;
        let is_early = problem.settings.all_stages && is_everything && !is_last;
        if is_late || is_early {
            return;
        }
        let reached = Reached {
            placed: stage.placed.clone(),
            slack: stage.slack + DEVICE - way.price,
            ledger,
            parent: stage.parent,
        };
        if is_everything {
            kept.is_complete = true;
            self.reached.push(reached);
            return;
        }
        self.seen.insert(&stage.placed, &reached.ledger);
        self.is_truncated |= kept.put(reached, self.width);
    }

    /// What a stage and those taken before it leave open of their memory; `None` where one holds too much.
    fn ledger(&self, stage: &Stage) -> Option<Ledger> {
        let Some(joint) = &self.joint else {
            return Some(Ledger::default());
        };
        let Reached { placed, ledger, .. } = &self.reached[stage.parent];
        let own: Box<[u64]> = stage
            .placed
            .iter()
            .zip(placed)
            .map(|(&now, &before)| now & !before)
            .collect();
        joint.with_stage(ledger, &own, &stage.placed, stage.taken)
    }

    /// The plan whose stages were taken one by one.
    fn plan(&self) -> Assignment {
        let mut taken = Vec::new();
        let mut at = &self.reached[self.reached.len() - 1];
        while at.parent != usize::MAX {
            let others = &self.reached[at.parent];
            taken.push(bits::without(&at.placed, &others.placed));
            at = others;
        }
        if self.sweep.from == From::Start {
            taken.reverse();
        }
        let mut assignment = vec![0; self.problem.items.len()];
        for (stage, items) in taken.into_iter().enumerate() {
            items.for_each(|item| assignment[item] = stage);
        }
        assignment
    }
}

/// A stage that grows.
struct Stage {
    parent: usize,
    /// Stages taken with it. Memory may depend on it where stages are taken from the end.
    taken: usize,
    /// That of the stages behind it.
    slack: u64,
    /// Its items and those of the stages taken before.
    placed: Box<[u64]>,
}

/// How far a stage is decided.
#[derive(Clone, Copy)]
struct Way {
    layer: usize,
    node: u32,
    busy: BusyTimes,
    price: u64,
    bytes: u64,
}

/// The best sets of a layer.
#[derive(Default)]
struct Kept {
    best: BinaryHeap<Ranked>,
    /// How many have come so far.
    met: usize,
    /// Whether one holds everything.
    is_complete: bool,
}

impl Kept {
    /// Whether a set with so much slack would be kept.
    fn has_room(&self, width: usize, slack: u64) -> bool {
        let worst = self.best.peek().filter(|_| self.best.len() >= width);
        worst.is_none_or(|worst| slack < worst.slack)
    }

    /// Keeps a set for which there is room; whether another had to go.
    fn put(&mut self, reached: Reached, width: usize) -> bool {
        self.met += 1;
        self.best.push(Ranked {
            slack: reached.slack,
            met: self.met,
            reached,
        });
        let is_full = self.best.len() > width;
        if is_full {
            self.best.pop();
        }
        is_full
    }

    /// All that are left, the best first.
    fn sorted(self) -> impl Iterator<Item = Reached> {
        let ranked = self.best.into_sorted_vec().into_iter();
        ranked.map(|ranked| ranked.reached)
    }
}

/// A set by its slack, and by when it came.
struct Ranked {
    slack: u64,
    met: usize,
    reached: Reached,
}

impl Ranked {
    fn rank(&self) -> (u64, usize) {
        (self.slack, self.met)
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Ranked {}

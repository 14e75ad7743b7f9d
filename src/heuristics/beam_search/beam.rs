//! The beam: states stage by stage.

use std::collections::HashSet;

use fixedbitset::FixedBitSet;

use super::super::MustStop;
use super::line::{Line, Prices};
use super::loads::{Asked, Load, Loads};

/// What rounding may make items worth more than there is room for, relative to all.
const SLACK: f64 = 1e-9;

/// A stage of a filling.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// Its worker, by kind.
    pub kind: usize,
    /// Its items, in an order that they may be done in.
    pub items: Vec<usize>,
    /// How long it takes, in ns.
    pub time_ns: u64,
}

/// A search for stages that take at most some time each.
pub(super) struct Beam<'a> {
    /// What is to be laid.
    pub line: &'a Line,
    /// What a stage may take, in ns.
    pub limit_ns: u64,
    /// The part of what must come behind an item that it is worth beside its own value.
    pub following: f64,
    /// States that are kept.
    pub width: usize,
}

/// What is done after some stages.
#[derive(Clone)]
struct State {
    done: FixedBitSet,
    taken: Vec<usize>,
    /// What is worth how much of what is left.
    prices: Prices,
    stages: Vec<Stage>,
}

/// A state and one more stage.
struct Candidate<'a> {
    state: &'a State,
    kind: usize,
    load: Load,
    /// What is left is worth this part of what can be done.
    tightness: f64,
}

impl Beam<'_> {
    /// The stages, from the end that the line begins at, and the steps that it took; `None` where it finds none.
    pub(super) fn fill(&self, must_stop: MustStop<'_>) -> (Option<Vec<Stage>>, u64) {
        let line = self.line;
        let mut loads = Loads::new(line);
        let mut states = vec![State {
            done: FixedBitSet::with_capacity(line.entering.len()),
            taken: vec![0; line.counts.len()],
            prices: line.prices.clone(),
            stages: Vec::new(),
        }];
        for stage in 0..line.stages {
            let stages_left = line.stages - stage - 1;
            let mut next = Vec::new();
            for state in &states {
                if must_stop() {
                    return (None, loads.steps);
                }
                self.go_on(state, stages_left, &mut loads, &mut next);
            }
            next.sort_by(|a, b| a.tightness.total_cmp(&b.tightness));
            states = self.best(&next, stages_left);
            if let Some(at) = states.iter().position(|state| state.done.is_full()) {
                return (Some(states.swap_remove(at).stages), loads.steps);
            }
        }
        (None, loads.steps)
    }

    /// Adds the state with one more stage, of each kind that is left, where the stages behind it can do what is left then.
    fn go_on<'s>(
        &self,
        state: &'s State,
        stages_left: usize,
        loads: &mut Loads<'_>,
        next: &mut Vec<Candidate<'s>>,
    ) {
        let line = self.line;
        let prices = &state.prices;
        let all = prices.total();
        // What is behind an item is known at the first prices.
        let first: f64 = state.done.zeroes().map(|item| line.prices.of_items[item]).sum();
        let scale = self.following * all / first;
        let merit = |item: usize| prices.of_items[item] + scale * line.following[item];
        let merits: Vec<f64> = (0..line.entering.len()).map(merit).collect();
        let open: f64 = state.done.zeroes().map(|item| merits[item]).sum();
        let mut taken = state.taken.clone();
        for kind in 0..line.counts.len() {
            if taken[kind] == line.counts[kind] {
                continue;
            }
            taken[kind] += 1;
            let room = line.worth_left(prices, &taken, stages_left, self.limit_ns);
            taken[kind] -= 1;
            let asked = Asked {
                kind,
                limit_ns: self.limit_ns,
                most: self.width,
            };
            for load in loads.best(&state.done, &merits, asked) {
                let left = all - load.items.iter().map(|&item| prices.of_items[item]).sum::<f64>();
                if left <= room + SLACK * all {
                    let tightness = (open - load.merit) / room.max(SLACK * all);
                    next.push(Candidate {
                        state,
                        kind,
                        load,
                        tightness,
                    });
                }
            }
        }
    }

    /// The first states that may do what is left, each once, with prices for that.
    fn best(&self, candidates: &[Candidate], stages_left: usize) -> Vec<State> {
        let mut seen = HashSet::new();
        let states = candidates.iter().map(Candidate::state);
        let new = states.filter(|state| seen.insert((state.done.clone(), state.taken.clone())));
        let priced = new.take(self.width).filter_map(|state| {
            if state.done.is_full() {
                return Some(state);
            }
            let prices = self.line.reprice(&state.done, &state.taken, &state.prices)?;
            let room = self
                .line
                .worth_left(&prices, &state.taken, stages_left, self.limit_ns);
            (prices.total() <= room * (1.0 + SLACK)).then_some(State { prices, ..state })
        });
        priced.collect()
    }
}

impl Candidate<'_> {
    fn state(&self) -> State {
        let mut state = self.state.clone();
        state.done.extend(self.load.items.iter().copied());
        state.taken[self.kind] += 1;
        state.stages.push(Stage {
            kind: self.kind,
            items: self.load.items.clone(),
            time_ns: self.load.time_ns,
        });
        state
    }
}

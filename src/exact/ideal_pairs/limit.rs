//! A limit for every stage of a search over pairs of ideals, and what follows from it.

use std::sync::Arc;

use crate::control::Control;
use crate::exact::cut_states::{self, Corridor, Fronts, Within};
use crate::exact::ideal_pairs::part::{Ideal, Part, is_subset, meets};
use crate::exact::ideal_pairs::stages::Stages;
use crate::exact::windows;
use crate::exact::windows::boundaries::{self, Limits};
use crate::exact::windows::reach::Reach;

/// The same limit for every stage, and what follows from it.
#[derive(Clone)]
pub struct Limit {
    /// The limit.
    pub ns: u64,
    /// For each part and number of stages in front of a boundary, items that cannot lie before it and items that cannot lie
    /// behind it, as bits.
    kept_out: [Vec<[Box<[u64]>; 2]>; 2],
    /// The pairs that can lie before each boundary, if that is looked for.
    pub fronts: Option<Arc<Fronts>>,
}

impl Limit {
    /// What follows from a limit; `None` if no plan keeps it. `looser` is what is known of a looser one.
    pub fn new(
        stages: &Stages,
        reach: &Reach,
        control: &Control,
        limit_ns: u64,
        looser: Option<&Self>,
        corridor: Option<&Corridor>,
    ) -> Option<Self> {
        let Stages {
            problem,
            parts,
            cross,
            ground,
            ..
        } = stages;
        let mut windows = windows::within(problem, reach, limit_ns);
        if windows.some_is_empty() {
            return None;
        }
        let switches = &control.switches;
        let must_stop = || control.must_stop().is_some();
        let mut known = None;
        if let Some(ground) = ground {
            let looser = looser.and_then(|looser| looser.fronts.as_ref());
            let within = Within {
                parts,
                cross,
                ground,
                limit_ns,
                windows: &windows,
                corridor,
                boundaries: problem.stages() - 1,
            };
            known = Some(cut_states::fronts(&within, looser, &must_stop)?);
        } else if switches.boundaries {
            let limits = Limits {
                bottleneck_ns: limit_ns,
                least_bottleneck_ns: 0,
                objective_ns: limit_ns,
            };
            // As much work on windows as there are pairs to look at without them.
            let [first, second] = [0, 1].map(|p: usize| parts[p].len());
            let most_steps = first.saturating_mul(second).min(boundaries::MOST_STEPS);
            if !boundaries::narrow(problem, reach, limits, &mut windows, most_steps, &must_stop) {
                return None;
            }
        }
        let kept_out = |part: &Part| {
            let of = |k: usize| {
                [
                    part.set(|item| windows.earliest[item] >= k),
                    part.set(|item| windows.latest[item] < k),
                ]
            };
            (0..=problem.stages()).map(of).collect()
        };
        Some(Self {
            ns: limit_ns,
            fronts: known,
            kept_out: [kept_out(&parts[0]), kept_out(&parts[1])],
        })
    }

    /// Whether an ideal can lie before a boundary with so many stages in front.
    pub fn may_lie(&self, parts: &[Part; 2], p: usize, ideal: Ideal, stages: usize) -> bool {
        let [not_before, not_behind] = &self.kept_out[p][stages];
        let bits = parts[p].bits(ideal);
        !meets(not_before, bits) && is_subset(not_behind, bits)
    }
}

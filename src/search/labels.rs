//! Labels: what a dynamic program must remember of a plan that is built in part.
//!
//! An objective is a [`Formula`]: what counts once, and the weight of one or two bottlenecks.
//!
//! Stages cost the same wherever they lie, so a part of a plan enters the whole only through its sum and its maxima: its
//! [`Label`]. The objective is monotone in each of them, which makes it enough to keep Pareto-optimal labels, and often
//! fewer, see [`Formula::dominates`].

use crate::model::objective::Formula;
use crate::problem::cost::{self, StageCost};

/// Sum and maxima of some stages, in ns; of no stages, the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// What counts once: Σ load for an iteration, nothing for the period.
    pub once_ns: u64,
    /// The bottlenecks; only GPipe's iteration has a second one.
    pub bottlenecks_ns: [u64; 2],
}

impl Label {
    /// The label of the stages of both.
    pub fn join(self, other: Self) -> Self {
        let [a, b] = self.bottlenecks_ns;
        let [c, d] = other.bottlenecks_ns;
        Self {
            once_ns: self.once_ns + other.once_ns,
            bottlenecks_ns: [a.max(c), b.max(d)],
        }
    }
}

impl Formula {
    /// The label of one stage.
    pub fn stage(&self, cost: &StageCost) -> Label {
        Label {
            once_ns: self.once_ns(cost.load_ns()),
            bottlenecks_ns: cost::bottlenecks_ns(self.bottlenecks, cost),
        }
    }

    /// The objective of a plan with this label, in ns.
    pub fn objective_ns(&self, label: &Label) -> u64 {
        self.value_ns(label.once_ns, label.bottlenecks_ns)
    }

    /// Whether `a` is at least as good as `b`, whatever stages join both.
    ///
    /// Joining stages of bottleneck x moves the maxima of a and b apart by max(a, x) - max(b, x), at most the positive
    /// part of a - b, and leaves the difference of the sums alone. So once(a) + weight * Σ (a - b)⁺ <= once(b) is enough.
    /// Pareto dominance is the case in which every (a - b)⁺ is zero; for the period there is no other. Transitive, for
    /// (a - c)⁺ <= (a - b)⁺ + (b - c)⁺.
    pub fn dominates(&self, a: &Label, b: &Label) -> bool {
        let above = |k: usize| a.bottlenecks_ns[k].saturating_sub(b.bottlenecks_ns[k]);
        a.once_ns + self.weight * (above(0) + above(1)) <= b.once_ns
    }

    /// Adds a step to those of one state, unless a label there dominates its own; drops those that it dominates.
    ///
    /// Of equal labels the first stays, so that results depend on nothing but the order of insertion.
    pub fn insert(&self, steps: &mut Vec<Step>, step: Step) {
        if steps.iter().any(|old| self.dominates(&old.label, &step.label)) {
            return;
        }
        steps.retain(|old| !self.dominates(&step.label, &old.label));
        steps.push(step);
    }
}

/// A label with the way it was reached: one stage, then step `step` of state `state`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// Label of this stage and all after it.
    pub label: Label,
    /// State after this stage.
    pub state: usize,
    /// Which of that state's steps follows.
    pub step: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::schedule::Bottlenecks;

    #[test]
    fn a_lower_bottleneck_is_worth_only_its_weight() {
        let formula = Formula {
            weight: 3,
            counts_loads: true,
            bottlenecks: Bottlenecks::Together,
        };
        let label = |once_ns, bottleneck| Label {
            once_ns,
            bottlenecks_ns: [bottleneck, 0],
        };
        // Two less at the bottleneck save at most 6: not worth 6 more at once, worth 5 more.
        assert!(formula.dominates(&label(10, 7), &label(16, 5)));
        assert!(!formula.dominates(&label(10, 7), &label(15, 5)));
    }
}

//! The way along the boundaries for one limit, there and back, round by round.

use fixedbitset::FixedBitSet;

use crate::exact::boundary_chain::boundary::Boundary;
use crate::exact::boundary_chain::branch::{Wanted, most_carried};
use crate::exact::boundary_chain::share::Share;
use crate::exact::boundary_chain::{BoundaryChain, ChainEffort};
use crate::exact::tuning::TUNING;
use crate::formulations::staging::Windows;
use crate::problem::Assignment;
use crate::problem::cost;

/// A limit, and what is known of plans that keep it.
pub(super) struct Walk<'c, 'a> {
    pub chain: &'c BoundaryChain<'a>,
    pub limit_ns: i128,
    /// The stages that items may lie in.
    pub windows: Windows,
    /// What is counted of transfers at boundaries.
    pub shares: Vec<Share<'c>>,
    /// Plans made of the sets that were found.
    pub plans: Vec<Assignment>,
    pub effort: ChainEffort<'c>,
}

/// What sets before each boundary keep, by the stages before it, as these shares count: other shares say other things.
struct Reach {
    /// What they need, at most, in ns.
    most_need_ns: Vec<i128>,
    /// What they carry, at least, in ns.
    least_carried_ns: Vec<i128>,
}

impl Walk<'_, '_> {
    /// Goes on until the limit is refuted, which is `None`, or kept by a plan, or nothing more is learnt.
    pub(super) fn run(&mut self) -> Option<()> {
        let most_nodes = self.effort.nodes;
        let [quick, thorough] = TUNING.rounds_of_chains;
        for round in 0..quick + thorough {
            if self.effort.is_over() {
                break;
            }
            // Shares are learnt from rough answers as well as from close ones.
            self.effort.nodes = match round < quick {
                true => most_nodes / TUNING.nodes_of_quick_chains,
                false => most_nodes,
            };
            let open = self.windows.open();
            let mut reach = self.everything();
            let sets = self.there(&mut reach)?;
            if self.plans.last().is_some_and(|plan| self.is_kept_by(plan)) {
                break;
            }
            let other_sets = self.back(&mut reach)?;
            self.narrow(&reach)?;
            let has_learnt = self.learn(&sets, &other_sets, round);
            if !has_learnt && self.windows.open() == open && round >= quick {
                break;
            }
        }
        Some(())
    }

    /// What is known without asking: so many stages, before or behind, carry no more than that many limits.
    fn everything(&self) -> Reach {
        let stages = self.chain.problem.stages();
        let work_ns = i128::from(self.chain.problem.work_ns());
        Reach {
            most_need_ns: (0..stages).map(|k| k as i128 * self.limit_ns).collect(),
            least_carried_ns: (0..stages)
                .map(|k| work_ns - (stages - k) as i128 * self.limit_ns)
                .collect(),
        }
    }

    fn boundaries(&self) -> std::ops::Range<usize> {
        1..self.chain.problem.stages()
    }

    /// From the first boundary on: the most that sets carry says what those before the next one may need.
    fn there(&mut self, reach: &mut Reach) -> Option<Vec<FixedBitSet>> {
        let mut sets = Vec::new();
        for before in self.boundaries() {
            let boundary = self.boundary(before);
            let wanted = Wanted {
                most_need_ns: reach.most_need_ns[before],
                least_carried_ns: reach.least_carried_ns[before],
            };
            let most = most_carried(&boundary, wanted, self.effort)?;
            sets.push(
                most.best
                    .map(|best| boundary.items(&best.chosen).collect())
                    .unwrap_or_default(),
            );
            let next_ns = self.limit_ns + most.most_ns;
            match reach.most_need_ns.get_mut(before + 1) {
                Some(most_ns) => *most_ns = next_ns.min(*most_ns),
                None if next_ns < i128::from(self.chain.problem.work_ns()) => return None,
                None => {}
            }
        }
        self.remember(&sets);
        Some(sets)
    }

    /// From the last boundary on: the least that sets need says what those before the boundary in front must carry.
    fn back(&mut self, reach: &mut Reach) -> Option<Vec<FixedBitSet>> {
        let mut sets = Vec::new();
        for before in self.boundaries().rev() {
            let boundary = self.boundary(before).mirrored();
            let wanted = Wanted {
                most_need_ns: -reach.least_carried_ns[before],
                least_carried_ns: -reach.most_need_ns[before],
            };
            let most = most_carried(&boundary, wanted, self.effort)?;
            sets.push(
                most.best
                    .map(|best| boundary.items(&best.chosen).collect())
                    .unwrap_or_default(),
            );
            let least_ns = -most.most_ns - self.limit_ns;
            let front = &mut reach.least_carried_ns[before - 1];
            *front = least_ns.max(*front);
        }
        sets.reverse();
        self.remember(&sets);
        Some(sets)
    }

    fn boundary(&self, before: usize) -> Boundary<'_> {
        Boundary::new(
            self.chain.problem,
            &self.chain.closure,
            &self.windows,
            &self.shares,
            before,
        )
    }

    /// Makes a plan of the sets before the boundaries: an item lies before the first whose set has it.
    fn remember(&mut self, sets: &[FixedBitSet]) {
        let stage_of = |item| {
            sets.iter()
                .position(|set| set.contains(item))
                .unwrap_or(sets.len())
        };
        self.plans
            .push((0..self.chain.problem.items.len()).map(stage_of).collect());
    }

    fn is_kept_by(&self, plan: &Assignment) -> bool {
        let costs = cost::stage_costs(self.chain.problem, plan);
        costs
            .iter()
            .all(|stage| i128::from(stage.bottleneck_ns()) <= self.limit_ns)
    }

    /// Narrows windows to what sets may hold by their work alone; `None` where an item has no stage left.
    fn narrow(&mut self, reach: &Reach) -> Option<()> {
        let work_ns = i128::from(self.chain.problem.work_ns());
        let [with_ancestors_ns, with_descendants_ns] = &self.chain.with_ns;
        for before in self.boundaries() {
            let (mut most_ns, mut least_ns) = (reach.most_need_ns[before], reach.least_carried_ns[before]);
            // Transfers that are mostly counted at other boundaries may cost less than nothing at this one.
            for costs in self.shares.iter().filter_map(|share| share.at(before)) {
                most_ns -= costs.need_ns.min(0);
                least_ns -= costs.carried_ns.max(0);
            }
            for item in 0..self.chain.problem.items.len() {
                let Windows { earliest, latest } = &mut self.windows;
                if with_ancestors_ns[item] > most_ns {
                    earliest[item] = earliest[item].max(before);
                }
                if with_descendants_ns[item] > work_ns - least_ns {
                    latest[item] = latest[item].min(before - 1);
                }
            }
        }
        (!self.windows.some_is_empty()).then_some(())
    }

    /// Counts more of a transfer where the sets found have it cross, and less where they have not; whether anything changes.
    fn learn(&mut self, sets: &[FixedBitSet], other_sets: &[FixedBitSet], round: usize) -> bool {
        let shares = std::mem::take(&mut self.shares).into_iter();
        self.shares = shares.filter_map(|share| share.narrowed(&self.windows)).collect();
        let parts = TUNING.parts_of_first_step_of_shares + round as i128;
        let mut has_learnt = false;
        for share in &mut self.shares {
            let crosses = |before: usize| {
                let by = [sets, other_sets].map(|sets| share.span.crosses(&sets[before - 1]));
                by.into_iter().map(i128::from).sum()
            };
            let learnt = share.learnt(crosses, parts);
            has_learnt |= learnt != share.between_ns;
            share.between_ns = learnt;
        }
        has_learnt
    }
}

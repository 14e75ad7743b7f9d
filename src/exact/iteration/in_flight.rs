//! How many micro-batches are in flight under 1F1B with links: where it may be more than the schedule's own number, see the page.

use crate::problem::cost::StageCost;

/// The longest delays of transfers between two stages that meet in a boundary, in ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Delays {
    /// Of what is sent ahead.
    ahead_ns: u64,
    /// What a gradient waits for at most until its link out has time.
    wait_ns: u64,
    /// From then on until it is there, the wait for the link in included.
    back_ns: u64,
}

impl Delays {
    /// Takes those of a stage that ends here.
    pub(super) fn take_before(&mut self, stage: &StageCost) {
        let in_ns = stage.forward.link_in_ns + stage.backward.link_in_ns;
        self.ahead_ns = self.ahead_ns.max(stage.forward.link_out_ns);
        self.back_ns = self.back_ns.max(in_ns + stage.backward.link_in_ns);
    }

    /// Takes those of a stage that begins here.
    pub(super) fn take_behind(&mut self, stage: &StageCost) {
        let out_ns = stage.forward.link_out_ns + stage.backward.link_out_ns;
        self.ahead_ns = self.ahead_ns.max(stage.forward.link_in_ns);
        self.wait_ns = self.wait_ns.max(out_ns);
        self.back_ns = self.back_ns.max(stage.backward.link_out_ns);
    }

    /// All of them.
    fn sum_ns(&self) -> u64 {
        self.ahead_ns + self.wait_ns + self.back_ns
    }
}

/// Which stages may have more in flight than the schedule's own number.
#[derive(Clone, Debug)]
pub(super) struct Hiding {
    /// No plan has a shorter period, in ns.
    pub period_ns: u64,
    /// For every boundary.
    pub delays: Vec<Delays>,
}

impl Hiding {
    /// Whether a stage of so much work that ends at a boundary may have more in flight while no stage behind it has.
    pub(super) fn may_have_more(&self, load_ns: u64, to: usize) -> bool {
        load_ns + self.delays[to].sum_ns() > self.period_ns
    }

    /// Whether a stage between two boundaries may be the one behind such a stage.
    pub(super) fn may_be_behind(&self, load_ns: u64, [from, to]: [usize; 2]) -> bool {
        load_ns + self.delays[from].sum_ns() + self.delays[to].sum_ns() > self.period_ns
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::{Delays, Hiding};
    use crate::model::options::Schedule;
    use crate::problem::cost::{PhaseCost, StageCost};
    use crate::problem::pipeline::{Channels, PhaseTimes, Pipeline, StageTimes, Streams, hiding_in_flight};

    fn times(cost: &PhaseCost) -> PhaseTimes {
        PhaseTimes {
            in_ns: cost.link_in_ns,
            work_ns: cost.work_ns,
            out_ns: cost.link_out_ns,
        }
    }

    fn drawn(rng: &mut ChaCha8Rng, most: [u64; 2]) -> PhaseCost {
        PhaseCost {
            work_ns: rng.random_range(most[0] / 2..=most[0]),
            link_in_ns: rng.random_range(0..=most[1]),
            link_out_ns: rng.random_range(0..=most[1]),
            ..PhaseCost::default()
        }
    }

    /// The stage nearest to the end with more in flight, and the one behind it, are as long as the page says.
    #[test]
    fn stages_with_more_in_flight_are_long() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut with_more = 0;
        for _ in 0..50_000 {
            let count = rng.random_range(1..=6);
            let micro_batches = rng.random_range(1..=9);
            let most = [[10, 2], [100, 5], [100, 60]][rng.random_range(0..3)];
            let mut costs: Vec<StageCost> = Vec::new();
            for _ in 0..count {
                costs.push(StageCost {
                    forward: drawn(&mut rng, most),
                    backward: drawn(&mut rng, most),
                });
            }
            // Nothing comes to the first stage from before, nor goes beyond the last one.
            (costs[0].forward.link_in_ns, costs[0].backward.link_out_ns) = (0, 0);
            let last = count - 1;
            (costs[last].forward.link_out_ns, costs[last].backward.link_in_ns) = (0, 0);
            let pipeline = Pipeline {
                stages: costs
                    .iter()
                    .map(|cost| StageTimes {
                        forward: times(&cost.forward),
                        backward: times(&cost.backward),
                        weight_ns: 0,
                        replicas: 1,
                        once_ns: 0,
                    })
                    .collect(),
                trains: true,
                channels: Channels::Shared,
                has_links: true,
            };
            let mut delays = vec![Delays::default(); count + 1];
            for (k, cost) in costs.iter().enumerate() {
                delays[k].take_behind(cost);
                delays[k + 1].take_before(cost);
            }
            let period_ns = Streams::new(&pipeline).busiest().whole_ns();
            let hiding = Hiding { period_ns, delays };
            let in_flight = hiding_in_flight(&pipeline, Schedule::OneFOneB, micro_batches);
            let load = |k: usize| costs[k].forward.work_ns + costs[k].backward.work_ns;
            let has_more = |k: &usize| in_flight[*k] > (count - k) as u64;
            if let Some(k) = (0..count).rev().find(has_more) {
                with_more += 1;
                assert!(k < last && hiding.may_have_more(load(k), k + 1), "{costs:?}");
                assert!(hiding.may_be_behind(load(k + 1), [k + 1, k + 2]), "{costs:?}");
            }
        }
        assert!(with_more > 5_000, "{with_more}");
    }
}

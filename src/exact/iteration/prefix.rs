//! What the first stages of a plan take of an iteration, whatever the others are.

use crate::problem::pipeline::PhaseTimes;

/// The first stages of a pipeline that runs 1F1B, and as little as is known of the rest.
pub(super) struct Prefix<'a> {
    /// Forward and backward passes of the first stages.
    pub stages: &'a [[PhaseTimes; 2]],
    /// How many stages there are in all.
    pub all: usize,
    /// Time that a micro-batch spends in the others at least, in ns.
    pub rest_ns: u64,
    /// How many micro-batches there are.
    pub micro_batches: usize,
}

/// When what a stage has is free, in ns.
#[derive(Clone, Copy, Default)]
struct Free {
    worker_ns: u64,
    in_ns: u64,
    out_ns: u64,
}

/// A micro-batch on its way, in ns.
#[derive(Clone, Copy, Default)]
struct Batch {
    /// When the last stage began to send it.
    sent_ns: u64,
    /// When it was there.
    there_ns: u64,
}

impl Prefix<'_> {
    /// A time in ns before which no iteration ends: that of the pipeline where the rest takes any number of micro-batches at once. Where
    /// there is no rest it is the time of the iteration.
    ///
    /// Round by round, as the page's `prefix` says: in round w each stage k, from 0, does its forward pass of micro-batch w - k, and then,
    /// from the last stage on, its backward pass of micro-batch w - (q - 1).
    pub(super) fn bound_ns(&self) -> u64 {
        let (count, depth) = (self.micro_batches, self.all - 1);
        let is_whole = self.stages.len() == self.all;
        let mut free = vec![Free::default(); self.stages.len()];
        let mut batches = vec![Batch::default(); count];
        for round in 0..count + depth {
            for (k, [forward, _]) in self.stages.iter().enumerate() {
                let batch = round.checked_sub(k).filter(|&batch| batch < count);
                if let Some(batch) = batch {
                    free[k].pass(forward, &mut batches[batch]);
                }
            }
            let Some(batch) = round.checked_sub(depth) else {
                continue;
            };
            let batch = &mut batches[batch];
            if !is_whole {
                batch.there_ns += self.rest_ns;
                batch.sent_ns = batch.there_ns;
            }
            for (k, [_, backward]) in self.stages.iter().enumerate().rev() {
                free[k].pass(backward, batch);
            }
        }
        batches.iter().map(|batch| batch.there_ns).max().unwrap_or(0)
    }
}

impl Free {
    /// Takes a micro-batch through a pass: the link in may start when the link out before it does, and work when both are done.
    fn pass(&mut self, times: &PhaseTimes, batch: &mut Batch) {
        let mut ready_ns = batch.there_ns;
        if times.in_ns > 0 {
            self.in_ns = self.in_ns.max(batch.sent_ns) + times.in_ns;
            ready_ns = ready_ns.max(self.in_ns);
        }
        self.worker_ns = self.worker_ns.max(ready_ns) + times.work_ns;
        (batch.sent_ns, batch.there_ns) = (self.worker_ns, self.worker_ns);
        if times.out_ns > 0 {
            batch.sent_ns = self.out_ns.max(self.worker_ns);
            self.out_ns = batch.sent_ns + times.out_ns;
            batch.there_ns = self.out_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::Prefix;
    use crate::model::options::Schedule;
    use crate::problem::pipeline::schedule::InFlight;
    use crate::problem::pipeline::{Channels, PhaseTimes, Pipeline, StageTimes, iteration_ns};

    /// The whole is the run that the event loop has; the first stages, with what a micro-batch spends in the others, take no longer.
    #[test]
    fn runs_of_all_stages_are_those_of_the_event_loop() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..20_000 {
            let (count, micro_batches) = (rng.random_range(1..=6), rng.random_range(1..=9));
            let (has_links, most) = (rng.random_bool(0.7), rng.random_range(0..12));
            let mut part = |most: u64| rng.random_range(0..=most);
            let mut pass = || PhaseTimes {
                in_ns: part(most),
                work_ns: part(20),
                out_ns: part(most),
            };
            let mut stages: Vec<[PhaseTimes; 2]> = (0..count).map(|_| [pass(), pass()]).collect();
            // Nothing comes to the first stage from before, nor goes beyond it.
            (stages[0][0].in_ns, stages[0][1].out_ns) = (0, 0);
            let pipeline = Pipeline {
                stages: stages
                    .iter()
                    .map(|&[forward, backward]| StageTimes {
                        forward,
                        backward,
                        weight_ns: 0,
                        replicas: 1,
                        once_ns: 0,
                    })
                    .collect(),
                trains: true,
                channels: Channels::Shared,
                has_links,
            };
            if !has_links {
                for pass in stages.iter_mut().flatten() {
                    pass.work_ns = pass.total_ns();
                    (pass.in_ns, pass.out_ns) = (0, 0);
                }
            }
            let run_ns = iteration_ns(&pipeline, Schedule::OneFOneB, InFlight::Standard, micro_batches);
            for known in 0..=count {
                let rest = stages[known..]
                    .iter()
                    .enumerate()
                    .map(|(at, [forward, backward])| {
                        let (there_ns, back_ns) = (forward.out_ns, backward.in_ns);
                        let on_the_way_ns = match known + at + 1 == count {
                            true => there_ns.max(back_ns),
                            false => there_ns + back_ns,
                        };
                        forward.work_ns + backward.work_ns + on_the_way_ns
                    });
                let prefix = Prefix {
                    stages: &stages[..known],
                    all: count,
                    rest_ns: rest.sum(),
                    micro_batches: micro_batches as usize,
                };
                let bound_ns = prefix.bound_ns();
                assert!(
                    bound_ns <= run_ns,
                    "{stages:?} {known} {micro_batches}: {bound_ns} > {run_ns}"
                );
                assert!(
                    known < count || bound_ns == run_ns,
                    "{stages:?} {micro_batches}: {bound_ns} < {run_ns}"
                );
            }
        }
    }

    /// Passes that take so long, without transfers.
    fn work([forward, backward]: [u64; 2]) -> [PhaseTimes; 2] {
        [forward, backward].map(|work_ns| PhaseTimes {
            work_ns,
            ..PhaseTimes::default()
        })
    }

    #[test]
    fn two_stages_by_hand() {
        // Stage 1: F 0-1, F 1-2, B 4-6, F 6-7, B 7-9, B 10-12. Stage 2: F 1-2, B 2-4, F 4-5, B 5-7, F 7-8, B 8-10.
        let stages = [[1, 2], [1, 2]].map(work);
        let prefix = |stages, rest_ns| Prefix {
            stages,
            all: 2,
            rest_ns,
            micro_batches: 3,
        };
        assert_eq!(prefix(&stages, 0).bound_ns(), 12);
        // Stage 1 alone: F 0-1, F 1-2, B 4-6, F 6-7, B 7-9, B 10-12.
        assert_eq!(prefix(&stages[..1], 3).bound_ns(), 12);
        assert_eq!(prefix(&[], 3).bound_ns(), 3);
    }
}

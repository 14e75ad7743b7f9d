//! What the first stages of a plan take of an iteration, whatever the others are.

use crate::problem::pipeline::PhaseTimes;

/// The first stages of a pipeline that runs 1F1B, and as little as is known of the rest.
pub(super) struct Prefix<'a> {
    /// The first stages.
    pub stages: &'a [PrefixStage],
    /// Whether there are no others.
    pub is_whole: bool,
    /// Time that a micro-batch spends in the others at least, in ns.
    pub rest_ns: u64,
    /// How many micro-batches there are.
    pub micro_batches: usize,
}

/// A stage of these.
#[derive(Clone, Copy, Debug)]
pub(super) struct PrefixStage {
    /// Forward and backward pass.
    pub passes: [PhaseTimes; 2],
    /// Its replicas, which take turns.
    pub replicas: usize,
    /// How many micro-batches each has in flight at most.
    pub in_flight: usize,
    /// What it does once, when its last replica has done its last task, in ns.
    pub once_ns: u64,
}

/// A replica of a stage, which takes every so-manieth micro-batch.
struct Lane {
    stage: usize,
    replica: usize,
    free: Free,
    /// Micro-batches that it takes, and tasks that it has done.
    share: usize,
    done: usize,
}

impl Lane {
    /// Its next task: whether it is a forward pass, and of which micro-batch. As many forward passes as may be in flight, then backward and forward passes in turn.
    fn next(&self, of: &PrefixStage) -> Option<(bool, usize)> {
        let first = of.in_flight.min(self.share);
        let alternating = self.done.saturating_sub(first);
        let (is_forward, at) = if self.done < first {
            (true, self.done)
        } else if alternating < 2 * (self.share - first) {
            let is_forward = alternating % 2 == 1;
            (is_forward, alternating / 2 + if is_forward { first } else { 0 })
        } else {
            (false, self.done - self.share)
        };
        (self.done < 2 * self.share).then(|| (is_forward, self.replica + at * of.replicas))
    }
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
    /// Passes that are done.
    passed: usize,
}

impl Prefix<'_> {
    /// A time in ns before which no iteration ends: that of the pipeline where the rest takes any number of micro-batches at once. Where
    /// there is no rest it is the time of the iteration.
    ///
    /// In time linear in tasks: a replica does what comes next in its order as soon as that is there.
    pub(super) fn bound_ns(&self) -> u64 {
        let (count, known) = (self.micro_batches, self.stages.len());
        let (mut lanes, mut first_of) = (Vec::new(), Vec::with_capacity(known));
        for (stage, of) in self.stages.iter().enumerate() {
            first_of.push(lanes.len());
            lanes.extend((0..of.replicas.min(count)).map(|replica| Lane {
                stage,
                replica,
                free: Free::default(),
                share: (count - replica).div_ceil(of.replicas),
                done: 0,
            }));
        }
        let mut batches = vec![Batch::default(); count];
        if known == 0 {
            return self.rest_ns;
        }
        let mut waiting: Vec<usize> = (0..lanes.len()).collect();
        let mut last_ns = vec![0; known];
        while let Some(at) = waiting.pop() {
            let lane = &mut lanes[at];
            let of = &self.stages[lane.stage];
            while let Some((is_forward, batch_at)) = lane.next(of) {
                let batch = &mut batches[batch_at];
                let place = if is_forward {
                    lane.stage
                } else {
                    2 * known - 1 - lane.stage
                };
                if batch.passed != place {
                    break;
                }
                lane.free.pass(&of.passes[usize::from(!is_forward)], batch);
                lane.done += 1;
                batch.passed += 1;
                if batch.passed == known && !self.is_whole {
                    batch.there_ns += self.rest_ns;
                    batch.sent_ns = batch.there_ns;
                }
                if !is_forward {
                    last_ns[lane.stage] = last_ns[lane.stage].max(batch.there_ns);
                }
                if batch.passed < 2 * known {
                    let next = batch.passed.min(2 * known - 1 - batch.passed);
                    waiting.push(first_of[next] + batch_at % self.stages[next].replicas);
                }
            }
        }
        let ends = last_ns.iter().zip(self.stages);
        ends.map(|(last_ns, of)| last_ns + of.once_ns).max().unwrap_or(0)
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

    use super::{Prefix, PrefixStage};
    use crate::model::options::Schedule;
    use crate::problem::pipeline::schedule::InFlight;
    use crate::problem::pipeline::{Channels, PhaseTimes, Pipeline, StageTimes, iteration_ns};

    /// The whole is the run that the event loop has, replicas or not; the first stages, with what a micro-batch spends in the others, take no longer.
    #[test]
    fn runs_of_all_stages_are_those_of_the_event_loop() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..20_000 {
            let (count, micro_batches) = (rng.random_range(1..=6), rng.random_range(1..=9));
            let (has_links, most) = (rng.random_bool(0.7), rng.random_range(0..12));
            let most_replicas = if rng.random_bool(0.5) { 1 } else { 4 };
            let pipeline = drawn(&mut rng, (count, most_replicas), (has_links, most));
            let stages = known(&pipeline.stages, micro_batches);
            let run_ns = iteration_ns(
                &pipeline,
                Schedule::OneFOneB,
                InFlight::Standard,
                micro_batches as u64,
            );
            for known in 0..=count {
                let rest = stages[known..].iter().enumerate().map(|(at, stage)| {
                    let [forward, backward] = stage.passes;
                    let (there_ns, back_ns) = (forward.out_ns, backward.in_ns);
                    let on_the_way_ns = match known + at + 1 == count {
                        true => there_ns.max(back_ns),
                        false => there_ns + back_ns,
                    };
                    forward.work_ns + backward.work_ns + on_the_way_ns
                });
                let prefix = Prefix {
                    stages: &stages[..known],
                    is_whole: known == count,
                    rest_ns: rest.sum(),
                    micro_batches,
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

    fn drawn(
        rng: &mut ChaCha8Rng,
        (count, most_replicas): (usize, u64),
        (has_links, most): (bool, u64),
    ) -> Pipeline {
        let mut part = |most: u64| rng.random_range(0..=most);
        let mut pass = || match has_links {
            true => PhaseTimes {
                in_ns: part(most),
                work_ns: part(20),
                out_ns: part(most),
            },
            false => work(part(20) + part(most)),
        };
        let mut stages: Vec<StageTimes> = (0..count)
            .map(|_| StageTimes {
                forward: pass(),
                backward: pass(),
                weight_ns: 0,
                replicas: 1,
                once_ns: 0,
            })
            .collect();
        // Nothing comes to the first stage from before, nor goes beyond it.
        (stages[0].forward.in_ns, stages[0].backward.out_ns) = (0, 0);
        for stage in &mut stages {
            (stage.replicas, stage.once_ns) = (1 + part(most_replicas - 1), part(9));
        }
        Pipeline {
            stages,
            trains: true,
            channels: Channels::Shared,
            has_links,
        }
    }

    /// All stages of a pipeline, with what is in flight there.
    fn known(stages: &[StageTimes], micro_batches: usize) -> Vec<PrefixStage> {
        let of = |(k, stage): (usize, &StageTimes)| {
            let left: u64 = stages[k..].iter().map(|stage| stage.replicas).sum();
            let share = micro_batches.div_ceil(stage.replicas as usize);
            PrefixStage {
                passes: [stage.forward, stage.backward],
                replicas: stage.replicas as usize,
                in_flight: (left.div_ceil(stage.replicas) as usize).min(share),
                once_ns: stage.once_ns,
            }
        };
        stages.iter().enumerate().map(of).collect()
    }

    /// A pass that takes so long, without transfers.
    fn work(work_ns: u64) -> PhaseTimes {
        PhaseTimes {
            work_ns,
            ..PhaseTimes::default()
        }
    }

    #[test]
    fn two_stages_by_hand() {
        // Stage 1: F 0-1, F 1-2, B 4-6, F 6-7, B 7-9, B 10-12. Stage 2: F 1-2, B 2-4, F 4-5, B 5-7, F 7-8, B 8-10.
        let stages = [2, 1].map(|in_flight| PrefixStage {
            passes: [1, 2].map(work),
            replicas: 1,
            in_flight,
            once_ns: 0,
        });
        let prefix = |stages, is_whole, rest_ns| Prefix {
            stages,
            is_whole,
            rest_ns,
            micro_batches: 3,
        };
        assert_eq!(prefix(&stages[..], true, 0).bound_ns(), 12);
        // Stage 1 alone: F 0-1, F 1-2, B 4-6, F 6-7, B 7-9, B 10-12.
        assert_eq!(prefix(&stages[..1], false, 3).bound_ns(), 12);
        assert_eq!(prefix(&[], false, 3).bound_ns(), 3);
    }
}

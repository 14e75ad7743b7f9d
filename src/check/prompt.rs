//! Prompts in chunks, recomputed: what each chunk takes on each stage, and when the last one leaves the last stage.

use std::collections::BTreeSet;

use super::costs::TIME_TOLERANCE_MS;
use super::devices::Placed;
use super::parts::Part;
use super::{Checker, FORWARD, Violation, workers};
use crate::model::units::NS_PER_MS;
use crate::problem::plan::{Moved, Plan};

impl Checker<'_> {
    /// The time until a prompt is read, in ns: by stage and chunk, each behind the one before it and itself on the stage before, and where transfers are
    /// overlapped on each link so: a link in may start with the link out before it, the work when both are done. Stated times of chunks are held against it.
    ///
    /// * `each`: for every stage and chunk what is received, the work, and what is sent.
    pub(super) fn read_ns(&mut self, plan: &Plan, each: &[Vec<[u128; 3]>]) -> u128 {
        let has_links = self.settings.communication.has_links();
        let machines = |stage: &Vec<[u128; 3]>| -> Vec<Vec<u64>> {
            match has_links {
                true => (0..3)
                    .map(|part| stage.iter().map(|parts| parts[part] as u64).collect())
                    .collect(),
                false => vec![
                    stage
                        .iter()
                        .map(|parts| parts.iter().sum::<u128>() as u64)
                        .collect(),
                ],
            }
        };
        self.chunks_ns = each.iter().map(machines).collect();
        for k in 0..each.len() {
            self.stated_chunks(plan, k);
        }
        // When each chunk is there, and when its sender began to send it.
        let chunks = each.first().map_or(0, Vec::len);
        let (mut there, mut begun) = (vec![0u128; chunks], vec![0u128; chunks]);
        for stage in each {
            // Of the chunk before: received, done, sent.
            let mut before = [0u128; 3];
            for (at, [receive, work, send]) in stage.iter().enumerate() {
                match has_links {
                    true => {
                        before[0] = before[0].max(begun[at]) + receive;
                        before[1] = before[1].max(before[0]).max(there[at]) + work;
                        begun[at] = before[1].max(before[2]);
                        before[2] = begun[at] + send;
                        there[at] = before[2];
                    }
                    false => {
                        before[1] = before[1].max(there[at]) + receive + work + send;
                        there[at] = before[1];
                    }
                }
            }
        }
        there.last().copied().unwrap_or(0)
    }

    /// What a stage states of chunks against what they come to.
    fn stated_chunks(&mut self, plan: &Plan, k: usize) {
        let machines = self.chunks_ns[k].clone();
        let stage = &plan.stages[k];
        let moved = |of: fn(&Moved) -> f64| stage.chunk_transfers.iter().map(of).collect();
        let stated: [(_, Vec<f64>, _); 3] = [
            (
                "chunk_transfers",
                moved(|moved| moved.in_ms),
                machines.first().filter(|_| machines.len() == 3),
            ),
            (
                "chunks_ms",
                stage.chunks_ms.clone(),
                machines.get(machines.len() / 2),
            ),
            ("chunk_transfers", moved(|moved| moved.out_ms), machines.get(2)),
        ];
        for (field, stated, own) in stated {
            let own = own.map_or(&[][..], Vec::as_slice);
            if stated.len() != own.len() {
                self.violations.push(Violation::Field {
                    field: format!("stages[{k}].{field}"),
                    found: format!("{} of them", stated.len()),
                    expected: format!("{}, one a chunk", own.len()).into(),
                });
                continue;
            }
            for (at, (stated, own)) in stated.iter().zip(own).enumerate() {
                let own_ms = *own as f64 / NS_PER_MS;
                self.stated_ms(format!("stages[{k}].{field}[{at}]"), *stated, own_ms);
            }
        }
    }

    /// The time until stages in modes have read a prompt, in ms: each chunk is a micro-batch of its own size.
    pub(super) fn modal_read_ms(&mut self, plan: &Plan, (placed, parts): (&[Placed], &[Part])) -> f64 {
        let Some(prompt) = &self.settings.prompt else {
            return 0.0;
        };
        let mut each = vec![Vec::new(); placed.len()];
        for chunk in prompt.chunks() {
            let part = |bytes: u64| chunk.share_of(bytes, prompt);
            let of_chunk = |whole: &Part| {
                let mut own = whole.clone();
                for (times, reading) in own.mode.times.iter_mut().zip(&whole.mode.readings) {
                    let ns = reading.map(|reading| reading.ns(chunk, prompt));
                    times
                        .iter_mut()
                        .zip(ns)
                        .for_each(|(times, ns)| times.forward_ns = ns);
                }
                let mode = &mut own.mode;
                mode.collective_bytes = part(mode.collective_bytes);
                let beside = mode.input_bytes.iter_mut().chain(&mut mode.output_bytes);
                beside.for_each(|(_, bytes)| *bytes = part(*bytes));
                own
            };
            let own: Vec<Part> = parts.iter().map(of_chunk).collect();
            let mut sums = self.modal_sums(placed, &own);
            self.add_crossings((placed, &own), &|size| size.part(part), &mut sums);
            let both = each.iter_mut().zip(&sums);
            both.for_each(|(stage, sum)| stage.push(sum.forward_parts_ns().map(|ns| ns as u128)));
        }
        self.read_ns(plan, &each) as f64 / NS_PER_MS
    }

    /// What each chunk takes on each of so many stages, to receive, work and send, from layers and tensors.
    pub(super) fn chunks_ns(&self, stages: usize) -> Vec<Vec<[u128; 3]>> {
        let Some(prompt) = &self.settings.prompt else {
            return Vec::new();
        };
        let chunks = prompt.chunks();
        let mut each = vec![vec![[0u128; 3]; chunks.len()]; stages];
        for at in 0..self.instance.network.layers.len() {
            let place = self.stage_of[FORWARD][at].filter(|_| self.kept(at));
            let Some(k) = place else { continue };
            let kind = self.staff[k].keys().next();
            let reading = kind
                .and_then(|&kind| self.layer(at).readings[kind])
                .unwrap_or_default();
            let sums = each[k].iter_mut().zip(&chunks);
            sums.for_each(|(sum, &chunk)| sum[1] += u128::from(reading.ns(chunk, prompt)));
        }
        for tensor in &self.instance.network.tensors {
            let ends = std::iter::once(&tensor.producer).chain(&tensor.consumers);
            let touched: BTreeSet<usize> = ends.filter_map(|&at| self.stage_of[FORWARD][at]).collect();
            if touched.len() < 2 {
                continue;
            }
            let home = self.stage_of[FORWARD][tensor.producer];
            for k in touched.into_iter().filter(|&k| self.pays(k)) {
                let part = if home == Some(k) { 2 } else { 0 };
                let sums = each[k].iter_mut().zip(&chunks);
                sums.for_each(|(sum, &chunk)| {
                    sum[part] += u128::from(self.settings.chunk_transfer_ns(tensor, chunk, prompt))
                });
            }
        }
        each
    }

    /// What a plan says of the sizes that its chunks were chosen from: its own is among them with what it takes, and neither a plan nor a bound of
    /// another one is better than what it says of all.
    pub(super) fn chosen_size(&mut self, plan: &Plan) {
        if plan.chunk_sizes.is_empty() {
            return;
        }
        let own = plan.problem.given_chunks().and_then(|sizes| match sizes {
            [size] => Some(*size),
            _ => None,
        });
        let ascends = plan
            .chunk_sizes
            .is_sorted_by(|one, other| one.tokens < other.tokens);
        let is_known = plan.chunk_sizes.iter().any(|size| Some(size.tokens) == own);
        self.claim(ascends && is_known && self.settings.prompt.is_some(), || {
            "`chunk_sizes` that do not ascend, or without that of the plan".into()
        });
        let at_least = |ms: f64, least: Option<f64>| {
            ms.is_finite() && least.is_none_or(|least| ms >= least - TIME_TOLERANCE_MS)
        };
        for size in &plan.chunk_sizes {
            let is_better = size.objective_ms.is_some_and(|ms| {
                !at_least(ms, plan.objective_ms)
                    || !at_least(ms, Some(size.bound_ms))
                    || plan.objective_ms.is_none()
            });
            let is_own = Some(size.tokens) != own || size.objective_ms == plan.objective_ms;
            let holds = size.bound_ms >= 0.0 && at_least(size.bound_ms, plan.bound_ms);
            self.claim(is_own && holds && !is_better, || {
                format!(
                    "chunks of {} tokens that take {:?} ms, and {} at least: other than the plan's {:?} and {:?}",
                    size.tokens, size.objective_ms, size.bound_ms, plan.objective_ms, plan.bound_ms
                )
            });
        }
    }

    fn pays(&self, stage: usize) -> bool {
        !self.settings.heterogeneous || workers::pays(self.instance, &self.staff[stage])
    }
}

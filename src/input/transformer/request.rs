//! Whole requests: a server reads a prompt and writes tokens behind it, one pass for each but the first, whose logits the prompt leaves.
//!
//! A micro-batch is then so many requests at a time. Each pass reads the weights again, and each token that is written the cache before it, in the mean
//! that of half of them. Passes take turns: a layer takes the roofline of reading and, as a part of its own, that of writing as often as there
//! are passes. What each pass waits for, launches and the latency of links, counts as often (`micro_batch.passes`).

use super::{Model, Phase, Run, network};
use crate::model::spec::{
    ExpertsSpec, KernelSpec, LayerSpec, MicroBatchSpec, ModeSpec, NetworkSpec, TensorSpec, WorkSpec,
};

/// The network of a run that writes so many tokens behind its prompt.
pub(super) fn network_of(model: &Model, run: &Run, written: u32) -> NetworkSpec {
    let prompt = Run {
        written: None,
        ..run.clone()
    };
    let token = Run {
        sequence: 1.0,
        context: Some(run.sequence + (f64::from(written) / 2.0).floor()),
        phase: Some(Phase::Decode),
        ..prompt.clone()
    };
    let passes = f64::from(written - 1);
    let [read, write] = [&prompt, &token].map(|run| network(model, run));
    let both = |one: f64, other: f64| one + passes * other;
    let some = |one: Option<f64>, other: Option<f64>| one.zip(other).map(|(one, other)| both(one, other));
    let NetworkSpec {
        layers,
        tensors,
        micro_batch,
        ..
    } = read;
    let layers = layers.into_iter().zip(&write.layers);
    let tensors = tensors.into_iter().zip(&write.tensors);
    let of_tensor = |(one, other): (TensorSpec, &TensorSpec)| TensorSpec {
        bytes: some(one.bytes, other.bytes),
        ..one
    };
    let of_micro_batches = |(one, other): (MicroBatchSpec, MicroBatchSpec)| MicroBatchSpec {
        tokens: both(one.tokens, other.tokens),
        forward_flops: some(one.forward_flops, other.forward_flops),
        passes: (written > 1).then_some(u64::from(written)),
        ..one
    };
    NetworkSpec {
        precision: Some(run.precision.into()),
        micro_batch: micro_batch.zip(write.micro_batch).map(of_micro_batches),
        layers: layers.map(|(one, other)| of_layer(one, other, passes)).collect(),
        tensors: tensors.map(of_tensor).collect(),
        ..NetworkSpec::default()
    }
}

fn of_layer(mut one: LayerSpec, other: &LayerSpec, passes: f64) -> LayerSpec {
    let work = one.work.take().zip(other.work.as_ref());
    let modes = std::mem::take(&mut one.modes).into_iter().zip(&other.modes);
    LayerSpec {
        work: work.map(|(one, other)| in_turn(one, other, passes)),
        modes: modes.map(|(one, other)| of_mode(one, other, passes)).collect(),
        ..one
    }
}

fn of_mode(mut one: ModeSpec, other: &ModeSpec, passes: f64) -> ModeSpec {
    let both = |one: f64, other: f64| one + passes * other;
    let flops = |mode: &ModeSpec| mode.work.as_ref().map_or(0.0, |work| work.forward_flops);
    let [read, write] = [flops(&one), flops(other)];
    let all = both(read, write).max(f64::MIN_POSITIVE);
    let of_experts = |(one, other): (ExpertsSpec, &ExpertsSpec)| ExpertsSpec {
        routed_bytes: both(one.routed_bytes, other.routed_bytes),
        share: both(read * one.share, write * other.share) / all,
        ..one
    };
    let (work, experts) = (one.work.take(), one.experts.take());
    let work = work.zip(other.work.as_ref());
    ModeSpec {
        work: work.map(|(one, other)| in_turn(one, other, passes)),
        collective_bytes: both(one.collective_bytes, other.collective_bytes),
        workspace_bytes: one.workspace_bytes.max(other.workspace_bytes),
        experts: experts.zip(other.experts.as_ref()).map(of_experts),
        ..one
    }
}

/// The work of one pass and, behind it, of so many others.
fn in_turn(one: WorkSpec, other: &WorkSpec, passes: f64) -> WorkSpec {
    let scaled = |kernel: KernelSpec| KernelSpec {
        forward_flops: passes * kernel.forward_flops,
        forward_bytes: passes * kernel.forward_bytes,
        ..KernelSpec::default()
    };
    let others = std::iter::once(other.rest()).chain(other.kernels.iter().copied());
    let others: Vec<KernelSpec> = if passes > 0.0 {
        others.map(scaled).collect()
    } else {
        Vec::new()
    };
    WorkSpec {
        forward_flops: one.forward_flops + passes * other.forward_flops,
        forward_bytes: one.forward_bytes + passes * other.forward_bytes,
        // Of a whole request no chunk can be a part.
        attention_flops: None,
        kernels: [one.kernels, others].concat(),
        ..one
    }
}

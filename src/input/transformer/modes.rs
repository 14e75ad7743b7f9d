//! Modes of generated layers: tensor degrees, and what is computed again.
//!
//! A tensor group splits products of matrices, their parameters and what lies between them as in M. Shoeybi et al., *Megatron-LM*, 2019:
//! query, key, value and the first matrices of the MLP by columns, with attention by heads; the last ones by rows, whose outputs are
//! summed up. That is two all-reduces of a block's output forward and, for the inputs of the first matrices, two backward. Normalisation
//! and residual sums are done by every device, unless they are split by sequence: then what an all-reduce moves is scattered before and
//! gathered behind (V. Korthikanti et al., *Reducing activation recomputation in large transformer models*, MLSys 2023, section 4.2).
//!
//! What is kept are the outputs of operators, with the input of a block in place of its own output: 36 bytes a number of width and token
//! in 16 bits, of which 24 are split, beside the attention matrices where they are written. Korthikanti et al. count 34 with masks of
//! dropout (10 whole and 24 split, equations 1 and 2), and without the outputs of `project` and `contract`. Computed again is the
//! attention core (`selective`, their section 5) or all of a block from its input (`full`).
//!
//! Gradients of weights are half of what a product with parameters does backward, `24 s b h²` in a block whose MLP is four times as wide
//! (P. Qi et al., *Zero Bubble Pipeline Parallelism*, ICLR 2024, Table 1), all of an embedding's, and the updates, which wait for
//! nothing else. Attention has no weights, and scales of normalisations go with the gradients of their inputs.

use std::collections::BTreeMap;

use super::Run;
use super::operator::{Group, Kind, Operator};
use super::parts::Part;
use crate::model::recompute;
use crate::model::roofline::{Traffic, UPDATE_FLOPS, UPDATE_NUMBERS};
use crate::model::spec::{ExpertsSpec, KernelSpec, ModeSpec, WorkSpec};

/// What is computed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Again {
    /// Nothing.
    Nothing,
    /// Scores and softmax, where they are written.
    Core,
    /// The block.
    Full,
}

/// A pass of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// Forward.
    Forward,
    /// Backward, without the update.
    Backward,
    /// The update of its parameters.
    Update,
}

/// The passes of operators that a layer stands for.
pub(super) struct Pieces<'a> {
    run: &'a Run,
    /// The part that these are from.
    part: &'a Part,
    /// With the factor by which work is spread.
    passes: Vec<(&'a Operator, Pass, f64)>,
}

/// What one device of a tensor group takes of an operator.
struct Taken {
    flops: f64,
    output_bytes: f64,
    parameter_bytes: f64,
    table_bytes: f64,
    /// What it keeps of a token, and of a sequence.
    cached: [f64; 2],
    traffic: Traffic,
}

/// Operators of a block that are added up into one roofline: all products are bound by arithmetic in training and by traffic in decoding. What stands
/// between them moves bytes that nothing hides, and takes turns with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    /// Products with parameters, attention in tiles, scans.
    Products,
    /// Products of a matrix of all pairs of tokens, which move it through memory.
    Pairs,
    /// Norms, sums, activations, look-ups, updates.
    Others,
}

fn turn(op: &Operator) -> Turn {
    match op.kind {
        Kind::Product if op.parameters.held > 0.0 => Turn::Products,
        Kind::Product => Turn::Pairs,
        _ if op.model_flops > 0.0 => Turn::Products,
        Kind::LookUp | Kind::Sum | Kind::OfInputs | Kind::OfInputsAndOutput => Turn::Others,
    }
}

/// Work in the making.
#[derive(Default)]
struct Work {
    all: WorkSpec,
    turns: BTreeMap<Turn, KernelSpec>,
}

impl Work {
    fn forward(&mut self, turn: Turn, [flops, bytes]: [f64; 2]) {
        self.all.forward_flops += flops;
        self.all.forward_bytes += bytes;
        let kernel = self.turns.entry(turn).or_default();
        kernel.forward_flops += flops;
        kernel.forward_bytes += bytes;
    }

    fn backward(&mut self, turn: Turn, [flops, bytes]: [f64; 2]) {
        self.all.backward_flops += flops;
        self.all.backward_bytes += bytes;
        let kernel = self.turns.entry(turn).or_default();
        kernel.backward_flops += flops;
        kernel.backward_bytes += bytes;
    }

    /// The first that take turns are what the others leave.
    fn told(self) -> WorkSpec {
        WorkSpec {
            kernels: self.turns.into_values().skip(1).collect(),
            ..self.all
        }
    }
}

impl<'a> Pieces<'a> {
    /// None yet.
    pub(super) fn new(run: &'a Run, part: &'a Part) -> Self {
        Self {
            run,
            part,
            passes: Vec::new(),
        }
    }

    /// Adds a pass.
    pub(super) fn add(&mut self, op: &'a Operator, pass: Pass, factor: f64) {
        self.passes.push((op, pass, factor));
    }

    /// Every degree with everything that may be computed again; the name of what is not is left out.
    pub(super) fn modes(&self, most: Again) -> Vec<ModeSpec> {
        let has_core = self.forward().any(|op| op.is_core);
        let names = [
            (Again::Nothing, recompute::NONE, true),
            (Again::Core, "selective", has_core),
            (Again::Full, "full", true),
        ];
        let named = names
            .into_iter()
            .filter(|(again, _, differs)| *differs && *again <= most)
            // Where nothing goes back, nothing is kept.
            .filter(|(again, ..)| self.run.trains() || *again == Again::Nothing);
        let at_degree = |&degree: &u32| {
            named.clone().map(move |(again, name, _)| ModeSpec {
                tensor: Some(degree as usize),
                recompute: (again != Again::Nothing).then(|| name.into()),
                ..self.mode(degree, again)
            })
        };
        self.run.degrees.iter().flat_map(at_degree).collect()
    }

    /// What a device of a group takes.
    pub(super) fn mode(&self, degree: u32, again: Again) -> ModeSpec {
        let work = self.work(degree, again);
        let [kept_bytes, again_bytes] =
            [false, true].map(|is| self.sum(degree, |op| is_again(op, again) == is));
        // The input of a block, which is as large as its output, is there in either case.
        let input_bytes = match (again, self.part.operators.last()) {
            (Again::Full, Some(output)) => self.taken(output, degree).output_bytes,
            _ => 0.0,
        };
        let taken = || self.forward().map(|op| self.taken(op, degree));
        let kept_bytes = if self.run.trains() {
            kept_bytes + input_bytes
        } else {
            0.0
        };
        let experts = self.experts(degree, again);
        let table_bytes: f64 = taken().map(|taken| taken.table_bytes).sum();
        let [kv_bytes_per_token, state_bytes_per_sequence] =
            [0, 1].map(|at| taken().map(|taken| taken.cached[at]).sum());
        ModeSpec {
            work: Some(work),
            parameter_bytes: taken().map(|taken| taken.parameter_bytes).sum(),
            shared_bytes: (table_bytes > 0.0).then_some(table_bytes),
            experts,
            stash_bytes: kept_bytes,
            kv_bytes_per_token,
            state_bytes_per_sequence,
            workspace_bytes: again_bytes - input_bytes,
            collective_bytes: if degree > 1 { self.reduced(again) } else { 0.0 },
            ..ModeSpec::default()
        }
    }

    /// FLOPs and bytes of both passes.
    fn work(&self, degree: u32, again: Again) -> WorkSpec {
        let mut work = Work::default();
        for &(op, pass, factor) in &self.passes {
            let taken = self.taken(op, degree);
            let traffic = &taken.traffic;
            let flops = factor * taken.flops;
            let is_pair = self.run.reads_prompts() && op.grows;
            let turn = if is_pair { Turn::Products } else { turn(op) };
            match pass {
                Pass::Forward => {
                    let forward = [flops, factor * forward_bytes(op, traffic)];
                    work.forward(turn, forward);
                    if self.run.reads_prompts() {
                        *work.all.attention_flops.get_or_insert(0.0) += f64::from(u8::from(is_pair)) * flops;
                    }
                    if is_again(op, again) {
                        work.backward(turn, forward);
                    }
                }
                Pass::Backward => {
                    let [backward, weight] = backward_bytes(op, traffic).map(|bytes| factor * bytes);
                    work.backward(turn, [op.backward * flops, backward]);
                    work.all.weight_flops += op.weight * flops;
                    work.all.weight_bytes += weight;
                }
                Pass::Update => {
                    let numbers = factor * taken.parameter_bytes / self.run.precision.bytes();
                    let update = [
                        UPDATE_FLOPS * numbers,
                        UPDATE_NUMBERS * factor * taken.parameter_bytes,
                    ];
                    work.backward(Turn::Others, update);
                    work.all.weight_flops += update[0];
                    work.all.weight_bytes += update[1];
                }
            }
        }
        work.told()
    }

    /// The experts among its operators, if there are some: what they hold, what goes to them and back, and their part of the FLOPs.
    fn experts(&self, degree: u32, again: Again) -> Option<ExpertsSpec> {
        let own = || self.forward().filter(|op| op.experts > 0.0);
        let count = own().next()?.experts;
        let flops = |op: &Operator| {
            let backward = if self.run.trains() { op.backward } else { 0.0 };
            self.taken(op, degree).flops * (1.0 + backward)
        };
        let all: f64 = self.forward().map(flops).sum();
        let part = if self.run.sequence_parallel {
            1.0 / f64::from(degree)
        } else {
            1.0
        };
        // What is handed to them is each token's vector, as often as it has experts.
        let sent: f64 = own()
            .filter(|op| op.kind == Kind::Sum)
            .map(|op| op.output_bytes)
            .sum();
        let passes = match (self.run.trains(), again) {
            (false, _) => 1.0,
            (true, Again::Full) => 3.0,
            (true, _) => 2.0,
        };
        Some(ExpertsSpec {
            count: count as usize,
            parameter_bytes: own().map(|op| self.taken(op, degree).parameter_bytes).sum(),
            routed_bytes: 2.0 * passes * part * sent,
            share: if all > 0.0 {
                own().map(flops).sum::<f64>() / all
            } else {
                0.0
            },
        })
    }

    /// Operators with a forward pass here.
    fn forward(&self) -> impl Iterator<Item = &'a Operator> {
        let passes = self.passes.iter().copied();
        passes.filter_map(|(op, pass, _)| (pass == Pass::Forward).then_some(op))
    }

    /// Bytes of the outputs of some operators.
    fn sum(&self, degree: u32, is_counted: impl Fn(&Operator) -> bool) -> f64 {
        let counted = self.forward().filter(|op| is_counted(op));
        counted.map(|op| self.taken(op, degree).output_bytes).sum()
    }

    fn taken(&self, op: &Operator, degree: u32) -> Taken {
        let part = 1.0 / f64::from(degree);
        let by_sequence = if self.run.sequence_parallel { part } else { 1.0 };
        let (work, output, parameters) = match op.group {
            Group::Whole => (by_sequence, by_sequence, 1.0),
            Group::Split => (part, part, part),
            Group::Reduced => (part, by_sequence, part),
        };
        let inputs: f64 = op
            .reads
            .iter()
            .map(|name| self.read(op, name, [part, by_sequence]))
            .sum();
        let bytes = |numbers: f64| numbers * self.run.precision.bytes() * parameters;
        let parameter_bytes = bytes(op.parameters.held);
        let cache_part = if op.cache.is_whole { 1.0 } else { part };
        let outputs = op.output_bytes
            * match op.group {
                Group::Whole | Group::Split => output,
                // Each device writes a sum of its own, before the group adds these up.
                Group::Reduced => 1.0,
            };
        Taken {
            flops: op.flops * work,
            output_bytes: op.output_bytes * output,
            parameter_bytes,
            table_bytes: bytes(op.table),
            cached: [op.cache.token_bytes, op.cache.sequence_bytes].map(|bytes| cache_part * bytes),
            traffic: Traffic {
                // Of a table, the rows that this device has.
                inputs: match op.kind {
                    Kind::LookUp => op.output_bytes * part,
                    _ => inputs + cache_part * op.cache.bytes,
                },
                parameters: bytes(op.parameters.read),
                outputs,
            },
        }
    }

    /// Bytes that a device reads of what another operator, or the part before, made.
    fn read(&self, reader: &Operator, name: &str, [part, by_sequence]: [f64; 2]) -> f64 {
        let producer = self.part.operators.iter().find(|op| op.name == name);
        let bytes = match producer {
            Some(op) => op.output_bytes,
            None => {
                let inputs = self.part.inputs.iter().filter(|input| input.name == name);
                inputs.map(|input| input.bytes).sum()
            }
        };
        let is_split = producer.is_some_and(|op| op.group == Group::Split);
        bytes
            * match reader.group {
                Group::Whole => by_sequence,
                Group::Split | Group::Reduced if is_split => part,
                // What is split by sequence was gathered before.
                Group::Split | Group::Reduced => 1.0,
            }
    }

    /// Bytes of the tensors that the group sums up: outputs forward, and again with all that is computed again; backward the gradients of
    /// what is whole and read by what is split.
    fn reduced(&self, again: Again) -> f64 {
        let times = if again == Again::Full { 2.0 } else { 1.0 };
        let of_pass = |&(op, pass, _): &(&Operator, Pass, f64)| match (pass, op.group) {
            (Pass::Forward, Group::Reduced) => times * op.output_bytes,
            (Pass::Backward, Group::Whole) if self.is_read_split(op) => op.output_bytes / op.copies,
            _ => 0.0,
        };
        self.passes.iter().map(of_pass).sum()
    }

    fn is_read_split(&self, op: &Operator) -> bool {
        let mut readers = self
            .part
            .operators
            .iter()
            .filter(|reader| reader.reads.contains(&op.name));
        readers.any(|reader| reader.group != Group::Whole)
    }
}

fn is_again(op: &Operator, again: Again) -> bool {
    match again {
        Again::Nothing => false,
        Again::Core => op.is_core,
        Again::Full => true,
    }
}

/// Bytes that the forward pass moves.
fn forward_bytes(op: &Operator, traffic: &Traffic) -> f64 {
    match op.kind {
        Kind::LookUp => Traffic::look_up(traffic.inputs, traffic.outputs),
        Kind::Product | Kind::Sum | Kind::OfInputs | Kind::OfInputsAndOutput => traffic.forward(),
    }
}

/// Bytes that the backward pass moves, and how many of them are for gradients of weights.
fn backward_bytes(op: &Operator, traffic: &Traffic) -> [f64; 2] {
    let gradients = traffic.inputs + traffic.parameters;
    match op.kind {
        Kind::Product => [2.0, op.weight].map(|products| products * traffic.of_gradient()),
        Kind::LookUp => [Traffic::look_up_backward(traffic.inputs); 2],
        Kind::Sum => [traffic.backward(0.0, gradients), 0.0],
        Kind::OfInputs => [traffic.backward(traffic.inputs, gradients), 0.0],
        Kind::OfInputsAndOutput => [traffic.backward(traffic.inputs + traffic.outputs, gradients), 0.0],
    }
}

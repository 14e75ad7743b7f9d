//! From operators to layers and tensors.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::block::{Operator, Shape};
use crate::spec::{LayerSpec, TensorSpec, WorkSpec};

/// Work of equal operators differs by up to this factor, either way.
const SPREAD: f64 = 0.1;

/// Numbers that an update moves for each parameter: it, its gradient and two of the optimiser.
const UPDATE_TRAFFIC: f64 = 4.0;

/// A part of the model: its name, which its layers begin with, and its operators.
type Part = (String, Vec<Operator>);

/// The parts of a model, in order.
fn parts(shape: &Shape) -> Vec<Part> {
    let blocks = (0..shape.blocks).map(|number| (format!("b{number}"), shape.block()));
    match shape.vocabulary {
        None => blocks.collect(),
        Some(words) => {
            let embedding = ("embedding".into(), shape.embedding(words));
            let head = ("head".into(), shape.head(words));
            [embedding].into_iter().chain(blocks).chain([head]).collect()
        }
    }
}

/// A graph in the making.
pub(super) struct Builder {
    rng: ChaCha8Rng,
    precision_bytes: f64,
    pub layers: Vec<LayerSpec>,
    pub tensors: Vec<TensorSpec>,
    /// Position of the tensor that a layer produces.
    tensor_of: HashMap<String, usize>,
}

impl Builder {
    /// Nothing yet.
    pub(super) fn new(seed: u64, precision_bytes: f64) -> Self {
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            precision_bytes,
            layers: Vec::new(),
            tensors: Vec::new(),
            tensor_of: HashMap::new(),
        }
    }

    /// A layer for every operator, forward and backward, and every update.
    pub(super) fn operators(&mut self, shape: &Shape) {
        let parts = parts(shape);
        for at in 0..parts.len() {
            self.forward(&parts, at);
        }
        for at in (0..parts.len()).rev() {
            self.backward(&parts, at);
        }
        // The loss of a head, and the gradients of what reads nothing, have no readers.
        self.tensors.retain(|tensor| !tensor.consumers.is_empty());
    }

    /// A layer for every block, and one each for embedding and head.
    pub(super) fn blocks(&mut self, shape: &Shape) {
        let parts = parts(shape);
        for (at, (name, operators)) in parts.iter().enumerate() {
            let mut work = WorkSpec::default();
            for op in operators {
                let forward = self.work(op, 1.0);
                let backward = self.work(op, backward_weight(op));
                work.forward_flops += forward.forward_flops;
                work.forward_bytes += forward.forward_bytes;
                work.backward_flops += backward.forward_flops;
                work.backward_bytes += backward.forward_bytes;
            }
            let parameter_bytes = operators.iter().map(|op| op.parameter_bytes).sum();
            let operator = name.trim_end_matches(|c: char| c.is_ascii_digit());
            self.layers.push(LayerSpec {
                id: name.clone(),
                operator: Some(if operator == "b" { "block" } else { operator }.into()),
                work: Some(work),
                parameter_bytes,
                stash_bytes: operators.iter().map(|op| op.output_bytes).sum(),
                ..Default::default()
            });
            if let Some((next, _)) = parts.get(at + 1) {
                let last = operators.last().map_or(0.0, |op| op.output_bytes);
                self.produce(name.clone(), last);
                self.flow(name.clone(), next.clone());
            }
        }
    }

    fn forward(&mut self, parts: &[Part], at: usize) {
        let (part, operators) = &parts[at];
        for op in operators {
            let id = format!("{part}.{}", op.name);
            let work = self.work(op, 1.0);
            self.layers.push(LayerSpec {
                id: id.clone(),
                operator: Some(op.name.into()),
                work: Some(work),
                parameter_bytes: op.parameter_bytes,
                stash_bytes: op.output_bytes,
                tie: Some(id.clone()),
                ..Default::default()
            });
            for &read in op.reads {
                if let Some(from) = source(parts, at, read) {
                    self.flow(from, id.clone());
                }
            }
            self.produce(id, op.output_bytes);
        }
    }

    /// Backward operators read the gradients of what consumed their output, and what they kept; the updates follow.
    fn backward(&mut self, parts: &[Part], at: usize) {
        let (part, operators) = &parts[at];
        for op in operators.iter().rev() {
            let tie = format!("{part}.{}", op.name);
            let id = format!("{tie}.grad");
            let forward = self.work(op, backward_weight(op));
            self.layers.push(LayerSpec {
                id: id.clone(),
                operator: Some(format!("{}.grad", op.name)),
                work: Some(as_backward(forward)),
                tie: Some(tie.clone()),
                backward: true,
                ..Default::default()
            });
            self.flow(tie.clone(), id.clone());
            let readers = operators.iter().filter(|reader| reader.reads.contains(&op.name));
            for reader in readers {
                self.flow(format!("{part}.{}.grad", reader.name), id.clone());
            }
            if let Some((next, readers)) = parts.get(at + 1).filter(|_| op.name == "output") {
                for reader in readers.iter().filter(|reader| reader.reads.contains(&"input")) {
                    self.flow(format!("{next}.{}.grad", reader.name), id.clone());
                }
            }
            self.produce(id.clone(), op.output_bytes);
            if op.parameter_bytes > 0.0 {
                let update = format!("{tie}.update");
                self.layers.push(LayerSpec {
                    id: update.clone(),
                    operator: Some("update".into()),
                    work: Some(WorkSpec {
                        backward_flops: UPDATE_TRAFFIC * op.parameter_bytes / self.precision_bytes,
                        backward_bytes: UPDATE_TRAFFIC * op.parameter_bytes,
                        ..Default::default()
                    }),
                    tie: Some(tie),
                    backward: true,
                    ..Default::default()
                });
                self.flow(id, update);
            }
        }
    }

    /// Work of an operator, spread at random.
    fn work(&mut self, op: &Operator, weight: f64) -> WorkSpec {
        let factor = weight * self.rng.random_range(1.0 - SPREAD..1.0 + SPREAD);
        WorkSpec {
            forward_flops: op.flops * factor,
            forward_bytes: 2.0 * op.output_bytes * factor,
            ..Default::default()
        }
    }

    /// The output of a layer; it becomes a tensor with its first reader.
    fn produce(&mut self, producer: String, bytes: f64) {
        self.tensor_of.insert(producer.clone(), self.tensors.len());
        self.tensors.push(TensorSpec {
            producer,
            bytes: Some(bytes),
            ..Default::default()
        });
    }

    fn flow(&mut self, from: String, to: String) {
        if let Some(&tensor) = self.tensor_of.get(&from) {
            self.tensors[tensor].consumers.push(to);
        }
    }
}

/// Two products, for the input and for the parameters; one where there are none.
fn backward_weight(op: &Operator) -> f64 {
    if op.parameter_bytes > 0.0 { 2.0 } else { 1.0 }
}

/// The work of an operator that is all backward.
fn as_backward(work: WorkSpec) -> WorkSpec {
    WorkSpec {
        backward_flops: work.forward_flops,
        backward_bytes: work.forward_bytes,
        ..Default::default()
    }
}

/// The layer that an operator reads; the first part reads the network's input, which is none.
fn source(parts: &[Part], at: usize, read: &str) -> Option<String> {
    match (read, at) {
        ("input", 0) => None,
        ("input", _) => Some(format!("{}.output", parts[at - 1].0)),
        _ => Some(format!("{}.{read}", parts[at].0)),
    }
}

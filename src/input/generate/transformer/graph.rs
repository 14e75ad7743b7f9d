//! From operators to layers and tensors.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Transformer;
use super::block::{Operator, Shape};
use super::modes::{Again, Pass, Pieces};
use crate::model::spec::{LayerSpec, ModeSpec, TensorSpec};

/// A part of the model: its name, which its layers begin with, and its operators.
type Part = (String, Vec<Operator>);

/// FLOPs that the model asks for, of a forward pass: its matrix products.
pub(super) fn model_flops(shape: &Shape) -> f64 {
    let parts = parts(shape);
    let operators = parts.iter().flat_map(|(_, operators)| operators);
    operators.map(|op| op.model_flops).sum()
}

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
    /// By up to which part operators differ from their work, either way.
    spread: f64,
    /// The part of the optimiser's step that a micro-batch takes, where that is said.
    update: Option<f64>,
    rng: ChaCha8Rng,
    pub layers: Vec<LayerSpec>,
    pub tensors: Vec<TensorSpec>,
    /// Position of the tensor that a layer produces.
    tensor_of: HashMap<String, usize>,
}

impl Builder {
    /// Nothing yet.
    pub(super) fn new(asked: &Transformer) -> Self {
        Self {
            spread: asked.spread,
            update: asked
                .micro_batches
                .map(|micro_batches| 1.0 / f64::from(micro_batches)),
            rng: ChaCha8Rng::seed_from_u64(asked.seed),
            layers: Vec::new(),
            tensors: Vec::new(),
            tensor_of: HashMap::new(),
        }
    }

    /// A layer for every operator, forward and, in training, backward, and every update.
    pub(super) fn operators(&mut self, shape: &Shape) {
        let parts = parts(shape);
        for at in 0..parts.len() {
            self.forward(shape, &parts, at);
        }
        if shape.trains {
            for at in (0..parts.len()).rev() {
                self.backward(shape, &parts, at);
            }
        }
        // The loss of a head, and the gradients of what reads nothing, have no readers.
        self.tensors.retain(|tensor| !tensor.consumers.is_empty());
    }

    /// A layer for every block, and one each for embedding and head.
    pub(super) fn blocks(&mut self, shape: &Shape) {
        let parts = parts(shape);
        for (at, (name, operators)) in parts.iter().enumerate() {
            let mut pieces = Pieces::new(shape, operators);
            for op in operators {
                pieces.add(op, Pass::Forward, self.factor());
                if !shape.trains {
                    continue;
                }
                pieces.add(op, Pass::Backward, self.factor());
                if let Some(part) = self.update.filter(|_| op.parameter_bytes > 0.0) {
                    pieces.add(op, Pass::Update, part);
                }
            }
            let operator = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let is_block = operator == "b";
            let most = if is_block { Again::Full } else { Again::Core };
            self.layers.push(LayerSpec {
                id: name.clone(),
                operator: Some(if is_block { "block" } else { operator }.into()),
                ..layer(&pieces, most)
            });
            if let Some((next, _)) = parts.get(at + 1) {
                let last = operators.last().map_or(0.0, |op| op.output_bytes);
                self.produce(name.clone(), last);
                self.flow(name.clone(), next.clone());
            }
        }
    }

    fn forward(&mut self, shape: &Shape, parts: &[Part], at: usize) {
        let (part, operators) = &parts[at];
        for op in operators {
            let id = format!("{part}.{}", op.name);
            let mut pieces = Pieces::new(shape, operators);
            pieces.add(op, Pass::Forward, self.factor());
            self.layers.push(LayerSpec {
                id: id.clone(),
                operator: Some(op.name.into()),
                tie: Some(id.clone()),
                ..layer(&pieces, Again::Core)
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
    fn backward(&mut self, shape: &Shape, parts: &[Part], at: usize) {
        let (part, operators) = &parts[at];
        for op in operators.iter().rev() {
            let tie = format!("{part}.{}", op.name);
            let id = format!("{tie}.grad");
            let mut pieces = Pieces::new(shape, operators);
            pieces.add(op, Pass::Backward, self.factor());
            self.layers.push(LayerSpec {
                id: id.clone(),
                operator: Some(format!("{}.grad", op.name)),
                tie: Some(tie.clone()),
                backward: true,
                ..layer(&pieces, Again::Core)
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
                let mut pieces = Pieces::new(shape, operators);
                pieces.add(op, Pass::Update, self.update.unwrap_or(1.0));
                self.layers.push(LayerSpec {
                    id: update.clone(),
                    operator: Some("update".into()),
                    tie: Some(tie),
                    backward: true,
                    ..layer(&pieces, Again::Core)
                });
                self.flow(id, update);
            }
        }
    }

    /// How much longer than its work says an operator takes, at random.
    fn factor(&mut self) -> f64 {
        match self.spread > 0.0 {
            true => self.rng.random_range(1.0 - self.spread..1.0 + self.spread),
            false => 1.0,
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

/// A layer with the modes that differ from what it is on one device.
fn layer(pieces: &Pieces, most: Again) -> LayerSpec {
    let ModeSpec {
        work,
        parameter_bytes,
        stash_bytes,
        resident_bytes,
        ..
    } = pieces.mode(1, Again::Nothing);
    let mut modes = pieces.modes(most);
    if modes.len() == 1 && modes[0].tensor == Some(1) {
        modes.clear();
    }
    LayerSpec {
        work,
        parameter_bytes,
        stash_bytes,
        resident_bytes,
        modes,
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

//! From operators to layers and tensors.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Run;
use super::modes::{Again, Pass, Pieces};
use super::parts::Part;
use crate::model::spec::{LayerSpec, ModeSpec, TensorSpec};

/// The table that embedding and head share.
const TABLE: &str = "words";

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
    pub(super) fn new(run: &Run) -> Self {
        Self {
            spread: run.spread,
            update: run
                .micro_batches
                .map(|micro_batches| 1.0 / f64::from(micro_batches)),
            rng: ChaCha8Rng::seed_from_u64(run.seed),
            layers: Vec::new(),
            tensors: Vec::new(),
            tensor_of: HashMap::new(),
        }
    }

    /// A layer for every operator, forward and, in training, backward, and every update.
    pub(super) fn operators(&mut self, run: &Run, parts: &[Part]) {
        for at in 0..parts.len() {
            self.forward(run, parts, at);
        }
        if run.trains() {
            for at in (0..parts.len()).rev() {
                self.backward(run, parts, at);
            }
        }
        // The loss of a head, and the gradients of what reads nothing, have no readers.
        self.tensors.retain(|tensor| !tensor.consumers.is_empty());
    }

    /// A layer for every block, and one each for what stands around them.
    pub(super) fn blocks(&mut self, run: &Run, parts: &[Part]) {
        for part in parts {
            let mut pieces = Pieces::new(run, part);
            for op in &part.operators {
                pieces.add(op, Pass::Forward, self.factor());
                if !run.trains() {
                    continue;
                }
                pieces.add(op, Pass::Backward, self.factor());
                if let Some(share) = self.update.filter(|_| op.parameters.held > 0.0) {
                    pieces.add(op, Pass::Update, share);
                }
            }
            self.layers.push(LayerSpec {
                id: part.name.clone(),
                operator: Some(part.kind.into()),
                ..layer(&pieces, part.most)
            });
            for from in part.inputs.iter().filter_map(|input| input.from) {
                self.flow(parts[from].name.clone(), part.name.clone());
            }
            let last = part.operators.last().map_or(0.0, |op| op.output_bytes);
            self.produce(part.name.clone(), last);
        }
        // The head's output has no reader.
        self.tensors.retain(|tensor| !tensor.consumers.is_empty());
    }

    fn forward(&mut self, run: &Run, parts: &[Part], at: usize) {
        let part = &parts[at];
        for op in &part.operators {
            let id = format!("{}.{}", part.name, op.name);
            let mut pieces = Pieces::new(run, part);
            pieces.add(op, Pass::Forward, self.factor());
            self.layers.push(LayerSpec {
                id: id.clone(),
                operator: Some(op.name.into()),
                tie: Some(id.clone()),
                ..layer(&pieces, Again::Core)
            });
            for &read in &op.reads {
                for from in sources(parts, at, read) {
                    self.flow(from, id.clone());
                }
            }
            self.produce(id, op.output_bytes);
        }
    }

    /// Backward operators read the gradients of what consumed their output, and what they kept; the updates follow.
    fn backward(&mut self, run: &Run, parts: &[Part], at: usize) {
        let part = &parts[at];
        for op in part.operators.iter().rev() {
            let tie = format!("{}.{}", part.name, op.name);
            let id = format!("{tie}.grad");
            let mut pieces = Pieces::new(run, part);
            pieces.add(op, Pass::Backward, self.factor());
            self.layers.push(LayerSpec {
                id: id.clone(),
                operator: Some(format!("{}.grad", op.name)),
                tie: Some(tie.clone()),
                backward: true,
                ..layer(&pieces, Again::Core)
            });
            self.flow(tie.clone(), id.clone());
            let readers = part
                .operators
                .iter()
                .filter(|reader| reader.reads.contains(&op.name));
            for reader in readers {
                self.flow(format!("{}.{}.grad", part.name, reader.name), id.clone());
            }
            if op.name == "output" {
                for (part, reader) in readers_of(parts, at) {
                    self.flow(format!("{part}.{reader}.grad"), id.clone());
                }
            }
            self.produce(id.clone(), op.output_bytes);
            if op.parameters.held > 0.0 {
                let update = format!("{tie}.update");
                let mut pieces = Pieces::new(run, part);
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
        shared_bytes,
        experts,
        stash_bytes,
        kv_bytes_per_token,
        state_bytes_per_sequence,
        ..
    } = pieces.mode(1, Again::Nothing);
    let mut modes = pieces.modes(most);
    if modes.len() == 1 && modes[0].tensor == Some(1) {
        modes.clear();
    }
    LayerSpec {
        work,
        parameter_bytes,
        shared: shared_bytes.map(|_| TABLE.to_owned()),
        shared_bytes,
        experts,
        stash_bytes,
        kv_bytes_per_token,
        state_bytes_per_sequence,
        modes,
        ..Default::default()
    }
}

/// The layers that an operator reads by one name; the network's own input is none.
fn sources(parts: &[Part], at: usize, read: &str) -> Vec<String> {
    let part = &parts[at];
    let mut inputs = part.inputs.iter().filter(|input| input.name == read).peekable();
    if inputs.peek().is_none() {
        return vec![format!("{}.{read}", part.name)];
    }
    let made = inputs.filter_map(|input| input.from);
    made.map(|from| format!("{}.output", parts[from].name)).collect()
}

/// The operators of later parts that read the output of a part.
fn readers_of(parts: &[Part], at: usize) -> impl Iterator<Item = (&str, &str)> {
    parts[at + 1..].iter().flat_map(move |part| {
        let names = part.inputs.iter().filter(move |input| input.from == Some(at));
        names.flat_map(move |input| {
            let readers = part
                .operators
                .iter()
                .filter(move |op| op.reads.contains(&input.name));
            readers.map(move |reader| (part.name.as_str(), reader.name))
        })
    })
}

//! What a model has: parameters, those that a token uses, and what is kept of each token.

use serde::Serialize;

use super::model::{Block, Model, Predictor, Tower};
use super::operator::Parameters;
use super::parts::{Scope, parts};
use super::{Attention, Granularity, Precision, Run};

/// What a model has. Numbers are of weights, whatever a checkpoint stores beside them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Parameters of the language model, a head that is the table of words counted once; without vision and multi-token prediction.
    pub parameters: u64,
    /// Those of them that a token uses: all but the experts that it does not go to.
    pub active_parameters: u64,
    /// Of `parameters`, the tables of words and positions, the head, and the norm before it.
    pub embedding_parameters: u64,
    /// Bytes that are kept of each token in all layers, for the tokens behind it.
    pub kv_bytes_per_token: u64,
    /// Parameters of the vision tower and of what joins it to the language model, where there is one.
    pub vision_parameters: Option<u64>,
    /// Parameters of the layers that predict further tokens, without the tables that they share, where there are any.
    pub mtp_parameters: Option<u64>,
    /// Layers of the language model in runs of equal ones.
    pub layers: Vec<LayerRun>,
}

/// Equal layers in a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerRun {
    /// Number of the first, from 0.
    pub first: usize,
    /// Number of the last.
    pub last: usize,
    /// What they are.
    pub kind: &'static str,
    /// Parameters of each.
    pub parameters: u64,
    /// Those that a token uses.
    pub active_parameters: u64,
    /// Bytes that each keeps of a token.
    pub kv_bytes_per_token: u64,
}

impl Model {
    /// What it has; keys and values are kept in numbers of `precision`. Sums over the operators that networks are made of.
    pub(crate) fn summary(&self, precision: Precision) -> Summary {
        let run = one_token(precision);
        let scope = Scope::of_run(&run, self.width);
        let mut layers: Vec<LayerRun> = Vec::new();
        for (number, block) in self.blocks.iter().enumerate() {
            let layer = layer(block, number, &scope, precision);
            match layers.last_mut() {
                Some(run) if run.is_like(&layer) => run.last = number,
                _ => layers.push(layer),
            }
        }
        let words = Self {
            blocks: Vec::new(),
            tower: None,
            predictors: Vec::new(),
            ..self.clone()
        };
        let tables = parts(&words, &run);
        let tables: f64 = tables
            .iter()
            .flat_map(|part| &part.operators)
            .map(|op| op.parameters.held)
            .sum();
        // The copy that a tied head has in a pipeline.
        let copy = self.embedding.as_ref().filter(|embedding| embedding.is_tied);
        let embedding_parameters = (tables - copy.map_or(0.0, |tied| tied.vocabulary * self.width)) as u64;
        let of_layers = |each: fn(&LayerRun) -> u64| -> u64 {
            layers
                .iter()
                .map(|run| each(run) * (run.last - run.first + 1) as u64)
                .sum()
        };
        let predictors = self.embedding.iter().flat_map(|embedding| {
            let mut scope = scope;
            scope.norm = self.norm;
            let of_one = move |predictor: &Predictor| predictor.parameters(&scope, embedding) as u64;
            self.predictors.iter().map(of_one)
        });
        Summary {
            parameters: of_layers(|run| run.parameters) + embedding_parameters,
            active_parameters: of_layers(|run| run.active_parameters) + embedding_parameters,
            embedding_parameters,
            kv_bytes_per_token: of_layers(|run| run.kv_bytes_per_token),
            vision_parameters: self.tower.as_ref().map(|tower| tower.parameters(&scope)),
            mtp_parameters: (!self.predictors.is_empty()).then(|| predictors.sum()),
            layers,
        }
    }
}

/// The least that can be run: what a model has does not depend on it.
fn one_token(precision: Precision) -> Run {
    Run {
        written: None,
        sequence: 1.0,
        context: None,
        phase: None,
        micro_batch: 1.0,
        precision,
        attention: Attention::Flash,
        degrees: vec![1],
        sequence_parallel: false,
        granularity: Granularity::Block,
        micro_batches: None,
        spread: 0.0,
        seed: 0,
    }
}

fn total(block: &Block, scope: &Scope) -> Parameters {
    let operators = block.operators(scope);
    let sum = |each: fn(&Parameters) -> f64| operators.iter().map(|op| each(&op.parameters)).sum();
    Parameters {
        held: sum(|parameters| parameters.held),
        read: sum(|parameters| parameters.read),
        active: sum(|parameters| parameters.active),
    }
}

fn layer(block: &Block, number: usize, scope: &Scope, precision: Precision) -> LayerRun {
    let parameters = total(block, scope);
    let kept = block.mixer.as_ref().map_or(0.0, |mixer| mixer.kept_numbers());
    LayerRun {
        first: number,
        last: number,
        kind: block.kind,
        parameters: parameters.held as u64,
        active_parameters: parameters.active as u64,
        kv_bytes_per_token: (kept * precision.bytes()) as u64,
    }
}

impl LayerRun {
    fn is_like(&self, other: &Self) -> bool {
        let place = Self {
            first: other.first,
            last: other.last,
            ..self.clone()
        };
        place == *other
    }
}

impl Tower {
    fn parameters(&self, around: &Scope) -> u64 {
        let parts = self.parts(around);
        let operators = parts.iter().flat_map(|part| &part.operators);
        operators.map(|op| op.parameters.held).sum::<f64>() as u64
    }
}

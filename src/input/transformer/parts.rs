//! The parts of a model: what sees images, the tables of words, blocks, the head. Each is a list of operators.

use super::model::{Block, Embedding, Model, Norm, NormPlace, Predictor, Tower};
use super::modes::Again;
use super::operator::{Group, Kind, Operator, Parameters};
use super::{Attention, Run};

/// What the operators of a part are measured by.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    /// Width of the vectors that flow between blocks.
    pub width: f64,
    /// Sequences of a micro-batch.
    pub sequences: f64,
    /// Tokens of each.
    pub sequence: f64,
    /// Tokens before these that are in a cache.
    pub context: f64,
    pub norm: Norm,
    pub attention: Attention,
    pub trains: bool,
    /// Vectors of another sequence that blocks may attend to, for each of these.
    states: f64,
    precision_bytes: f64,
}

impl Scope {
    /// That of the blocks of words.
    pub(super) fn of_run(run: &Run, width: f64) -> Self {
        Self {
            width,
            sequences: run.micro_batch,
            sequence: run.sequence,
            context: run.context.unwrap_or(0.0),
            norm: Norm::Rms,
            attention: run.attention,
            trains: run.trains(),
            states: 0.0,
            precision_bytes: run.precision.bytes(),
        }
    }

    /// The same, of the other sequence.
    pub fn of_states(&self) -> Self {
        Self {
            sequence: self.states,
            context: 0.0,
            ..*self
        }
    }

    /// Tokens of a micro-batch.
    pub fn tokens(&self) -> f64 {
        self.sequence * self.sequences
    }

    /// Bytes of numbers.
    pub fn bytes(&self, numbers: f64) -> f64 {
        numbers * self.precision_bytes
    }

    /// Bytes of one vector of the width a token: what flows between blocks.
    pub fn state(&self) -> f64 {
        self.bytes(self.tokens() * self.width)
    }

    /// A product of so many vectors with a matrix of such sides.
    pub fn product_of(
        &self,
        vectors: f64,
        name: &'static str,
        reads: Vec<&'static str>,
        [inputs, outputs]: [f64; 2],
    ) -> Operator {
        let flops = 2.0 * vectors * inputs * outputs;
        Operator {
            parameters: Parameters::all(inputs * outputs),
            // Of its two products backward, the one for the parameters.
            weight: 1.0,
            ..Operator::product(name, reads, flops, self.bytes(vectors * outputs)).split()
        }
    }

    /// A product of every token with a matrix of such sides, and a bias where there is one.
    pub fn matrix(
        &self,
        name: &'static str,
        reads: Vec<&'static str>,
        sides: [f64; 2],
        has_bias: bool,
    ) -> Operator {
        let bias = if has_bias { sides[1] } else { 0.0 };
        Operator {
            parameters: Parameters::all(sides[0] * sides[1] + bias),
            ..self.product_of(self.tokens(), name, reads, sides)
        }
    }

    /// A normalisation of vectors of some width.
    pub fn norm(&self, name: &'static str, reads: Vec<&'static str>, width: f64) -> Operator {
        let numbers = self.tokens() * width;
        Operator {
            parameters: Parameters::all(self.norm.vectors() * width),
            backward: 2.0,
            ..Operator::plain(name, reads, 8.0 * numbers, self.bytes(numbers))
        }
    }
}

/// A part of the model.
pub(super) struct Part {
    /// Its name, which its layers begin with.
    pub name: String,
    /// What it is, for reports.
    pub kind: &'static str,
    /// The most that can be computed again.
    pub most: Again,
    pub operators: Vec<Operator>,
    pub inputs: Vec<Input>,
}

/// What a part reads of another.
pub(super) struct Input {
    /// How its operators call it.
    pub name: &'static str,
    /// The part whose last operator makes it; the network's own input has none.
    pub from: Option<usize>,
    pub bytes: f64,
}

/// The parts of a model, in order; those of the tower first, since what it sees goes in with the words.
pub(super) fn parts(model: &Model, run: &Run) -> Vec<Part> {
    let scope = Scope {
        norm: model.norm,
        states: model.tower.as_ref().map_or(0.0, |tower| tower.seen()),
        ..Scope::of_run(run, model.width)
    };
    // Behind a cache, what was seen is in it.
    let tower = model.tower.as_ref().filter(|_| run.trains());
    let mut parts = tower.map_or_else(Vec::new, |tower| tower.parts(&scope));
    let states = parts.len().checked_sub(1);
    if let Some(embedding) = &model.embedding {
        let operators = embedding.operators(&scope, states.is_some(), !model.predictors.is_empty());
        push(
            &mut parts,
            "embedding".into(),
            ("embedding", Again::Core),
            operators,
        );
    }
    let are_alike = model.blocks.windows(2).all(|pair| pair[0].kind == pair[1].kind);
    for (number, block) in model.blocks.iter().enumerate() {
        let kind = if are_alike { "block" } else { block.kind };
        push(
            &mut parts,
            format!("b{number}"),
            (kind, Again::Full),
            block.operators(&scope),
        );
        if let (true, Some(states), Some(part)) = (block.crosses(), states, parts.last_mut()) {
            part.inputs.push(Input {
                name: "states",
                from: Some(states),
                bytes: scope.of_states().state(),
            });
        }
    }
    if let Some(embedding) = &model.embedding {
        let predicted = predict(&mut parts, model, (embedding, &scope));
        let scope = Scope {
            sequence: run.told(),
            ..scope
        };
        let operators = embedding.head(&scope, predicted.len());
        push(&mut parts, "head".into(), ("head", Again::Core), operators);
        if let (Some(&first), Some(head)) = (predicted.first(), parts.last_mut()) {
            head.inputs[0].from = first.checked_sub(1);
            head.inputs.extend(predicted.into_iter().map(|from| Input {
                name: "predicted",
                from: Some(from),
                bytes: scope.state(),
            }));
        }
    }
    parts
}

/// Adds the layers that predict further tokens, and says where they are: each reads the one before, the first the last block.
///
/// Megatron counts what it computes again in blocks and leaves these out unless all blocks are: here they keep what they compute.
fn predict(parts: &mut Vec<Part>, model: &Model, (embedding, scope): (&Embedding, &Scope)) -> Vec<usize> {
    let add = |(number, predictor): (usize, &Predictor)| {
        let operators = predictor.operators(scope, embedding);
        push(parts, format!("mtp{number}"), ("mtp", Again::Nothing), operators);
        parts.len() - 1
    };
    model.predictors.iter().enumerate().map(add).collect()
}

/// A part that reads the one before.
fn push(parts: &mut Vec<Part>, name: String, (kind, most): (&'static str, Again), operators: Vec<Operator>) {
    let before = parts.last().and_then(|part| part.operators.last());
    let input = Input {
        name: "input",
        from: parts.len().checked_sub(1),
        // Bare blocks begin with what is as large as their output.
        bytes: before.or(operators.last()).map_or(0.0, |op| op.output_bytes),
    };
    parts.push(Part {
        name,
        kind,
        most,
        operators,
        inputs: vec![input],
    });
}

/// The most products between a tower and a model.
pub(crate) const MOST_PROJECTIONS: usize = 12;

/// The names of the operators around a part of a block.
struct Around {
    before: &'static str,
    behind: &'static str,
    sum: &'static str,
}

impl Block {
    /// The operators of the block, `input` standing for the output of the one before and `output` for its own.
    pub(super) fn operators(&self, scope: &Scope) -> Vec<Operator> {
        self.operators_behind(scope, "input")
    }

    /// The same behind an operator of another name.
    fn operators_behind(&self, scope: &Scope, mut from: &'static str) -> Vec<Operator> {
        let scope = &Scope {
            norm: self.norm,
            ..*scope
        };
        let mut operators = Vec::new();
        if let Some(mixer) = &self.mixer {
            let sum = if self.feed_forward.is_some() {
                "residual1"
            } else {
                "output"
            };
            let around = Around {
                before: "norm1",
                behind: "norm1_behind",
                sum,
            };
            self.add(scope, &mut operators, (from, &around), |reads| {
                (mixer.operators(scope, reads), vec!["project"])
            });
            from = sum;
        }
        if let Some(feed_forward) = &self.feed_forward {
            let around = Around {
                before: "norm2",
                behind: "norm2_behind",
                sum: "output",
            };
            self.add(scope, &mut operators, (from, &around), |reads| {
                feed_forward.operators(scope, reads)
            });
        }
        if operators.is_empty() {
            operators.push(Operator::sum("output", vec![from], 0.0, scope.state()));
        }
        operators
    }

    /// Adds a part of the block with its norms and the sum that ends it.
    fn add(
        &self,
        scope: &Scope,
        operators: &mut Vec<Operator>,
        (from, around): (&'static str, &Around),
        part: impl FnOnce(&'static str) -> (Vec<Operator>, Vec<&'static str>),
    ) {
        let mut reads = from;
        if self.place != NormPlace::Behind {
            operators.push(scope.norm(around.before, vec![from], scope.width));
            reads = around.before;
        }
        let (inner, mut outputs) = part(reads);
        operators.extend(inner);
        if self.place != NormPlace::Before {
            operators.push(scope.norm(around.behind, outputs, scope.width));
            outputs = vec![around.behind];
        }
        outputs.push(from);
        let gate = if self.has_gates { 1.0 } else { 0.0 };
        operators.push(Operator {
            parameters: Parameters::all(gate),
            ..Operator::sum(around.sum, outputs, scope.tokens() * scope.width, scope.state())
        });
    }
}

impl Embedding {
    /// The embedding of words, and of positions where they are learned: a look-up. What a tower saw takes the places of some words.
    ///
    /// The table is shared where the head is it, and where further predictions look words up as well.
    pub(super) fn operators(&self, scope: &Scope, is_seen: bool, is_read_again: bool) -> Vec<Operator> {
        let reads = if is_seen { vec!["input"] } else { Vec::new() };
        let numbers = [self.rows, self.positions].map(|rows| rows * scope.width);
        vec![Operator {
            parameters: Parameters::all(numbers[0] + numbers[1]),
            table: self.table(scope, self.is_tied || is_read_again),
            ..look_up(scope, "output", reads)
        }]
    }

    /// Numbers of the table of words, where it is shared.
    fn table(&self, scope: &Scope, is_shared: bool) -> f64 {
        match is_shared {
            true => self.vocabulary * scope.width,
            false => 0.0,
        }
    }

    /// The last normalisation, the product with all words, and the loss; with those of so many further predictions, whose vectors have been normalised.
    pub(super) fn head(&self, scope: &Scope, predicted: usize) -> Vec<Operator> {
        let vectors = scope.tokens() * (1.0 + predicted as f64);
        let logits = vectors * self.vocabulary;
        let reads = ["norm", "predicted"];
        let reads = reads[..1 + predicted.min(1)].to_vec();
        vec![
            scope.norm("norm", vec!["input"], scope.width),
            Operator {
                table: self.table(scope, self.is_tied),
                ..scope.product_of(vectors, "logits", reads, [scope.width, self.vocabulary])
            },
            Operator::plain("loss", vec!["logits"], 5.0 * logits, scope.bytes(1.0)).split(),
        ]
    }
}

/// Rows of a table, one for each token.
fn look_up(scope: &Scope, name: &'static str, reads: Vec<&'static str>) -> Operator {
    Operator {
        // Words have no gradient.
        backward: 2.0,
        weight: 2.0,
        kind: Kind::LookUp,
        group: Group::Reduced,
        ..Operator::plain(name, reads, scope.tokens() * scope.width, scope.state())
    }
}

impl Predictor {
    /// Norms of the state before and of the embedding of the next token, the product that joins them, the block, and the norm of the head.
    fn operators(&self, scope: &Scope, embedding: &Embedding) -> Vec<Operator> {
        let width = scope.width;
        let table = embedding.vocabulary * width;
        let joined = scope.matrix(
            "join",
            vec!["norm_state", "norm_words"],
            [2.0 * width, width],
            false,
        );
        let mut operators = vec![
            Operator {
                parameters: Parameters::all(table),
                table,
                ..look_up(scope, "words", Vec::new())
            },
            scope.norm("norm_words", vec!["words"], width),
            scope.norm("norm_state", vec!["input"], width),
            joined.reduced(),
        ];
        operators.extend(self.block.operators_behind(scope, "join"));
        if let Some(last) = operators.last_mut() {
            last.name = "predicted";
        }
        operators.push(scope.norm("output", vec!["predicted"], width));
        operators
    }

    /// Parameters that are its own: not the table of words.
    pub(super) fn parameters(&self, scope: &Scope, embedding: &Embedding) -> f64 {
        let own = |op: &Operator| op.parameters.held - op.table;
        self.operators(scope, embedding).iter().map(own).sum()
    }
}

impl Tower {
    /// Vectors of an image that come out of it.
    fn seen(&self) -> f64 {
        self.projections.last().map_or(self.tokens, |last| last.tokens)
    }

    /// The parts of the tower, for one image a sequence.
    pub(super) fn parts(&self, around: &Scope) -> Vec<Part> {
        let mut parts = Vec::new();
        let scope = Scope {
            width: self.width,
            sequence: self.tokens,
            context: 0.0,
            ..*around
        };
        let patches = scope.matrix("output", Vec::new(), [self.patch, self.width], false);
        let patches = Operator {
            parameters: Parameters::all(patches.parameters.held + self.tables),
            ..patches.whole()
        };
        push(
            &mut parts,
            "vision.patches".into(),
            ("patches", Again::Core),
            vec![patches],
        );
        for (number, block) in self.blocks.iter().enumerate() {
            let name = format!("vision.b{number}");
            push(&mut parts, name, ("vision", Again::Full), block.operators(&scope));
        }
        push(
            &mut parts,
            "vision.projector".into(),
            ("projector", Again::Core),
            self.projector(&scope),
        );
        parts
    }

    /// What brings the tower's output to the width of the model: every product reads the one before.
    fn projector(&self, scope: &Scope) -> Vec<Operator> {
        const NAMES: [&str; MOST_PROJECTIONS - 1] = [
            "project1",
            "project2",
            "project3",
            "project4",
            "project5",
            "project6",
            "project7",
            "project8",
            "project9",
            "project10",
            "project11",
        ];
        let mut operators = vec![Operator {
            parameters: Parameters::all(self.norms),
            ..scope.norm("norm", vec!["input"], self.width)
        }];
        let last = self.projections.len().saturating_sub(1);
        let mut from = "norm";
        for (at, projection) in self.projections.iter().enumerate() {
            let name = if at == last { "output" } else { NAMES[at] };
            let vectors = scope.sequences * projection.tokens;
            let bias = if projection.has_bias {
                projection.outputs
            } else {
                0.0
            };
            let product =
                scope.product_of(vectors, name, vec![from], [projection.inputs, projection.outputs]);
            operators.push(Operator {
                parameters: Parameters::all(product.parameters.held + bias + projection.norm),
                ..product.whole()
            });
            from = name;
        }
        operators
    }
}

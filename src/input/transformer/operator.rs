//! Operators: what a part of a model computes, in the order in which it does.

/// An operator: its name, what it reads, FLOPs, bytes of its output, its parameters.
pub(super) struct Operator {
    pub name: &'static str,
    pub reads: Vec<&'static str>,
    pub flops: f64,
    /// Of these, the FLOPs that the model asks for however it is computed: those of matrix products.
    pub model_flops: f64,
    pub output_bytes: f64,
    pub parameters: Parameters,
    /// Of the parameters held, those of a table that another part reads as well.
    pub table: f64,
    /// Of how many experts it is a part, or to how many it hands tokens, which devices may share out; 0 of what else there is.
    pub experts: f64,
    /// What it reads of earlier tokens: their keys and values, or the state they left.
    pub cache: Cache,
    /// How many times the FLOPs of the forward pass the backward one takes.
    pub backward: f64,
    /// How many of these are gradients of parameters, for which no operator waits.
    pub weight: f64,
    pub kind: Kind,
    pub group: Group,
    /// Whether selective recomputation computes it again.
    pub is_core: bool,
    /// Whether it takes more behind more tokens: attention without a window.
    pub grows: bool,
    /// How often its output holds each vector that it reads: as often as a token has experts. Backward these are added up again.
    pub copies: f64,
}

/// Numbers of parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parameters {
    /// All that are held.
    pub held: f64,
    /// Those that a micro-batch reads: of experts, those that its tokens go to.
    pub read: f64,
    /// Those that one token reads.
    pub active: f64,
}

impl Parameters {
    /// Parameters that every token reads.
    pub fn all(numbers: f64) -> Self {
        Self {
            held: numbers,
            read: numbers,
            active: numbers,
        }
    }
}

/// What is kept of earlier tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cache {
    /// Bytes that a pass reads of it.
    pub bytes: f64,
    /// Bytes of each token.
    pub token_bytes: f64,
    /// Bytes of each sequence, however long.
    pub sequence_bytes: f64,
    /// Whether each device of a tensor group has all of it, as of latent vectors that all heads share.
    pub is_whole: bool,
}

impl Cache {
    /// Half of it, for one of two operators.
    pub fn half(self) -> Self {
        Self {
            bytes: self.bytes / 2.0,
            token_bytes: self.token_bytes / 2.0,
            sequence_bytes: self.sequence_bytes / 2.0,
            ..self
        }
    }
}

/// What moves through memory in the passes of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A product: backward, one product more for each operand.
    Product,
    /// Rows of a table.
    LookUp,
    /// A sum, whose terms all have the gradient of its output.
    Sum,
    /// Backward, it reads its inputs again.
    OfInputs,
    /// Backward, it reads inputs and output again.
    OfInputsAndOutput,
}

/// What a tensor group does with an operator (M. Shoeybi et al., *Megatron-LM*, 2019, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    /// Each device does all of it, or a part of the sequence.
    Whole,
    /// Each device does a part of it, and has that part of its output.
    Split,
    /// Each device does a part of it, and the outputs are summed up.
    Reduced,
}

impl Operator {
    /// An operator without parameters.
    pub fn plain(name: &'static str, reads: Vec<&'static str>, flops: f64, output_bytes: f64) -> Self {
        Self {
            name,
            reads,
            flops,
            model_flops: 0.0,
            output_bytes,
            parameters: Parameters::default(),
            table: 0.0,
            experts: 0.0,
            cache: Cache::default(),
            backward: 1.0,
            weight: 0.0,
            kind: Kind::OfInputs,
            group: Group::Whole,
            is_core: false,
            grows: false,
            copies: 1.0,
        }
    }

    /// A product of what it reads.
    pub fn product(name: &'static str, reads: Vec<&'static str>, flops: f64, output_bytes: f64) -> Self {
        Self {
            model_flops: flops,
            backward: 2.0,
            kind: Kind::Product,
            ..Self::plain(name, reads, flops, output_bytes)
        }
    }

    /// A sum of what it reads.
    pub fn sum(name: &'static str, reads: Vec<&'static str>, flops: f64, output_bytes: f64) -> Self {
        Self {
            kind: Kind::Sum,
            ..Self::plain(name, reads, flops, output_bytes)
        }
    }

    /// The same, a part on each device of a group.
    pub fn split(self) -> Self {
        Self {
            group: Group::Split,
            ..self
        }
    }

    /// The same, a part on each device of a group, with outputs to sum up.
    pub fn reduced(self) -> Self {
        Self {
            group: Group::Reduced,
            ..self
        }
    }

    /// The same, all of it on each device of a group.
    pub fn whole(self) -> Self {
        Self {
            group: Group::Whole,
            ..self
        }
    }

    /// The same, computed again where recomputation is selective.
    pub fn core(self) -> Self {
        Self {
            is_core: true,
            ..self
        }
    }
}

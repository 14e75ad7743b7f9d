//! What training keeps for each parameter: its weight, its gradient and the state of the optimiser, in which precision, and on how many
//! devices. `formulations/memory.md` has the table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::named_values::named_values;
use crate::model::precision::Precision;
use crate::model::region::KeptStates;

named_values! {
    /// Numbers that training keeps for each parameter.
    StatePrecision {
        /// Weight, gradient and states of the optimiser as the network has its parameters.
        Uniform = "uniform",
        /// All of them in single precision.
        Fp32 = "fp32",
        /// Weight in bfloat16; gradient, a further weight and states of the optimiser in single precision.
        Bf16Mixed = "bf16-mixed",
        /// Weight and gradient in half precision; a further weight and states of the optimiser in single precision.
        Fp16Mixed = "fp16-mixed",
    }
}

impl StatePrecision {
    /// What training in these numbers keeps.
    pub(crate) fn default_of(network: Option<Precision>) -> Self {
        match network {
            Some(Precision::Bf16) => Self::Bf16Mixed,
            Some(Precision::Fp16) => Self::Fp16Mixed,
            _ => Self::Uniform,
        }
    }
}

named_values! {
    /// The optimiser, for the memory of its state.
    Optimizer {
        /// No state.
        Sgd = "sgd",
        /// One number a parameter.
        Momentum = "momentum",
        /// Two numbers a parameter.
        Adam = "adam",
    }
}

impl Optimizer {
    /// Numbers kept for each parameter.
    pub fn states_per_parameter(self) -> u64 {
        match self {
            Self::Sgd => 0,
            Self::Momentum => 1,
            Self::Adam => 2,
        }
    }
}

named_values! {
    /// What the replicas of a stage share out of what training keeps (S. Rajbhandari et al., *ZeRO*, SC 2020).
    OptimizerSharding {
        /// Nothing: each replica has all of it.
        None = "none",
        /// The state of the optimiser, further weights in single precision among it.
        Zero1 = "zero1",
        /// Gradients too, which are brought together behind every micro-batch.
        Zero2 = "zero2",
        /// Weights too, which are gathered layer by layer in every pass.
        Zero3 = "zero3",
    }
}

named_values! {
    /// Whose optimiser's state lies at the hosts of their devices between iterations (J. Ren et al., *ZeRO-Offload*, USENIX ATC 2021).
    OptimizerOffload {
        /// Nobody's.
        None = "none",
        /// That of every stage.
        All = "all",
        /// That of any stages.
        Choose = "choose",
    }
}

impl OptimizerOffload {
    /// Whether it lies at the host, in every way that a stage may have it.
    pub(crate) fn places(self) -> &'static [bool] {
        match self {
            Self::None => &[false],
            Self::All => &[true],
            Self::Choose => &[false, true],
        }
    }
}

impl OptimizerSharding {
    /// Whether replicas share out weights, gradients, and the state of the optimiser.
    pub(crate) fn shares_out(self) -> [bool; 3] {
        match self {
            Self::None => [false, false, false],
            Self::Zero1 => [false, false, true],
            Self::Zero2 => [false, true, true],
            Self::Zero3 => [true, true, true],
        }
    }

    /// Whether replicas exchange something in every micro-batch.
    pub(crate) fn exchanges_each_time(self) -> bool {
        self.rounds_a_pass() != [0, 0]
    }

    /// How often the bytes of all gradients go round among replicas once an iteration: to be summed, and to bring back what is made of the sums.
    pub(crate) fn rounds_an_iteration(self) -> u64 {
        match self {
            Self::None | Self::Zero1 => 2,
            Self::Zero2 => 1,
            Self::Zero3 => 0,
        }
    }

    /// How often they do in a forward and in a backward pass: weights are gathered, and gradients scattered.
    pub(crate) fn rounds_a_pass(self) -> [u64; 2] {
        match self {
            Self::None | Self::Zero1 => [0, 0],
            Self::Zero2 => [0, 1],
            Self::Zero3 => [1, 2],
        }
    }
}

/// What a plan's memory counts otherwise than a framework keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnlikeStates {
    /// Numbers of these bits, for gradients and states of the optimiser.
    Precision(Precision),
    /// Those of this optimiser.
    Optimizer(Optimizer),
}

impl KeptStates {
    /// What training so keeps that the framework does not, if there is something.
    pub(crate) fn unlike(
        self,
        optimizer: Optimizer,
        precision: StatePrecision,
        network: Option<Precision>,
    ) -> Option<UnlikeStates> {
        let uniform = network.filter(|_| precision == StatePrecision::Uniform);
        match (self, optimizer, uniform) {
            (Self::Mixed, _, Some(half @ (Precision::Bf16 | Precision::Fp16)))
            | (Self::Adam, Optimizer::Adam, Some(half @ Precision::Fp16)) => {
                Some(UnlikeStates::Precision(half))
            }
            (Self::Adam, Optimizer::Sgd | Optimizer::Momentum, _) => Some(UnlikeStates::Optimizer(optimizer)),
            _ => None,
        }
    }
}

/// Bytes that are kept for a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateBytes {
    /// The weight.
    pub weight: u64,
    /// The gradient.
    pub gradient: u64,
    /// The state of the optimiser, with a weight in single precision beside one in 16 bits.
    pub optimizer: u64,
    /// For so many bytes of the parameter in the file.
    pub of: u64,
}

impl StateBytes {
    /// What inference keeps.
    pub(crate) const INFERENCE: Self = Self {
        weight: 1,
        gradient: 0,
        optimizer: 0,
        of: 1,
    };

    /// What training keeps. A network that does not say what its parameters are is taken to have the weights of the policy.
    pub(crate) fn training(
        precision: StatePrecision,
        optimizer: Optimizer,
        network: Option<Precision>,
    ) -> Self {
        let states = optimizer.states_per_parameter();
        let (weight, gradient, optimizer) = match precision {
            StatePrecision::Uniform => {
                return Self {
                    weight: 1,
                    gradient: 1,
                    optimizer: states,
                    of: 1,
                };
            }
            StatePrecision::Fp32 => (4, 4, 4 * states),
            StatePrecision::Bf16Mixed => (2, 4, 4 + 4 * states),
            StatePrecision::Fp16Mixed => (2, 2, 4 + 4 * states),
        };
        Self {
            weight,
            gradient,
            optimizer,
            of: network.map_or(weight, Precision::bytes),
        }
    }

    /// Bytes of weights and gradients of parameters that take so many bytes in the file.
    pub(crate) fn held(self, parameter_bytes: u64) -> u64 {
        (parameter_bytes * (self.weight + self.gradient)).div_ceil(self.of)
    }

    /// Bytes of weights, gradients, and the optimiser's state.
    pub(crate) fn parts(self, parameter_bytes: u64) -> [u64; 3] {
        let weights = (parameter_bytes * self.weight).div_ceil(self.of);
        let held = self.held(parameter_bytes);
        [weights, held - weights, self.of_optimizer(parameter_bytes)]
    }

    /// Bytes of the optimiser's state.
    pub(crate) fn of_optimizer(self, parameter_bytes: u64) -> u64 {
        (parameter_bytes * self.optimizer).div_ceil(self.of)
    }

    /// All of it.
    pub(crate) fn all(self, parameter_bytes: u64) -> u64 {
        self.held(parameter_bytes) + self.of_optimizer(parameter_bytes)
    }
}

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
    /// Whether the replicas of a stage share out the state of the optimiser.
    OptimizerSharding {
        /// Each replica has all of it.
        None = "none",
        /// Each replica has an equal part of it, further weights in single precision among it (S. Rajbhandari et al., *ZeRO*, SC 2020,
        /// stage 1).
        Zero1 = "zero1",
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

    /// Bytes of the optimiser's state.
    pub(crate) fn of_optimizer(self, parameter_bytes: u64) -> u64 {
        (parameter_bytes * self.optimizer).div_ceil(self.of)
    }

    /// All of it.
    pub(crate) fn all(self, parameter_bytes: u64) -> u64 {
        self.held(parameter_bytes) + self.of_optimizer(parameter_bytes)
    }
}

//! Precision: the numbers that a network computes with, and those for which a device's arithmetic rate holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::named_values::named_values;

named_values! {
    /// A format of numbers.
    Precision {
        /// IEEE 754 double precision, 8 bytes.
        Fp64 = "fp64",
        /// IEEE 754 single precision, 4 bytes, without tensor cores.
        Fp32 = "fp32",
        /// Single precision in memory, rounded to 10 bits of mantissa on tensor cores; 4 bytes.
        Tf32 = "tf32",
        /// IEEE 754 half precision, 2 bytes.
        Fp16 = "fp16",
        /// Half precision with the exponent of single precision, 2 bytes.
        Bf16 = "bf16",
        /// Eight-bit floating point, 1 byte.
        Fp8 = "fp8",
        /// Eight-bit integers, 1 byte.
        Int8 = "int8",
    }
}

impl Precision {
    /// Bytes of a number.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Fp64 => 8,
            Self::Fp32 | Self::Tf32 => 4,
            Self::Fp16 | Self::Bf16 => 2,
            Self::Fp8 | Self::Int8 => 1,
        }
    }

    /// Whether data sheets state the same peak for both: formats of 16 bits have the same on tensor cores.
    pub fn has_rates_of(self, other: Self) -> bool {
        let has_16_bits = |precision| matches!(precision, Self::Fp16 | Self::Bf16);
        self == other || has_16_bits(self) && has_16_bits(other)
    }
}

//! Instances made to measure: the same parameters and seed give the same instance.

pub mod transformer;

//! What plans of interest keep, as boundaries see it.

/// What the plans of interest keep.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most ns of the busiest stage.
    pub bottleneck_ns: u64,
    /// Least ns of the busiest stage.
    pub least_bottleneck_ns: u64,
    /// Most ns of the objective; `u64::MAX` without an incumbent.
    pub objective_ns: u64,
}

//! From options to a checked plan, and what is asked around it: all methods, stages of somebody else, programs for other solvers, curves
//! over one option, the least memory, and what would help where there is no plan.

#[cfg(feature = "cli")]
pub mod calibrate;
#[cfg(feature = "cli")]
mod confirmation;
pub(crate) mod error;
pub mod evaluate;
pub(crate) mod formulate;
#[cfg(feature = "cli")]
pub mod global_batch;
#[cfg(feature = "cli")]
pub mod least_memory;
pub mod methods;
#[cfg(feature = "cli")]
pub mod narrower;
pub mod planning;
pub mod posed;
#[cfg(feature = "cli")]
pub mod remedies;
mod unrestricted;
pub mod what_if;

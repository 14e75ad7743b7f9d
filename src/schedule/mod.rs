//! Schedules as data: in which order every device runs the passes of its chunks, rules that produce such orders, and what
//! becomes of an order when it is run.
//!
//! A pipeline is a row of *chunks*. Every micro-batch passes them forwards, then backwards. The backward pass of a chunk may be
//! split into the gradient of its input, which the chunk before waits for, and the gradient of its weights, which nobody waits
//! for (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024). A device may hold several chunks, which are its *virtual
//! stages* (Narayanan et al., SC 2021). [`crate::model::schedule::Schedule`] is the option of a planning problem; an [`Order`] is what
//! devices do.
//!
//! Three chunks on three devices, two micro-batches, 1F1B: device 0 runs `0F0 0F1 0B0 0B1`, device 2 `2F0 2B0 2F1 2B1`. An
//! operation is written as PyTorch writes it: chunk, phase, micro-batch, counted from 0.

mod from_plan;
mod laid;
mod memory;
mod pattern;
mod run;
pub mod simulate;
mod torch_csv;

pub use crate::model::schedule::*;
pub use crate::problem::pipeline::Moves;
pub(crate) use crate::problem::pipeline::chunks_of_pipeline;
pub use from_plan::{busy_link, chunks_of_plan, chunks_that_run};
pub use laid::laid_on;
pub use memory::{knows_memory, take_memory};
pub use pattern::{Pattern, PatternFault};
#[doc(hidden)]
pub use run::{OrderFault, Ran, Times, Wait, run, run_with};
#[doc(hidden)]
pub use torch_csv::read_order;

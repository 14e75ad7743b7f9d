//! The best schedule of a pipeline that is cut and placed, with a proof.
//!
//! | to find | call |
//! |---|---|
//! | a pattern of least peak, or of least period within the room of the devices | [`cyclic`] |
//! | the shortest iteration of M micro-batches within that room | [`iteration`] |

pub mod answer;
pub mod cyclic;
pub mod iteration;
mod patterns;

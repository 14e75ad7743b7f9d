//! From files to an instance: formats, faults and where they are, generated networks, assumptions.

#[path = "../common/mod.rs"]
mod common;
#[path = "../oracles/mod.rs"]
mod oracles;

mod assumptions;
mod broken;
mod broken_files;
mod configurations;
mod corpus;
mod extremes;
mod formats;
mod generate;
mod importers;
mod onnx;
mod onnx_bodies;
mod onnx_fused;
mod onnx_models;
#[cfg(feature = "onnx")]
mod onnx_written;
mod profiles;
mod rooflines;

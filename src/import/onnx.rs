//! ONNX.
use super::{Imported, Source};
/// Reads.
pub fn read(_source: &Source) -> Imported {
    unimplemented!()
}

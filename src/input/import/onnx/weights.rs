//! Constants of the file: what they claim against what is there.

use std::path::{Component, Path, PathBuf};

use tract_onnx::pb::TensorProto;
use tract_onnx::pb::tensor_proto::{DataLocation, DataType};

use super::size::{TensorSize, element, for_tract};
use crate::input::import::reach;
use crate::input::intake;
use crate::model::fault::{Fault, FaultKind};
use crate::model::units::LARGEST_EXACT;

/// Constants of at most this many elements keep their values, since shapes may depend on them (a target shape, the axes
/// of a slice); of larger ones, weights in practice, only the size matters.
pub(super) const VALUES_KEPT: f64 = 1024.0;

/// Checks a constant and returns its size. Afterwards its data are inside the message where they are few, and gone
/// otherwise, so that nobody can be led to allocate what the dimensions claim.
pub(super) fn check(tensor: &mut TensorProto, at: &str, model: &Path) -> Result<TensorSize, Fault> {
    let Some((element_bytes, floating)) = element(tensor.data_type) else {
        return Err(unsupported_type(at, tensor.data_type));
    };
    if let Some(&dim) = tensor.dims.iter().find(|dim| **dim < 0) {
        return Err(Fault::new(
            format!("{at}, dims"),
            FaultKind::BadNumber {
                found: dim as f64,
                expected: "a length of at least 0",
            },
        ));
    }
    let size = TensorSize {
        dims: tensor.dims.iter().map(|&dim| dim as usize).collect(),
        element_bytes,
        floating,
    };
    if size.bytes() > LARGEST_EXACT as f64 {
        return Err(Fault::new(
            at,
            FaultKind::Overflow {
                most: LARGEST_EXACT,
                found: size.bytes(),
                unit: "bytes",
            },
        ));
    }
    let few = size.elements() <= VALUES_KEPT;
    let external = tensor.data_location == Some(DataLocation::External as i32) && tensor.raw_data.is_empty();
    if external {
        read_external(tensor, &size, at, model, few)?;
    } else if present(tensor, element_bytes) != size.elements() {
        return Err(Fault::new(
            at,
            FaultKind::Contradiction {
                found: format!(
                    "dimensions {:?} and data of {} elements",
                    tensor.dims,
                    present(tensor, element_bytes)
                )
                .into(),
                expected: "as many elements as the dimensions say".into(),
            },
        ));
    }
    if !few {
        *tensor = TensorProto {
            name: std::mem::take(&mut tensor.name),
            dims: std::mem::take(&mut tensor.dims),
            data_type: tensor.data_type,
            ..Default::default()
        };
    }
    tensor.data_type = for_tract(tensor.data_type);
    Ok(size)
}

/// A fault for element types without a known size.
pub(super) fn unsupported_type(at: &str, data_type: i32) -> Fault {
    let found = match DataType::try_from(data_type) {
        Ok(known) => format!("element type {}", known.as_str_name()),
        Err(_) => format!("element type number {data_type}"),
    };
    Fault::new(
        at,
        FaultKind::Unsupported {
            found: found.into(),
            expected: "floating-point numbers of 16 to 64 bits, integers of 8 to 64 bits, or bool".into(),
        },
    )
}

/// Elements that the message itself holds.
fn present(tensor: &TensorProto, element_bytes: f64) -> f64 {
    if !tensor.raw_data.is_empty() {
        return tensor.raw_data.len() as f64 / element_bytes;
    }
    let typed = match DataType::try_from(tensor.data_type) {
        Ok(DataType::Float) => tensor.float_data.len(),
        Ok(DataType::Double) => tensor.double_data.len(),
        Ok(DataType::String) => tensor.string_data.len(),
        Ok(DataType::Int64) => tensor.int64_data.len(),
        Ok(DataType::Uint32 | DataType::Uint64) => tensor.uint64_data.len(),
        _ => tensor.int32_data.len(),
    };
    typed as f64
}

/// Checks that a file beside the model holds the data, and reads them where they are few.
fn read_external(
    tensor: &mut TensorProto,
    size: &TensorSize,
    at: &str,
    model: &Path,
    few: bool,
) -> Result<(), Fault> {
    let entry = |key: &str| tensor.external_data.iter().find(|entry| entry.key == key);
    let location = entry("location").map_or("", |entry| entry.value.as_str());
    let path = file_beside(model, location).ok_or_else(|| {
        Fault::new(
            at,
            FaultKind::Contradiction {
                found: format!("external data in `{location}`").into(),
                expected: "a relative path inside the model's folder".into(),
            },
        )
    })?;
    reach::refuse_outside(model, location, &path).map_err(|kind| Fault::new(at, kind))?;
    let offset = match entry("offset") {
        None => 0,
        Some(entry) => entry.value.parse::<u64>().map_err(|_| {
            Fault::new(
                at,
                FaultKind::Syntax {
                    found: format!("the offset `{}` of external data", entry.value),
                    expected: "a whole number of bytes".into(),
                },
            )
        })?,
    };
    let missing = |what: String| {
        Fault::new(
            at,
            FaultKind::Missing {
                what,
                expected: format!("{} bytes of `{location}` from byte {offset}", size.bytes()).into(),
                remedy: "put the model's data files beside it".into(),
            },
        )
    };
    let unread = |error: std::io::Error| missing(format!("external data ({error})"));
    let length = intake::length(&path).map_err(unread)?;
    if (length.saturating_sub(offset) as f64) < size.bytes() {
        return Err(missing(format!("external data beyond byte {length}")));
    }
    if few {
        let part = intake::read_part(&path, (offset, size.bytes() as usize)).map_err(unread)?;
        tensor.raw_data = part.ok_or_else(|| missing("external data any more".into()))?;
        tensor.external_data.clear();
        tensor.data_location = None;
    }
    Ok(())
}

/// A path below the folder of a model; `None` for one that leads out of it in so many words.
fn file_beside(model: &Path, location: &str) -> Option<PathBuf> {
    let path = Path::new(location);
    let inside = |part: Component| matches!(part, Component::Normal(_) | Component::CurDir);
    (!location.is_empty() && path.components().all(inside)).then(|| model.with_file_name(path))
}

//! Reading recorded states.

use std::path::Path;

use serde::Deserialize;

use super::spec::{QUANTITIES, Quantity};
use super::states::Recorded;
use super::validate::factor_fault;
use crate::input::intake;
use crate::input::source::{Source, table};
use crate::model::fault::{Fault, FaultKind, closest};
use crate::problem::hybrid::Device;

/// The columns of a trace of states.
pub(crate) const COLUMNS: &[&str] = &["slot", "device", "quantity", "factor"];

/// What stands for the backbone in the column `device`.
const BACKBONE: &str = "backbone";

/// Reads a trace for devices by name, in rising order of slots.
///
/// # Errors
///
/// Every fault, with its line and column.
pub(super) fn read(path: &Path, devices: &[Device]) -> Result<Vec<Recorded>, Vec<Fault>> {
    #[derive(Deserialize)]
    struct Row {
        slot: usize,
        device: String,
        quantity: String,
        factor: f64,
    }
    let bytes = intake::read(path).map_err(|error| vec![Fault::unreadable(path, &error)])?;
    let source = Source { path, bytes: &bytes };
    let rows: Vec<(u64, Row)> = table::commented_rows(source.text()?, COLUMNS)?;
    let (mut faults, mut recorded) = (Vec::new(), Vec::<Recorded>::new());
    let mut last_slot = 0;
    let names = devices.iter().map(|device| device.name.clone());
    let known: Vec<String> = names.chain([BACKBONE.into()]).collect();
    for (line, row) in rows {
        let at = |column: &str| format!("line {line}, column `{column}`");
        let quantity = QUANTITIES.iter().find(|(name, _)| *name == row.quantity);
        let device = known.iter().position(|name| *name == row.device);
        match (quantity, device) {
            (None, _) => faults.push(Fault::new(
                at("quantity"),
                FaultKind::UnknownValue {
                    found: row.quantity,
                    known: QUANTITIES.iter().map(|(name, _)| (*name).to_owned()).collect(),
                },
            )),
            (_, None) => faults.push(Fault::new(
                at("device"),
                FaultKind::UnknownName {
                    what: "device",
                    similar: closest(&row.device, &known).map(str::to_owned),
                    name: row.device,
                },
            )),
            (Some(&(_, of)), Some(position)) => {
                let is_backbone = position == devices.len();
                if is_backbone != (of == Quantity::Backbone) {
                    let found = format!("`{}` of `{}`", row.quantity, row.device).into();
                    let expected = "`backbone` of `backbone`, and every other quantity of a device".into();
                    faults.push(Fault::new(
                        at("device"),
                        FaultKind::Contradiction { found, expected },
                    ));
                }
                if let Some(kind) = factor_fault(of, row.factor) {
                    faults.push(Fault::new(at("factor"), kind));
                }
                if row.slot < last_slot {
                    let found = format!("slot {}, after slot {last_slot}", row.slot).into();
                    let expected = "slots in rising order".into();
                    faults.push(Fault::new(
                        at("slot"),
                        FaultKind::Contradiction { found, expected },
                    ));
                }
                last_slot = row.slot;
                recorded.push(Recorded {
                    slot: row.slot,
                    of,
                    devices: if is_backbone { vec![] } else { vec![position] },
                    factor: row.factor,
                });
            }
        }
    }
    if faults.is_empty() {
        Ok(recorded)
    } else {
        Err(faults)
    }
}

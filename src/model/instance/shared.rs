//! Tables that layers share: of one size in all of them, at every tensor degree.

use std::collections::BTreeSet;

use super::build::Checks;
use crate::model::fault::FaultKind;
use crate::model::network::{Layer, LayerMode, Network, SharedTable};
use crate::model::units::whole;

impl Checks {
    /// Bytes of the table that a layer or a mode of it shares, which are all of its parameters where it says nothing else.
    pub(super) fn shared_size(
        &mut self,
        at: &str,
        (said, parameters): (Option<f64>, f64),
        name: Option<&str>,
    ) -> u64 {
        let mut refuse = |found: String, expected: &str| {
            let (found, expected) = (found.into(), expected.to_owned().into());
            let kind = FaultKind::Contradiction { found, expected };
            self.add(format!("{at}.shared_bytes"), kind);
            0
        };
        match (name, said) {
            (None, None) => 0,
            (None, Some(_)) => refuse(
                "the bytes of a table without a name".into(),
                "`shared`, the name of the table, beside them",
            ),
            (Some(_), Some(bytes)) if !(bytes >= 0.0 && bytes <= parameters) => refuse(
                format!("{bytes} of the {parameters} bytes of `parameter_bytes`"),
                "at least 0 and at most `parameter_bytes`, which includes the table",
            ),
            // A size that is none has been told as that of the parameters.
            (Some(_), bytes) => whole(bytes.unwrap_or(parameters)).unwrap_or(0),
        }
    }

    /// Gives tables to layers that share one and say no bytes, and tells what differs.
    pub(super) fn shared(&mut self, network: &mut Network) {
        for table in network.shared_tables() {
            let own = || table.layers.iter().map(|&at| &network.layers[at]);
            let mut differs = |found: String, expected: &str| {
                let (found, expected) = (found.into(), expected.to_owned().into());
                let kind = FaultKind::Contradiction { found, expected };
                self.add(format!("shared table `{}`", table.name), kind);
            };
            if own().any(|layer| layer.frozen != network.layers[table.layers[0]].frozen) {
                differs("`frozen` in some of its layers".into(), "the same in all of them");
            }
            if own().any(|layer| layer.backward) {
                differs("a backward operator".into(), "the forward layers that read it");
            }
            let lacks = |mode: &LayerMode| mode.gradient_bytes < mode.shared_bytes;
            if own().any(|layer| layer.modes.iter().any(lacks)) {
                differs(
                    "fewer `gradient_bytes` than the table has".into(),
                    "gradients of the table among them",
                );
            }
            let degrees: BTreeSet<usize> = own()
                .flat_map(|layer| &layer.modes)
                .map(|mode| mode.tensor)
                .collect();
            for degree in std::iter::once(None).chain(degrees.into_iter().map(Some)) {
                if let Some([less, more]) = fill(network, &table, degree) {
                    let found = format!("{less} bytes in one layer, {more} in another");
                    differs(
                        found,
                        "one size; `shared_bytes` tells a table from other parameters",
                    );
                    break;
                }
            }
        }
    }
}

/// Gives layers of a table that say no parameters its bytes: on one device that keeps everything, or in their modes of a degree. Two sizes of
/// others that differ, if some do.
fn fill(network: &mut Network, table: &SharedTable, degree: Option<usize>) -> Option<[u64; 2]> {
    let own = |network: &Network| -> Vec<u64> {
        let layers = table.layers.iter().map(|&at| &network.layers[at]);
        layers.flat_map(|layer| sizes(layer, degree)).collect()
    };
    let most = own(network).into_iter().max().unwrap_or(0);
    for &at in &table.layers {
        let layer = &mut network.layers[at];
        if degree.is_none() && layer.parameter_bytes == 0 {
            (layer.parameter_bytes, layer.shared_bytes) = (most, most);
        }
        let modes = layer.modes.iter_mut().filter(|mode| Some(mode.tensor) == degree);
        for mode in modes.filter(|mode| mode.parameter_bytes == 0) {
            (mode.parameter_bytes, mode.gradient_bytes, mode.shared_bytes) = (most, most, most);
        }
    }
    let other = own(network).into_iter().find(|&bytes| bytes != most);
    other.map(|less| [less, most])
}

fn sizes(layer: &Layer, degree: Option<usize>) -> Vec<u64> {
    let modes = layer.modes.iter().filter(|mode| Some(mode.tensor) == degree);
    match degree {
        None => vec![layer.shared_bytes],
        Some(_) => modes.map(|mode| mode.shared_bytes).collect(),
    }
}

//! Constraints of one's own: layers that there are, and problems whose searches know them.

use super::Settings;
use crate::model::fault::{Fault, FaultKind, closest};
use crate::model::instance::Instance;
use crate::model::network::Unfit;
use crate::model::options::Cuts;
use crate::model::setting;
use crate::model::words::{Words, words};

impl Settings {
    /// What is wrong with constraints.
    pub(super) fn constraint_faults(&self, instance: &Instance) -> Vec<Fault> {
        let layers = &instance.network.layers;
        let mut faults = Vec::new();
        for (at, constraint) in self.constraints.iter().enumerate() {
            let place = format!("{}[{at}].{}", setting::CONSTRAINTS.field(), constraint.name());
            for name in constraint.layers() {
                let is_known = layers.iter().any(|layer| layer.id == *name && !layer.backward);
                if !is_known {
                    let names: Vec<String> = layers.iter().map(|layer| layer.id.clone()).collect();
                    let kind = FaultKind::UnknownName {
                        what: "layer of forward propagation",
                        name: name.clone(),
                        similar: closest(name, &names).map(str::to_owned),
                    };
                    faults.push(Fault::new(place.clone(), kind));
                }
            }
            if !faults.is_empty() {
                continue;
            }
            let mut refuse = |found: Words, expected: Words| {
                faults.push(Fault::new(
                    place.clone(),
                    FaultKind::Contradiction { found, expected },
                ));
            };
            match instance.network.laid_out_by(constraint) {
                Ok(_) => {}
                Err(Unfit::NoStack) => refuse(
                    "no numbered blocks, or several kinds of them".into(),
                    "one stack of blocks, or a list of layers".into(),
                ),
                Err(_) => refuse(
                    "layers of which none needs the other".into(),
                    "each of them behind the one before".into(),
                ),
            }
            if self.cuts == Cuts::Separate && instance.network.has_explicit_backward() {
                refuse(
                    "separate cuts of backward operators that are layers of their own".into(),
                    words!("{}", setting::CUTS.given("tied")),
                );
            }
        }
        faults
    }
}

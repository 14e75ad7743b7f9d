//! Instances made to measure: the same parameters and seed give the same instance.

pub mod random;
pub mod transformer;

use serde::de::DeserializeOwned;

use crate::model::fault::InputError;
use crate::model::spec::InstanceSpec;

/// A family of instances, as studies name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Family {
    /// Its name, also on the command line.
    pub name: &'static str,
    /// Whether parameters by name are ones that it has; nothing is built.
    pub check: fn(toml::Table) -> Result<(), toml::de::Error>,
    /// Builds the instance of some parameters by name; those that are missing take their defaults.
    pub build: fn(toml::Table) -> Result<InstanceSpec, toml::de::Error>,
}

/// Every family.
pub(crate) const FAMILIES: &[Family] = &[
    Family {
        name: "random",
        check: |parameters| asked::<random::Random>(parameters).map(|_| ()),
        build: |parameters| Ok(random::random(&asked(parameters)?)),
    },
    Family {
        name: "transformer",
        check: |parameters| transformer::check(&asked(parameters)?).map_err(refused),
        build: |parameters| transformer::transformer(&asked(parameters)?).map_err(refused),
    },
];

/// The family of that name.
pub(crate) fn find(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name == name)
}

fn asked<T: DeserializeOwned>(parameters: toml::Table) -> Result<T, toml::de::Error> {
    T::deserialize(toml::Value::Table(parameters))
}

/// What does not come out even, as the parser of parameters says what is wrong with one.
fn refused(error: InputError) -> toml::de::Error {
    let faults = error.faults.iter().map(|fault| match fault.kind.hint() {
        Some(hint) => format!("{fault}; {hint}"),
        None => fault.to_string(),
    });
    serde::de::Error::custom(faults.collect::<Vec<_>>().join("; "))
}

//! Instances that a caller holds: from a file, or from a document.

use std::path::Path;
use std::sync::LazyLock;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Failure, asked};
use crate::input::generate;
use crate::input::import::{default_cluster, given_cluster, read_parts, trusting};
use crate::input::read::{at_efficiency, fits};
use crate::input::source::text::parser_fault;
use crate::model::efficiency::{self, Efficiency};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::setting;
use crate::model::spec::{ClusterSpec, GivenCluster, InstanceSpec, LayerSpec, SCHEMA, TensorSpec};
use crate::model::words::Words;
use crate::problem::plan::{self, Form};

/// The JSON Schemas of what a caller may say.
static SCHEMA_OF_INSTANCE: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(InstanceSpec).to_value());
static SCHEMA_OF_CLUSTER: LazyLock<Value> = LazyLock::new(|| schemars::schema_for!(ClusterSpec).to_value());

/// A validated instance, and what it was made from: another cluster may take the place of its own.
#[derive(Clone, Debug)]
pub struct Network {
    spec: InstanceSpec,
    /// What an importer assumed.
    notes: Vec<Words>,
    /// The name where it says none.
    name: String,
    instance: Instance,
}

/// A cluster as a caller names it.
#[derive(Clone, Copy, Debug)]
pub enum Cluster<'a> {
    /// That of the instance.
    Own,
    /// A preset's name or a file.
    Named(&'a str),
    /// What an instance says under `cluster`, in JSON.
    Document(&'a str),
}

impl Network {
    /// Reads any importable file; `outside_files` lets it name files outside of its folder.
    ///
    /// # Errors
    ///
    /// Every fault of the file.
    pub fn read(path: &Path, outside_files: bool) -> Result<Self, Failure> {
        let (instance, (spec, notes, _)) = trusting(outside_files, || {
            Instance::read(path, None).and_then(|instance| Ok((instance, read_parts(path)?)))
        })?;
        let name = instance.name.clone();
        Ok(Self {
            spec,
            notes,
            name,
            instance,
        })
    }

    /// Reads a native instance in JSON that is in no file; `name` is its name where it says none.
    ///
    /// # Errors
    ///
    /// Every fault of it.
    pub fn parse(text: &str, name: &str) -> Result<Self, Failure> {
        let value: Value = asked::document(text, "the network")?;
        let spec = spec_of(&value)?;
        Self::validated(spec, Vec::new(), name)
    }

    /// An instance of a generator, with its parameters by name in JSON.
    ///
    /// # Errors
    ///
    /// A generator that there is not, parameters that it does not have or values that they cannot have.
    pub fn generate(family: &str, parameters: &str) -> Result<Self, Failure> {
        let found = generate::find(family).ok_or_else(|| {
            let known = generate::FAMILIES.iter().map(|family| family.name.into());
            let kind = FaultKind::UnknownValue {
                found: family.into(),
                known: known.collect(),
            };
            InputError::option("family", kind)
        })?;
        let of_parser = |message: &str| InputError::option("the parameters", parser_fault(message));
        let parameters: toml::Table =
            serde_json::from_str(parameters).map_err(|error| of_parser(&error.to_string()))?;
        let spec = (found.build)(parameters).map_err(|error| of_parser(error.message()))?;
        Self::validated(spec, Vec::new(), family)
    }

    fn validated(spec: InstanceSpec, notes: Vec<Words>, name: &str) -> Result<Self, Failure> {
        let mut whole = spec.clone();
        let mut told = notes.clone();
        default_cluster(&mut whole, &mut told)?;
        let instance =
            Instance::validated(&whole, name, told).map_err(|faults| InputError { path: None, faults })?;
        Ok(Self {
            spec,
            notes,
            name: name.to_owned(),
            instance,
        })
    }

    /// The same network on another cluster.
    ///
    /// # Errors
    ///
    /// A cluster that is unknown or faulty, or that the network cannot run on.
    pub fn on_cluster(&self, cluster: Cluster) -> Result<Self, Failure> {
        let given = match cluster {
            Cluster::Own => return Ok(self.clone()),
            Cluster::Named(name) => {
                let given = given_cluster(name)?;
                fits(&self.spec, &given)?;
                given
            }
            Cluster::Document(text) => {
                let value = asked::document(text, "the cluster")?;
                let faults = Form::faults(&value, &SCHEMA_OF_CLUSTER, ("cluster", "the cluster"));
                refused(faults)?;
                let content = one::<ClusterSpec>(&value, "cluster").map_err(|fault| InputError {
                    path: None,
                    faults: vec![fault],
                })?;
                let name = "a cluster of the caller".into();
                GivenCluster { name, content }
            }
        };
        self.on_given(given)
    }

    fn on_given(&self, given: GivenCluster) -> Result<Self, Failure> {
        let spec = InstanceSpec {
            cluster: Some(given.content.clone()),
            ..self.spec.clone()
        };
        let mut there = Self::validated(spec, self.notes.clone(), &self.name)?;
        there.instance.given_cluster = Some(given);
        Ok(there)
    }

    /// The same network on the cluster that a plan in JSON carries; where it already is on one that was given, that must be the same.
    ///
    /// # Errors
    ///
    /// Those of [`on`](Self::on), and two clusters that differ.
    pub fn of_plan(&self, plan: &str) -> Result<Self, Failure> {
        let carried = plan::bare::cluster_of(plan.as_bytes());
        let given = self.instance.given_cluster.clone();
        match plan::agreed(given, carried.as_ref())? {
            Some(cluster) if self.instance.given_cluster.is_none() => self.on_given(cluster),
            _ => Ok(self.clone()),
        }
    }

    /// The same network where devices reach that part of their peak rates: a number, or `measured`.
    ///
    /// # Errors
    ///
    /// A part that is none, or where no time follows from rates.
    pub fn at_efficiency(&self, efficiency: &str) -> Result<Self, Failure> {
        let efficiency: Efficiency = efficiency.parse().map_err(|_| {
            let found = format!("`{efficiency}`").into();
            let expected = efficiency::EXPECTED.into();
            InputError::option(setting::EFFICIENCY, FaultKind::Contradiction { found, expected })
        })?;
        let mut whole = self.spec.clone();
        default_cluster(&mut whole, &mut Vec::new())?;
        let own = whole.cluster.clone().unwrap_or_default();
        let name = self
            .instance
            .given_cluster
            .as_ref()
            .map(|given| given.name.clone());
        self.on_given(GivenCluster {
            name: name.unwrap_or_else(|| "the network's own".into()),
            content: at_efficiency(&whole, own, efficiency)?,
        })
    }

    /// The instance.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// The native instance, in JSON.
    pub fn json(&self) -> String {
        super::json(&InstanceSpec {
            schema: Some(SCHEMA.into()),
            name: Some(self.instance.name.clone()),
            ..self.spec.clone()
        })
    }
}

/// A specification, or every fault of its form.
fn spec_of(value: &Value) -> Result<InstanceSpec, Failure> {
    refused(Form::faults(value, &SCHEMA_OF_INSTANCE, ("", "the network")))?;
    let error = match serde_json::from_value(value.clone()) {
        Ok(spec) => return Ok(spec),
        Err(error) => error,
    };
    // serde tells the first fault of a document and not its place; so the parts are read one by one.
    let mut faults = Vec::new();
    let network = value.get("network");
    parts::<LayerSpec>(network, "layers", &mut faults);
    parts::<TensorSpec>(network, "tensors", &mut faults);
    if let Some(cluster) = value.get("cluster") {
        faults.extend(one::<ClusterSpec>(cluster, "cluster").err());
    }
    if faults.is_empty() {
        faults.push(Fault::new("the network", parser_fault(&error.to_string())));
    }
    Err(InputError { path: None, faults }.into())
}

fn refused(faults: Vec<Fault>) -> Result<(), InputError> {
    match faults.is_empty() {
        true => Ok(()),
        false => Err(InputError { path: None, faults }),
    }
}

/// What is wrong with the elements of a list.
fn parts<T: DeserializeOwned>(network: Option<&Value>, name: &str, faults: &mut Vec<Fault>) {
    let list = network
        .and_then(|network| network.get(name))
        .and_then(Value::as_array);
    for (at, value) in list.into_iter().flatten().enumerate() {
        faults.extend(one::<T>(value, &format!("{name}[{at}]")).err());
    }
}

/// Part of a document; or what is wrong with it, and in which of its fields.
fn one<T: DeserializeOwned>(value: &Value, at: &str) -> Result<T, Fault> {
    let error = match serde_json::from_value(value.clone()) {
        Ok(part) => return Ok(part),
        Err(error) => error,
    };
    // Alone, a field that is right is met by the complaint that others are missing.
    let alone = |(name, value): (&String, &Value)| {
        let error = serde_json::from_value::<T>(json!({ name: value }))
            .err()?
            .to_string();
        (!error.starts_with("missing field"))
            .then(|| Fault::new(format!("{at}.{name}"), parser_fault(&error)))
    };
    let in_field = value.as_object().and_then(|fields| fields.iter().find_map(alone));
    Err(in_field.unwrap_or_else(|| Fault::new(at, parser_fault(&error.to_string()))))
}

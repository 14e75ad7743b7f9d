//! The cluster that a plan carries: whoever reads it needs the instance and nothing else.

use std::path::Path;

use serde_json::Value;

use super::Plan;
use crate::input::import::given_cluster;
use crate::model::fault::{FaultKind, InputError};
use crate::model::instance::Instance;
use crate::model::setting;
use crate::model::spec::{ClusterSpec, GivenCluster};
use crate::model::words::words;

impl Plan {
    /// Reads the instance that it is a plan of, on the cluster that it carries.
    ///
    /// `cluster` may be given again, as a preset's name or a file; where the plan carries none, as older ones do, it replaces the
    /// instance's own.
    ///
    /// # Errors
    ///
    /// Every fault of the file, or that another cluster is given than the plan was made on.
    pub fn read_instance(&self, path: &Path, cluster: Option<&str>) -> Result<Instance, InputError> {
        read_on(path, cluster, self.cluster.as_ref())
    }
}

/// Reads an instance on the cluster that is given, that a plan carries, or that is its own.
pub(crate) fn read_on(
    path: &Path,
    given: Option<&str>,
    carried: Option<&GivenCluster>,
) -> Result<Instance, InputError> {
    let given = given.map(given_cluster).transpose()?;
    Instance::read_on(path, agreed(given, carried)?)
}

/// The cluster that is given or carried.
///
/// # Errors
///
/// Two that differ.
pub(crate) fn agreed(
    given: Option<GivenCluster>,
    carried: Option<&GivenCluster>,
) -> Result<Option<GivenCluster>, InputError> {
    let (Some(given), Some(carried)) = (&given, carried) else {
        return Ok(given.or_else(|| carried.cloned()));
    };
    let Some((at, [found, expected])) = difference(&given.content, &carried.content) else {
        return Ok(Some(carried.clone()));
    };
    let kind = FaultKind::Conflict {
        found: format!("`{}`, whose `{at}` is {found}", given.name).into(),
        expected: format!(
            "`{}`, which the plan was made on and carries, whose `{at}` is {expected}",
            carried.name
        )
        .into(),
        remedy: words!("leave {} out, or solve again on the other one", setting::CLUSTER),
    };
    Err(InputError::option(setting::CLUSTER, kind))
}

/// The first place at which two clusters differ, and what each says there, as a file would.
pub(crate) fn difference(one: &ClusterSpec, other: &ClusterSpec) -> Option<(String, [String; 2])> {
    // Through text, as the other has come: readers round the last digit alike.
    let reread = |spec: &ClusterSpec| {
        let text = serde_json::to_string(spec).ok()?;
        serde_json::from_str::<Value>(&text).ok()
    };
    first_difference(&reread(one)?, &reread(other)?, "")
}

fn first_difference(one: &Value, other: &Value, at: &str) -> Option<(String, [String; 2])> {
    let below = |name: &str| match at {
        "" => name.to_owned(),
        at => format!("{at}.{name}"),
    };
    match (one, other) {
        (Value::Object(fields), Value::Object(others)) => {
            let mut names = fields.keys().chain(others.keys());
            let value = |of: &serde_json::Map<String, Value>, name: &String| {
                of.get(name).cloned().unwrap_or_default()
            };
            names.find_map(|name| first_difference(&value(fields, name), &value(others, name), &below(name)))
        }
        (Value::Array(values), Value::Array(others)) if values.len() == others.len() => {
            (values.iter().zip(others))
                .enumerate()
                .find_map(|(k, (one, other))| first_difference(one, other, &format!("{at}[{k}]")))
        }
        (one, other) => (one != other).then(|| (at.to_owned(), [one, other].map(said))),
    }
}

/// A value in a sentence.
fn said(value: &Value) -> String {
    match value {
        Value::Null => "not said".into(),
        Value::Array(values) => format!("a list of {}", values.len()),
        Value::Object(_) => "a table".into(),
        Value::String(text) => format!("`{text}`"),
        value => format!("`{value}`"),
    }
}

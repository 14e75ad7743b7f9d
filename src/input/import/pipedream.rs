//! PipeDream profiles, `graph.txt`: D. Narayanan et al., *PipeDream: generalized pipeline parallelism for DNN training*,
//! SOSP 2019; msr-fiddle/pipedream.
//!
//! A line a node, `id -- description -- forward_compute_time=ms, backward_compute_time=ms, activation_size=bytes,
//! parameter_size=bytes`, then tab-indented edges `source -- target`. `activation_size` may be a list `[a; b]`, which is
//! summed. `Input` nodes carry the time of loading data and are dropped.

use std::collections::{HashMap, HashSet};

use super::{Imported, Source, has_extension};
use crate::model::fault::{Fault, FaultKind};
use crate::model::spec::{InstanceSpec, LayerSpec, NetworkSpec, TensorSpec};

/// Whether a text file has the separator in its first lines.
pub(super) fn detect(source: &Source) -> bool {
    let head = String::from_utf8_lossy(&source.bytes[..source.bytes.len().min(4096)]);
    has_extension(source.path, "txt") || head.lines().take(3).any(|line| line.contains(" -- "))
}

/// Reads a profile.
pub(super) fn read(source: &Source) -> Imported {
    let mut faults = Vec::new();
    let mut layers: Vec<LayerSpec> = Vec::new();
    let mut activation_bytes: HashMap<String, f64> = HashMap::new();
    let mut inputs: HashSet<String> = HashSet::new();
    let mut edges: Vec<(String, String)> = Vec::new();
    for (i, line) in source.text()?.lines().enumerate() {
        let at = format!("line {}", i + 1);
        if line.trim().is_empty() {
            continue;
        }
        let parts: Vec<&str> = line.trim().split(" -- ").collect();
        match parts[..] {
            [from, to] if line.starts_with('\t') => edges.push((from.to_owned(), to.to_owned())),
            [id, description, fields] => match node(id, description, fields, &at) {
                Ok(_) if description.starts_with("Input") => {
                    inputs.insert(id.to_owned());
                }
                Ok((layer, bytes)) => {
                    activation_bytes.insert(id.to_owned(), bytes);
                    layers.push(layer);
                }
                Err(fault) => faults.push(fault),
            },
            _ => faults.push(Fault::new(
                at,
                FaultKind::Syntax {
                    found: format!("`{}`", line.trim()),
                    expected: "`id -- description -- fields`, or a tab and `source -- target`".into(),
                },
            )),
        }
    }
    if layers.is_empty() && inputs.is_empty() {
        // Nothing reads as a profile: one line says so as well as all of them.
        faults.truncate(1);
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    let tensors = tensors(edges, &inputs, &activation_bytes);
    let mut notes = Vec::new();
    if !inputs.is_empty() {
        notes.push(
            format!(
                "{} `Input` nodes dropped: their time is that of loading data",
                inputs.len()
            )
            .into(),
        );
    }
    let spec = InstanceSpec {
        network: NetworkSpec {
            layers,
            tensors,
            ..Default::default()
        },
        ..Default::default()
    };
    Ok((spec, notes))
}

/// A layer and the bytes of its output, which are also what its backward pass needs.
fn node(id: &str, description: &str, fields: &str, at: &str) -> Result<(LayerSpec, f64), Fault> {
    let mut values: HashMap<&str, f64> = HashMap::new();
    for field in fields.split(", ") {
        let syntax = |found: String| {
            Fault::new(
                format!("{at}, node `{id}`"),
                FaultKind::Syntax {
                    found,
                    expected: "`name=number`, or `name=[number; number]`".into(),
                },
            )
        };
        let (name, value) = field
            .split_once('=')
            .ok_or_else(|| syntax(format!("`{field}`")))?;
        let number = |text: &str| {
            text.trim()
                .parse::<f64>()
                .map_err(|_| syntax(format!("`{field}`")))
        };
        let value = match value.strip_prefix('[').and_then(|v| v.strip_suffix(']')) {
            Some(list) => list.split(';').map(number).sum::<Result<f64, Fault>>()?,
            None => number(value)?,
        };
        values.insert(name, value);
    }
    let get = |name: &str| {
        values.get(name).copied().ok_or_else(|| {
            Fault::new(
                format!("{at}, node `{id}`"),
                FaultKind::Missing {
                    what: format!("field `{name}`"),
                    expected: "one in every node".into(),
                    remedy: format!("add `{name}=...`").into(),
                },
            )
        })
    };
    let activation_bytes = get("activation_size")?;
    let layer = LayerSpec {
        id: id.to_owned(),
        operator: Some(description.to_owned()),
        forward_ms: Some(get("forward_compute_time")?),
        backward_ms: Some(get("backward_compute_time")?),
        parameter_bytes: get("parameter_size")?,
        stash_bytes: activation_bytes,
        ..Default::default()
    };
    Ok((layer, activation_bytes))
}

fn tensors(
    edges: Vec<(String, String)>,
    inputs: &HashSet<String>,
    activation_bytes: &HashMap<String, f64>,
) -> Vec<TensorSpec> {
    let mut position: HashMap<String, usize> = HashMap::new();
    let mut tensors: Vec<TensorSpec> = Vec::new();
    for (producer, consumer) in edges {
        if inputs.contains(&producer) {
            continue;
        }
        let at = *position.entry(producer.clone()).or_insert(tensors.len());
        if at == tensors.len() {
            tensors.push(TensorSpec {
                bytes: activation_bytes.get(&producer).copied(),
                producer,
                ..Default::default()
            });
        }
        tensors[at].consumers.push(consumer);
    }
    tensors
}

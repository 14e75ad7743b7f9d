//! A pair of CSV files: `NAME.csv` with a row a layer (`node,op,fp_ms,bp_ms,activation_bytes,param_bytes`) and
//! `NAME.edges.csv` with a row an edge (`src,dst`). Either may be named; the other lies beside it.
//!
//! Edges may start at `input` or `data`, Caffe's names of the network's input, which is no layer.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Imported, Source};
use crate::fault::{Fault, FaultKind};
use crate::instance::spec::{InstanceSpec, LayerSpec, NetworkSpec, TensorSpec};

const EDGES_SUFFIX: &str = ".edges.csv";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerRow {
    node: String,
    op: String,
    fp_ms: f64,
    bp_ms: f64,
    activation_bytes: f64,
    param_bytes: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EdgeRow {
    src: String,
    dst: String,
}

/// Reads the pair.
pub fn read(source: &Source) -> Imported {
    let (layers_path, edges_path) = pair(source);
    let layers: Vec<LayerRow> = rows(&layers_path)?;
    let edges: Vec<EdgeRow> = rows(&edges_path)?;
    let known: HashSet<&str> = layers.iter().map(|row| row.node.as_str()).collect();
    let bytes: HashMap<&str, f64> = layers
        .iter()
        .map(|row| (row.node.as_str(), row.activation_bytes))
        .collect();

    let mut position: HashMap<&str, usize> = HashMap::new();
    let mut tensors: Vec<TensorSpec> = Vec::new();
    let mut notes = Vec::new();
    for edge in &edges {
        if ["input", "data"].contains(&edge.src.as_str()) && !known.contains(edge.src.as_str()) {
            if notes.is_empty() {
                notes.push(format!(
                    "`{}` taken for the network's input, not a layer",
                    edge.src
                ));
            }
            continue;
        }
        let at = *position.entry(&edge.src).or_insert(tensors.len());
        if at == tensors.len() {
            tensors.push(TensorSpec {
                producer: edge.src.clone(),
                bytes: bytes.get(edge.src.as_str()).copied(),
                ..Default::default()
            });
        }
        tensors[at].consumers.push(edge.dst.clone());
    }
    let layers = layers.into_iter().map(layer).collect();
    let spec = InstanceSpec {
        name: layers_path
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned()),
        network: NetworkSpec {
            layers,
            tensors,
            ..Default::default()
        },
        ..Default::default()
    };
    Ok((spec, notes))
}

fn layer(row: LayerRow) -> LayerSpec {
    LayerSpec {
        id: row.node,
        operator: Some(row.op),
        forward_ms: Some(row.fp_ms),
        backward_ms: Some(row.bp_ms),
        parameter_bytes: row.param_bytes,
        stash_bytes: row.activation_bytes,
        ..Default::default()
    }
}

/// Paths of layers and edges, whichever was named.
fn pair(source: &Source) -> (PathBuf, PathBuf) {
    let name = source.name();
    match name.strip_suffix(EDGES_SUFFIX) {
        Some(stem) => (
            source.path.with_file_name(format!("{stem}.csv")),
            source.path.to_owned(),
        ),
        None => {
            let stem = name.strip_suffix(".csv").unwrap_or(&name);
            let edges = source.path.with_file_name(format!("{stem}{EDGES_SUFFIX}"));
            (source.path.to_owned(), edges)
        }
    }
}

fn rows<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Vec<Fault>> {
    let shown = path.display();
    let mut reader = csv::Reader::from_path(path).map_err(|error| {
        vec![Fault::new(
            format!("`{shown}`"),
            FaultKind::Unreadable(error.to_string()),
        )]
    })?;
    let mut faults = Vec::new();
    let mut rows = Vec::new();
    for row in reader.deserialize() {
        match row {
            Ok(row) => rows.push(row),
            Err(error) => {
                let line = error.position().map_or(0, csv::Position::line);
                let found = error.to_string().chars().take(200).collect();
                faults.push(Fault::new(
                    format!("`{shown}`, line {line}"),
                    FaultKind::Syntax {
                        found,
                        expected: "a row with the header's columns".into(),
                    },
                ));
            }
        }
    }
    match faults.is_empty() {
        true => Ok(rows),
        false => Err(faults),
    }
}

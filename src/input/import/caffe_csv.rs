//! A pair of CSV files: `NAME.csv` with a row a layer (`node,op,fp_ms,bp_ms,activation_bytes,param_bytes`) and
//! `NAME.edges.csv` with a row an edge (`src,dst`). Either may be named; the other lies beside it.
//!
//! Edges may start at `input` or `data`, Caffe's names of the network's input, which is no layer.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Imported, Source, reach, table};
use crate::input::intake;
use crate::model::fault::{Fault, FaultKind};
use crate::model::spec::{InstanceSpec, LayerSpec, NetworkSpec, TensorSpec};

const EDGES_SUFFIX: &str = ".edges.csv";
const LAYER_COLUMNS: &[&str] = &["node", "op", "fp_ms", "bp_ms", "activation_bytes", "param_bytes"];
const EDGE_COLUMNS: &[&str] = &["src", "dst"];

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
pub(super) fn read(source: &Source) -> Imported {
    let (layers_path, edges_path) = pair(source);
    for path in [&layers_path, &edges_path] {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        reach::refuse_outside(source.path, &name, path)
            .map_err(|kind| vec![Fault::new("the file", kind).in_other(&name)])?;
    }
    let layers = rows(&layers_path, LAYER_COLUMNS);
    let edges = rows(&edges_path, EDGE_COLUMNS);
    let (layers, edges): (Vec<LayerRow>, Vec<EdgeRow>) = match (layers, edges) {
        (Ok(layers), Ok(edges)) => (layers, edges),
        (layers, edges) => {
            return Err([layers.err(), edges.err()]
                .into_iter()
                .flatten()
                .flatten()
                .collect());
        }
    };
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
                notes.push(format!("`{}` taken for the network's input, not a layer", edge.src).into());
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

/// The rows of one file of the pair, or every fault in it.
fn rows<T: DeserializeOwned>(path: &Path, columns: &[&str]) -> Result<Vec<T>, Vec<Fault>> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let bytes = intake::read(path).map_err(|error| {
        let fault = match error.kind() {
            std::io::ErrorKind::NotFound => Fault::new("the file", half_of_pair(columns)),
            _ => Fault::unreadable(path, &error),
        };
        vec![fault.in_other(&file)]
    })?;
    let text = Source { path, bytes: &bytes }.text().map(str::to_owned);
    let rows = text.and_then(|text| table::rows(&text, columns));
    match rows {
        Ok(rows) => Ok(rows.into_iter().map(|(_, row)| row).collect()),
        Err(faults) => Err(faults.into_iter().map(|fault| fault.in_other(&file)).collect()),
    }
}

/// One file of the pair without the other.
fn half_of_pair(columns: &[&str]) -> FaultKind {
    FaultKind::Missing {
        what: "file of that name".into(),
        expected: "NAME.csv (layers) and NAME.edges.csv (edges) side by side".into(),
        remedy: format!("add it, with the header `{}`", columns.join(",")).into(),
    }
}

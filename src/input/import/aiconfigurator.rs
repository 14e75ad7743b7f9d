//! Operator tables of NVIDIA's aiconfigurator: ai-dynamo/aiconfigurator, whose collector writes `gemm_perf.txt` and others as CSV.
//!
//! A row is an operator of some shape on some device, with its latency in ms. A table is no network: its operators are layers without tensors,
//! from which `stagecut calibrate` learns what products of matrices attain. Those say their work.

use std::collections::BTreeMap;

use super::ranges::median;
use super::{Imported, Source, has_extension};
use crate::input::source::table;
use crate::model::fault::{Fault, FaultKind};
use crate::model::options::{Mode, PipelineOptions};
use crate::model::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, NetworkSpec, TimesSpec, WorkSpec,
};
use crate::model::words::words;

/// Columns of every table.
const DEVICE: &str = "device";
const OPERATOR: &str = "op_name";
const LATENCY: &str = "latency";

/// Columns that do not say which operator it is; power is beside the question.
const OTHERS: [&str; 7] = [
    "framework",
    "version",
    DEVICE,
    OPERATOR,
    "kernel_source",
    LATENCY,
    "power",
];

/// Whether a table has the columns that all of them have.
pub(super) fn detect(source: &Source) -> bool {
    let is_table = has_extension(source.path, "csv") || has_extension(source.path, "txt");
    let Some(line) = source
        .bytes
        .split(|&byte| byte == b'\n')
        .next()
        .filter(|_| is_table)
    else {
        return false;
    };
    let line = String::from_utf8_lossy(line);
    let has = |column: &str| {
        line.split(',')
            .any(|found| found.trim().trim_matches('"') == column)
    };
    has("framework") && has(OPERATOR) && has(LATENCY)
}

/// An operator: its shape, and latencies by device.
#[derive(Default)]
struct Operator {
    name: String,
    work: Option<WorkSpec>,
    latencies: BTreeMap<String, Vec<f64>>,
}

/// Reads a table.
pub(super) fn read(source: &Source) -> Imported {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(source.text()?.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    let mut operators: BTreeMap<String, Operator> = BTreeMap::new();
    let (mut order, mut faults) = (Vec::new(), Vec::new());
    for record in table::records(&mut reader) {
        let (line, record) = match record {
            Ok(row) => row,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        let cells: BTreeMap<&str, &str> = header.iter().zip(&record).collect();
        let latency = cells.get(LATENCY).copied().unwrap_or_default();
        let Some(latency_ms) = latency
            .parse::<f64>()
            .ok()
            .filter(|ms| ms.is_finite() && *ms >= 0.0)
        else {
            let kind = FaultKind::Syntax {
                found: format!("`{latency}`"),
                expected: "a latency in ms, from 0".into(),
            };
            faults.push(Fault::new(format!("line {line}, column `{LATENCY}`"), kind));
            continue;
        };
        let name = cells.get(OPERATOR).copied().unwrap_or_default();
        let device = cells
            .get(DEVICE)
            .copied()
            .filter(|device| !device.is_empty())
            .unwrap_or("device");
        let shape = header
            .iter()
            .zip(&record)
            .filter(|(column, _)| !OTHERS.contains(column));
        let shape: Vec<String> = shape.map(|(column, value)| format!("{column}={value}")).collect();
        let id = format!("{name} {}", shape.join(" "));
        if !operators.contains_key(&id) {
            order.push(id.clone());
        }
        let own = operators.entry(id).or_insert_with(|| Operator {
            name: name.to_owned(),
            work: work(&cells),
            latencies: BTreeMap::new(),
        });
        own.latencies
            .entry(device.to_owned())
            .or_default()
            .push(latency_ms);
    }
    match faults.is_empty() {
        true => Ok(spec(&order, operators)),
        false => Err(faults),
    }
}

/// Of a product of matrices, `m` by `k` and `k` by `n`.
fn work(cells: &BTreeMap<&str, &str>) -> Option<WorkSpec> {
    let size = |name: &str| {
        cells
            .get(name)?
            .parse::<f64>()
            .ok()
            .filter(|size| size.is_finite() && *size >= 0.0)
    };
    let (m, n, k) = (size("m")?, size("n")?, size("k")?);
    let dtype = cells.get("gemm_dtype").copied().unwrap_or_default();
    // What comes out, and what goes in unless it is quantised, has two bytes.
    let of_weights = match dtype {
        dtype if dtype.contains("int4") || dtype.contains("fp4") => 0.5,
        dtype if dtype.contains("fp8") || dtype.contains("int8") => 1.0,
        _ => 2.0,
    };
    let of_inputs = if dtype.contains("weight_only") || dtype.contains("wo") {
        2.0
    } else {
        of_weights
    };
    Some(WorkSpec {
        forward_flops: 2.0 * m * n * k,
        forward_bytes: of_inputs * m * k + of_weights * k * n + 2.0 * m * n,
        ..WorkSpec::default()
    })
}

fn spec(
    order: &[String],
    mut operators: BTreeMap<String, Operator>,
) -> (InstanceSpec, Vec<crate::model::words::Words>) {
    let mut devices: Vec<String> = Vec::new();
    let layers = order.iter().filter_map(|id| {
        let own = operators.remove(id)?;
        for device in own
            .latencies
            .keys()
            .filter(|&device| !devices.contains(device))
            .cloned()
            .collect::<Vec<_>>()
        {
            devices.push(device);
        }
        let times = own.latencies.into_iter().map(|(device, latencies)| {
            let forward_ms = Some(median(latencies));
            (
                device,
                TimesSpec {
                    forward_ms,
                    ..TimesSpec::default()
                },
            )
        });
        Some(LayerSpec {
            id: id.clone(),
            operator: Some(own.name),
            times: times.collect(),
            work: own.work,
            ..LayerSpec::default()
        })
    });
    let layers: Vec<LayerSpec> = layers.collect();
    let notes = vec![words!(
        "{} operators of a table, each a layer without tensors: for `stagecut calibrate` more than for plans; medians over kernels and frameworks",
        layers.len().to_string()
    )];
    let kinds = devices.into_iter().map(|name| DeviceKindSpec {
        name,
        ..DeviceKindSpec::default()
    });
    let cluster = ClusterSpec {
        device_kinds: kinds.collect(),
        ..ClusterSpec::default()
    };
    let spec = InstanceSpec {
        network: NetworkSpec {
            layers,
            ..NetworkSpec::default()
        },
        cluster: (!cluster.device_kinds.is_empty()).then_some(cluster),
        pipeline: PipelineOptions {
            mode: Some(Mode::Inference),
            ..PipelineOptions::default()
        },
        ..InstanceSpec::default()
    };
    (spec, notes)
}

//! Vidur's operator tables: A. Agrawal et al., *Vidur: A large-scale simulation framework for LLM inference*, MLSys 2024; microsoft/vidur, whose
//! profiler writes `data/profiling/compute/GPU/MODEL/mlp.csv`.
//!
//! A row is a measurement of all operators of a block beside attention itself, at a number of tokens and a tensor degree. The rows of most tokens
//! are read; layers are the operators in the order of their columns, as a chain, with their medians, and degrees become modes.

use std::collections::BTreeMap;

use super::ranges::median;
use super::{Imported, Source, has_extension};
use crate::input::source::table;
use crate::model::fault::{Fault, FaultKind};
use crate::model::options::{Mode, PipelineOptions};
use crate::model::precision::Precision;
use crate::model::spec::{InstanceSpec, LayerSpec, ModeSpec, NetworkSpec, TensorSpec, WorkSpec};
use crate::model::words::words;

const BEFORE: &str = "time_stats.";
const BEHIND: &str = ".median";
const TOKENS: &str = "num_tokens";
const DEGREE: &str = "num_tensor_parallel_workers";

/// Vidur measures fp16.
const BYTES: f64 = 2.0;

fn header(source: &Source) -> Option<csv::StringRecord> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(source.bytes);
    reader.headers().ok().cloned()
}

/// Whether a CSV file has medians of operators and numbers of tokens.
pub(super) fn detect(source: &Source) -> bool {
    let is_median = |column: &str| column.starts_with(BEFORE) && column.ends_with(BEHIND);
    has_extension(source.path, "csv")
        && header(source).is_some_and(|header| {
            header.iter().any(is_median) && header.iter().any(|column| column == TOKENS)
        })
}

/// A row: its numbers by column.
struct Row {
    line: u64,
    degree: usize,
    tokens: f64,
    cells: BTreeMap<String, f64>,
}

/// Reads a table.
pub(super) fn read(source: &Source) -> Imported {
    let rows = rows(source)?;
    let single = rows.iter().filter(|row| row.degree == 1);
    let most = single.map(|row| row.tokens).fold(f64::NEG_INFINITY, f64::max);
    let Some(first) = rows.iter().find(|row| row.degree == 1 && row.tokens == most) else {
        let kind = FaultKind::Missing {
            what: "row of tensor degree 1".into(),
            expected: "what operators take on one device".into(),
            remedy: "let the profiler measure one worker too".into(),
        };
        return Err(vec![Fault::new("the file", kind)]);
    };
    let mut by_degree: BTreeMap<usize, Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.tokens == most) {
        by_degree.entry(row.degree).or_default().push(row);
    }
    let header = header(source).unwrap_or_default();
    let operators = header
        .iter()
        .filter_map(|column| column.strip_prefix(BEFORE)?.strip_suffix(BEHIND));
    let operators: Vec<String> = operators.map(str::to_owned).collect();
    let layers = operators
        .iter()
        .map(|operator| layer(operator, first, &by_degree));
    let tensors = operators.windows(2).map(|pair| TensorSpec {
        producer: pair[0].clone(),
        consumers: vec![pair[1].clone()],
        bytes: Some(BYTES * most * width(&pair[0], first)),
        ..TensorSpec::default()
    });
    let notes = vec![words!(
        "the operators of one block for {} tokens, the most that were measured on one device; attention itself is in another table, and residual connections are left out",
        most.to_string()
    )];
    let spec = InstanceSpec {
        network: NetworkSpec {
            precision: Some(Precision::Fp16),
            layers: layers.collect(),
            tensors: tensors.collect(),
            ..NetworkSpec::default()
        },
        pipeline: PipelineOptions {
            mode: Some(Mode::Inference),
            ..PipelineOptions::default()
        },
        ..InstanceSpec::default()
    };
    Ok((spec, notes))
}

fn rows(source: &Source) -> Result<Vec<Row>, Vec<Fault>> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(source.text()?.as_bytes());
    let header = reader.headers().cloned().unwrap_or_default();
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    if !header.iter().any(|column| column == DEGREE) {
        let kind = FaultKind::Missing {
            what: format!("column `{DEGREE}`"),
            expected: "the tensor degree of each row".into(),
            remedy: "give the table as Vidur's profiler writes it".into(),
        };
        return Err(vec![Fault::new("line 1", kind)]);
    }
    for record in table::records(&mut reader) {
        let (line, record) = match record {
            Ok(row) => row,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        let mut cells = BTreeMap::new();
        for (column, text) in header.iter().zip(&record) {
            let value = match text {
                // An operator that this model does not have.
                "" => continue,
                "True" | "true" => Some(1.0),
                "False" | "false" => Some(0.0),
                text => text.parse::<f64>().ok(),
            };
            match value.filter(|value| value.is_finite() && *value >= 0.0) {
                Some(value) => drop(cells.insert(column.to_owned(), value)),
                None if column.ends_with(BEHIND) || [TOKENS, DEGREE].contains(&column) => {
                    let kind = FaultKind::Syntax {
                        found: format!("`{text}`"),
                        expected: "a number from 0".into(),
                    };
                    faults.push(Fault::new(format!("line {line}, column `{column}`"), kind));
                }
                None => {}
            }
        }
        let row = Row {
            line,
            degree: cells.get(DEGREE).map_or(0, |&degree| degree as usize),
            tokens: cells.get(TOKENS).copied().unwrap_or(0.0),
            cells,
        };
        if row.degree == 0 {
            let kind = FaultKind::BadNumber {
                found: 0.0,
                expected: "a tensor degree from 1",
            };
            faults.push(Fault::new(format!("line {}, column `{DEGREE}`", row.line), kind));
        }
        rows.push(row);
    }
    match faults.is_empty() {
        true => Ok(rows),
        false => Err(faults),
    }
}

/// Numbers of a token that an operator hands on.
fn width(operator: &str, row: &Row) -> f64 {
    let [_, width] = shape(operator, row);
    match width > 0.0 {
        true => width,
        false => row.cells.get("n_embd").copied().unwrap_or(0.0),
    }
}

/// Rows and columns of an operator's weights, where it is a product: of a gated network both of its first matrices together.
fn shape(operator: &str, row: &Row) -> [f64; 2] {
    let of = |column: &str| row.cells.get(column).copied().unwrap_or(0.0);
    let (width, heads, expanded) = (of("n_embd"), of("n_head").max(1.0), of("n_expanded_embd"));
    let of_heads = |heads_of: f64| heads_of * width / heads;
    match operator {
        "attn_pre_proj" => [width, of_heads(of("n_head") + 2.0 * of("n_kv_head"))],
        "attn_post_proj" => [width, width],
        "mlp_up_proj" => [width, (1.0 + of("use_gated_mlp")) * expanded],
        "mlp_down_proj" => [expanded, width],
        "mlp_act" => [0.0, expanded],
        _ => [0.0, 0.0],
    }
}

fn layer(operator: &str, first: &Row, by_degree: &BTreeMap<usize, Vec<&Row>>) -> LayerSpec {
    let column = format!("{BEFORE}{operator}{BEHIND}");
    let modes = by_degree.iter().map(|(&degree, rows)| {
        let times = rows.iter().filter_map(|row| row.cells.get(&column).copied());
        let share = degree as f64;
        let [inputs, outputs] = shape(operator, first);
        let parameters = match operator {
            "emb" => first.cells.get("vocab_size").copied().unwrap_or(0.0) * width(operator, first) / share,
            _ => inputs * outputs / share,
        };
        let work = WorkSpec {
            forward_flops: 2.0 * first.tokens * inputs * outputs / share,
            // Products of a group have all of their inputs or all of their outputs; what they share is the lesser part of the traffic.
            forward_bytes: BYTES * (inputs * outputs + first.tokens * (inputs + outputs)) / share,
            ..WorkSpec::default()
        };
        ModeSpec {
            tensor: Some(degree),
            forward_ms: Some(median(times.collect())),
            parameter_bytes: (BYTES * parameters).round(),
            work: (inputs > 0.0).then_some(work),
            ..ModeSpec::default()
        }
    });
    LayerSpec {
        id: operator.to_owned(),
        operator: Some(operator.to_owned()),
        modes: modes.collect(),
        ..LayerSpec::default()
    }
}

//! Chrome traces of `torch.profiler`: pytorch/kineto, `export_chrome_trace`; the format is Google's *Trace Event Format*.
//!
//! Ranges are annotations (`torch.profiler.record_function`) whose names say a module and a pass, see [`super::ranges`]. Where a GPU was
//! traced, annotations as the GPU ran them count, and those of the CPU, which only launch, do not.

use serde::Deserialize;
use serde_json::Value;

use super::ranges::{self, Range};
use super::text::from_json;
use super::{Imported, Source, has_json_field};

const ON_CPU: &str = "user_annotation";
const ON_GPU: &str = "gpu_user_annotation";

#[derive(Deserialize)]
struct File {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

/// An event; fields that other kinds of event have are left out.
#[derive(Deserialize)]
struct Event {
    ph: Option<Value>,
    cat: Option<Value>,
    name: Option<Value>,
    /// Microseconds.
    ts: Option<Value>,
    dur: Option<Value>,
    pid: Option<Value>,
    tid: Option<Value>,
}

/// Whether the top level has the events of a trace.
pub(super) fn detect(source: &Source) -> bool {
    has_json_field(source, &["traceEvents"])
}

/// Reads a trace.
pub(super) fn read(source: &Source) -> Imported {
    let file: File = from_json(source.text()?)?;
    let is = |field: &Option<Value>, text: &str| field.as_ref().and_then(Value::as_str) == Some(text);
    let category = match file.events.iter().any(|event| is(&event.cat, ON_GPU)) {
        true => ON_GPU,
        false => ON_CPU,
    };
    let complete = file
        .events
        .iter()
        .filter(|event| is(&event.ph, "X") && is(&event.cat, category));
    let range = |event: &Event| {
        let ms = |field: &Option<Value>| field.as_ref().and_then(Value::as_f64).map(|us| us / 1e3);
        let of = |field: &Option<Value>| field.as_ref().map(Value::to_string).unwrap_or_default();
        Some(Range {
            name: event.name.as_ref()?.as_str()?.to_owned(),
            thread: format!("{} {}", of(&event.pid), of(&event.tid)),
            start_ms: ms(&event.ts)?,
            duration_ms: ms(&event.dur)?,
        })
    };
    ranges::network(complete.filter_map(range).collect(), "a trace")
}

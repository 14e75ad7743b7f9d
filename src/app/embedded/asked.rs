//! Options as keywords.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Failure;
use crate::input::source::text::{json_fault, parser_fault};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::options::{PipelineOptions, Schedule};
use crate::model::quantity;
use crate::model::setting;
use crate::model::words::Setting;
use crate::problem::plan::Plan;
use crate::problem::switches::Switches;
use crate::schedule::simulate::{InFlight, Jitter, Request, Trace};
use crate::solve::methods::{self, Method};
use crate::solve::planning::Options;

/// Limits and wishes of a search, as keywords.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchKeywords {
    /// Method, by its name [default: exact]
    method: Option<String>,
    /// Stop after so many seconds with the best plan so far [default: no limit]
    time_limit: Option<f64>,
    /// Memory that the search may take, in bytes or with a unit such as 8GB; it keeps within it, or stops with the best plan so far
    /// [default: three quarters of what the machine has free]
    #[serde(default, deserialize_with = "quantity::some_size")]
    #[schemars(extend("type" = ["number", "string", "null"]))]
    memory: Option<f64>,
    /// Stop at this relative gap between plan and bound [default: 0]
    gap: Option<f64>,
    /// Seed of everything random [default: 0]
    seed: Option<u64>,
    /// Threads of all searches of this process: the first search decides [default: all cores]
    threads: Option<u16>,
    /// Parts of the exact engine to leave out, to see what they are worth: for its developers
    #[serde(default)]
    without: Vec<String>,
}

/// How a plan is run, as keywords.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Run {
    /// Micro-batches to run [default: the plan's, else four a stage and at least eight]
    micro_batches: Option<u64>,
    /// Order in which the stages work [default: the plan's]
    schedule: Option<Schedule>,
    /// Micro-batches in flight on a stage, where transfers are overlapped: hiding or standard [default: standard where the plan says how
    /// many an iteration has, or a stage has no memory for more; else hiding]
    in_flight: Option<InFlight>,
    /// Device speeds over time, a CSV file
    trace: Option<std::path::PathBuf>,
    /// Multiply every task by a random factor between 1 - jitter and 1 + jitter
    jitter: Option<f64>,
    /// Seed of the jitter [default: 0]
    seed: Option<u64>,
}

/// The options of a problem: their keywords, and their names in files.
fn problem() -> impl Iterator<Item = (String, &'static str)> {
    let named = |setting: Setting| (setting.name().to_owned(), setting.field());
    setting::OF_PROBLEM.into_iter().map(named)
}

/// The fields of a type, in alphabetical order, with what its JSON Schema says of them.
fn fields<T: JsonSchema>() -> Map<String, Value> {
    let schema = schemars::schema_for!(T).to_value();
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.cloned().unwrap_or_default()
}

/// Every keyword with its JSON Schema: those of the `problem`, of the `search`, and of a `simulation`, under `$defs` what
/// they refer to; and the JSON Schema of plans.
pub fn names() -> String {
    let schema = schemars::schema_for!(PipelineOptions).to_value();
    let of_run = schemars::schema_for!(Run).to_value();
    let mut definitions = schema["$defs"].as_object().cloned().unwrap_or_default();
    definitions.extend(of_run["$defs"].as_object().cloned().unwrap_or_default());
    let problem: Map<String, Value> = problem()
        .map(|(keyword, name)| (keyword, schema["properties"][name].clone()))
        .collect();
    json!({
        "problem": problem,
        "search": fields::<SearchKeywords>(),
        "simulation": fields::<Run>(),
        "$defs": definitions,
        "plan": schemars::schema_for!(Plan).to_value(),
        "methods": methods::all().iter().map(|method| method.name()).collect::<Vec<_>>(),
        "targets": crate::export::TARGETS.iter().map(|target| target.name).collect::<Vec<_>>(),
        "clusters": crate::input::import::CLUSTER_PRESETS.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
    })
    .to_string()
}

/// The method of a name.
pub(super) fn method(name: &str) -> Result<Method, FaultKind> {
    methods::find(name).ok_or_else(|| FaultKind::UnknownValue {
        found: name.into(),
        known: methods::all().iter().map(|method| method.name().into()).collect(),
    })
}

/// What a JSON object of keywords asks.
///
/// # Errors
///
/// Every keyword that is unknown or has a value that it cannot have.
pub fn options(text: &str) -> Result<Options, Failure> {
    let given = object(text)?;
    let of_search = fields::<SearchKeywords>();
    let mut faults = Vec::new();
    let (mut asked, mut search) = (Map::new(), Map::new());
    for (name, value) in given {
        // A plan states its problem under the names of files; these are understood too.
        let of_problem = problem().find(|(keyword, in_file)| *keyword == name || *in_file == name);
        match of_problem {
            Some((_, in_file)) => take::<PipelineOptions>(&mut asked, (&name, in_file), value, &mut faults),
            None if of_search.contains_key(&name) => {
                take::<SearchKeywords>(&mut search, (&name, &name), value, &mut faults);
            }
            None => {
                let known = problem().map(|(keyword, _)| keyword);
                let known = known.chain(of_search.keys().cloned()).collect();
                faults.push(Fault::new("the options", FaultKind::UnknownField { name, known }));
            }
        }
    }
    let search: SearchKeywords = serde_json::from_value(Value::Object(search)).unwrap_or_default();
    let chosen = search.method.as_deref().unwrap_or(methods::DEFAULT);
    let chosen = method(chosen).map_err(|kind| faults.push(Fault::new("method", kind)));
    let mut range = |name: &str, value: Option<f64>, most: f64, expected: &'static str| {
        if let Some(found) = value.filter(|value| !(0.0..=most).contains(value)) {
            faults.push(Fault::new(name, FaultKind::BadNumber { found, expected }));
        }
    };
    range(
        "time_limit",
        search.time_limit,
        1e9,
        "a number of seconds from 0 to 1e9",
    );
    range("gap", search.gap, 1.0, "a relative gap from 0 to 1, such as 0.01");
    let threads = match (search.threads, faults.is_empty()) {
        (Some(threads), true) => limit_threads(threads),
        _ => Ok(()),
    };
    if let Err(kind) = threads {
        faults.push(Fault::new("threads", kind));
    }
    let switches = Switches::without(search.without.iter().map(String::as_str)).map_err(|part| {
        let (found, known) = (
            part.into(),
            Switches::NAMES.iter().map(|name| (*name).into()).collect(),
        );
        faults.push(Fault::new("without", FaultKind::UnknownValue { found, known }));
    });
    match chosen {
        Ok(method) if faults.is_empty() => Ok(Options {
            pipeline: serde_json::from_value(Value::Object(asked)).unwrap_or_default(),
            method,
            time_limit: search.time_limit.map(Duration::from_secs_f64),
            memory_bytes: search.memory.map(|bytes| bytes as u64),
            gap: search.gap.unwrap_or(0.0),
            seed: search.seed.unwrap_or(0),
            switches: switches.unwrap_or_default(),
        }),
        _ => Err(InputError { path: None, faults }.into()),
    }
}

/// How a JSON object of keywords wants a plan to be run.
///
/// # Errors
///
/// Every keyword that is unknown or has a value that it cannot have, and the faults of a trace.
pub fn request(text: &str, plan: &Plan) -> Result<Request, Failure> {
    let known = fields::<Run>();
    let mut faults = Vec::new();
    let mut asked = Map::new();
    for (name, value) in object(text)? {
        match known.contains_key(&name) {
            true => take::<Run>(&mut asked, (&name, &name), value, &mut faults),
            false => {
                let known = known.keys().cloned().collect();
                faults.push(Fault::new("the options", FaultKind::UnknownField { name, known }));
            }
        }
    }
    let run: Run = serde_json::from_value(Value::Object(asked)).unwrap_or_default();
    if let Some(found) = run.jitter.filter(|jitter| !(0.0..=1.0).contains(jitter)) {
        let expected = "a fraction from 0 to 1, such as 0.1";
        faults.push(Fault::new("jitter", FaultKind::BadNumber { found, expected }));
    }
    if !faults.is_empty() {
        return Err(InputError { path: None, faults }.into());
    }
    let trace = run.trace.map(|path| Trace::read(&path, plan)).transpose()?;
    Ok(Request {
        micro_batches: run.micro_batches,
        order: run.schedule,
        listed: None,
        in_flight: run.in_flight,
        trace: trace.unwrap_or_default(),
        jitter: run.jitter.map(|fraction| Jitter {
            fraction,
            seed: run.seed.unwrap_or(0),
        }),
    })
}

/// Gives the searches of this process so many threads.
///
/// They share one pool, which the first search makes and nobody changes: rayon's.
fn limit_threads(threads: u16) -> Result<(), FaultKind> {
    let asked = usize::from(threads);
    if !(1..=1024).contains(&asked) {
        let (found, expected) = (f64::from(threads), "a number from 1 to 1024");
        return Err(FaultKind::BadNumber { found, expected });
    }
    // An error means that there is a pool.
    let _ = rayon::ThreadPoolBuilder::new().num_threads(asked).build_global();
    match rayon::current_num_threads() {
        there if there == asked => Ok(()),
        there => Err(FaultKind::WrongType {
            found: format!("{asked} where searches have {there}"),
            expected: format!("{there}: the first search of a process decides"),
        }),
    }
}

/// The name in files of a keyword; its own where it is none of a problem.
pub(super) fn in_files(name: &str) -> &str {
    let of_problem = problem().find(|(keyword, in_file)| keyword == name || *in_file == name);
    of_problem.map_or(name, |(_, in_file)| in_file)
}

/// A document of the caller. It may hold what JSON can write and nobody can read: 400 digits, half of a surrogate pair.
pub(super) fn document<T: DeserializeOwned>(text: &str, place: &str) -> Result<T, Failure> {
    let read = serde_json::from_str(text);
    read.map_err(|error| InputError::option(place, json_fault(&error)).into())
}

pub(super) fn object(text: &str) -> Result<Map<String, Value>, Failure> {
    document(text, "the options")
}

/// Takes a keyword if its value is one that it can have, alone as it is.
fn take<T: DeserializeOwned>(
    into: &mut Map<String, Value>,
    (keyword, field): (&str, &str),
    value: Value,
    faults: &mut Vec<Fault>,
) {
    match serde_json::from_value::<T>(json!({ field: value })) {
        Ok(_) => drop(into.insert(field.to_owned(), value)),
        Err(error) => faults.push(Fault::new(keyword, parser_fault(&error.to_string()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unknown_or_wrong_keyword_is_told_at_once() {
        let error =
            options(r#"{"stagse": 4, "schedule": "gipe", "gap": 2, "method": "exat", "stages": "x"}"#)
                .unwrap_err();
        let told: Vec<(&str, Option<&str>)> = error
            .faults
            .iter()
            .map(|told| (told.place.as_str(), told.remedy.as_deref()))
            .collect();
        assert!(
            told.contains(&("the options", Some("did you mean `stages`?"))),
            "{told:?}"
        );
        assert!(
            told.contains(&("schedule", Some("did you mean `gpipe`?"))),
            "{told:?}"
        );
        assert!(
            told.contains(&("method", Some("did you mean `exact`?"))),
            "{told:?}"
        );
        assert!(told.iter().any(|(place, _)| *place == "gap"), "{told:?}");
        assert!(told.iter().any(|(place, _)| *place == "stages"), "{told:?}");
    }

    #[test]
    fn keywords_are_those_of_the_command_line() {
        let asked =
            options(r#"{"bandwidth": "12GB/s", "all_stages": true, "memory": "8GB", "time_limit": 0.5}"#)
                .unwrap();
        assert_eq!(asked.pipeline.bandwidth_bytes_per_s, Some(12e9));
        assert_eq!(asked.pipeline.all_stages, Some(true));
        assert_eq!(asked.memory_bytes, Some(8_000_000_000));
    }
}

//! `what-if`: options of the problem, some of which are ranges.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Failure, asked, json};
use crate::app::cli::what_if::{question, range};
use crate::app::report;
use crate::input::source::text::parser_fault;
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::instance::Instance;
use crate::solve::what_if::{Answer, Progress, ask};

/// What `what-if` tells.
#[derive(Serialize)]
struct Told<'a> {
    /// As `--format json` writes it.
    answer: &'a Answer,
    /// As `--format svg` draws it.
    svg: String,
}

/// How far it has come.
#[derive(Serialize)]
struct Step {
    /// The most stages of the curve in work, where these make curves.
    stages: Option<usize>,
    /// Searches that were run.
    searches: usize,
    /// How much longer than the optimum the best known plan may take, as a part of that; absent where that is not known.
    gap: Option<f64>,
}

/// What the keywords say beside those of the problem and of the search.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Closeness {
    tolerance: Option<f64>,
    point_limit: Option<f64>,
}

/// The optimum as a function of a number, in JSON, and as a picture.
///
/// * `text`: keywords in JSON, those with `..` in their value ranges;
/// * `told`: called after every search, with how far it has come in JSON.
///
/// # Errors
///
/// [`Failure`].
pub fn what_if(
    instance: &Instance,
    text: &str,
    interrupt: &AtomicBool,
    told: &dyn Fn(String),
) -> Result<String, Failure> {
    let (ranges, rest): (Map<String, Value>, _) = asked::object(text)?
        .into_iter()
        .partition(|(_, value)| value.as_str().is_some_and(|text| text.contains("..")));
    let (closeness, rest): (Map<String, Value>, Map<String, Value>) = rest
        .into_iter()
        .partition(|(name, _)| ["tolerance", "point_limit"].contains(&name.as_str()));
    let mut faults = Vec::new();
    let mut varied = Vec::new();
    for (name, value) in ranges {
        let value = value.as_str().unwrap_or_default();
        match range(asked::in_files(&name), value) {
            Ok(range) => varied.push(range),
            Err(expected) => {
                let expected = expected.trim_start_matches("expected ").to_owned();
                let found = format!("`{value}`");
                faults.push(Fault::new(name, FaultKind::WrongType { found, expected }));
            }
        }
    }
    if rest.contains_key("method") {
        let (found, expected) = ("a method".into(), "none: every value is asked of `exact`".into());
        faults.push(Fault::new("method", FaultKind::WrongType { found, expected }));
    }
    let closeness: Closeness = serde_json::from_value(Value::Object(closeness))
        .inspect_err(|error| faults.push(Fault::new("tolerance", parser_fault(&error.to_string()))))
        .unwrap_or_default();
    let mut within = |name: &str, value: Option<f64>, most: f64, expected: &'static str| {
        if let Some(found) = value.filter(|value| !(0.0..=most).contains(value)) {
            faults.push(Fault::new(name, FaultKind::BadNumber { found, expected }));
        }
    };
    let (tolerance, point_limit) = (closeness.tolerance, closeness.point_limit);
    within("tolerance", tolerance, 1.0, "a part from 0 to 1, such as 0.01");
    within(
        "point_limit",
        point_limit,
        1e9,
        "a number of seconds from 0 to 1e9",
    );
    if !faults.is_empty() {
        return Err(InputError { path: None, faults }.into());
    }
    let options = asked::options(&Value::Object(rest).to_string())?;
    let question = question(&varied, tolerance, point_limit)?;
    let show = |progress: &Progress| {
        told(json(&Step {
            stages: progress.stages,
            searches: progress.searches,
            gap: Some(progress.gap).filter(|gap| gap.is_finite()),
        }));
    };
    let started = Instant::now();
    let control = options.control(Some(interrupt));
    let mut answer = ask(instance, &options.pipeline, &question, &control, &show)?;
    answer.seconds = started.elapsed().as_secs_f64();
    let svg = report::what_if_svg(&answer);
    Ok(json(&Told { answer: &answer, svg }))
}

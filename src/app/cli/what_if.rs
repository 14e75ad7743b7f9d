//! `what-if`.

use std::time::{Duration, Instant};

use crate::app::report;
use crate::model::fault::{FaultKind, InputError};
use crate::model::setting;
use crate::model::words::words;
use crate::solve::what_if::{self, Parameter, Progress, Question};

use super::args::{Varied, WhatIfArgs, WhatIfFormat, read_instance};
use super::progress::{StatusLine, catch_interrupts, control};
use super::{CliError, Ending, output};

/// What may be left open where values are real: with nothing left open there would be no end.
const TOLERANCE: f64 = 0.01;

/// Follows the optimum over a range and reports it.
pub(super) fn what_if(args: &WhatIfArgs) -> Result<Ending, CliError> {
    let path = args.output.output.as_deref();
    output::check_path(path)?;
    let format = output::format_of(path, args.output.format, WhatIfFormat::Text)?;
    let question = question(&args.options.ranges, args.tolerance, args.point_limit)?;
    let instance = read_instance(&args.instance, &args.devices, args.output.quiet)?;
    catch_interrupts();
    let line = StatusLine::new(args.output.quiet);
    let show = |progress: &Progress| line.show(|| in_words(progress));
    let started = Instant::now();
    let control = control(&args.search, None);
    let answer = what_if::ask(&instance, &args.options.options, &question, &control, &show);
    line.clear();
    let mut answer = answer?;
    answer.seconds = args.output.seconds(started.elapsed().as_secs_f64());
    let text = match format {
        WhatIfFormat::Text => report::what_if(&answer, &output::style(path)),
        WhatIfFormat::Json => report::what_if_json(&answer),
        WhatIfFormat::Csv => {
            report::what_if_csv(&answer).map_err(|error| CliError::Usage(error.to_string().into()))?
        }
        WhatIfFormat::Svg => report::what_if_svg(&answer),
    };
    output::write(&text, path)?;
    Ok(if answer.has_plan() {
        Ending::Done
    } else if answer.is_infeasible() {
        Ending::Infeasible
    } else {
        Ending::NothingFound
    })
}

/// A range of an option, by the option's name in files, from text such as `1..8` or `1GB/s..100GB/s`.
///
/// # Errors
///
/// What is expected instead.
pub(crate) fn range(name: &str, text: &str) -> Result<Varied, String> {
    Varied::parse(name, text)
}

/// What ranges ask.
///
/// # Errors
///
/// Ranges that do not go together, or a tolerance that asks for too much.
pub(crate) fn question(
    ranges: &[Varied],
    tolerance: Option<f64>,
    point_limit: Option<f64>,
) -> Result<Question, CliError> {
    let (stages, others): (Vec<&Varied>, Vec<&Varied>) =
        (ranges.iter()).partition(|varied| varied.parameter == Parameter::Stages);
    let (varied, stages) = match (&others[..], &stages[..]) {
        (&[varied], []) | (&[], &[varied]) => (varied, None),
        (&[varied], &[stages]) if varied.parameter != Parameter::Devices => {
            (varied, Some([stages.from as usize, stages.to as usize]))
        }
        _ => {
            let found = match ranges.len() {
                0 => "no range".to_owned(),
                _ => {
                    let names = ranges.iter().map(|varied| varied.parameter.to_string());
                    format!("ranges of {}", names.collect::<Vec<_>>().join(", "))
                }
            };
            return Err(CliError::Usage(words!(
                "found {}, expected one of {}, {}, {}, {} or {} as a range such as {}; {} may be one beside a bandwidth, a memory or tokens",
                found,
                setting::BANDWIDTH,
                setting::MEMORY_LIMIT,
                setting::STAGES,
                setting::DEVICES,
                setting::TOKENS,
                setting::BANDWIDTH.given("1GB/s..100GB/s"),
                setting::STAGES
            )));
        }
    };
    let is_continuous = varied.parameter.is_continuous();
    let tolerance = tolerance.unwrap_or(if is_continuous { TOLERANCE } else { 0.0 });
    if is_continuous && tolerance <= 0.0 {
        let kind = FaultKind::BadNumber {
            found: tolerance,
            expected: "a part above 0 for bandwidths, of which there are too many to leave nothing open",
        };
        return Err(InputError::option(setting::TOLERANCE, kind).into());
    }
    Ok(Question {
        parameter: varied.parameter,
        from: varied.from,
        to: varied.to,
        stages,
        tolerance,
        point_limit: point_limit.map(Duration::from_secs_f64),
    })
}

fn in_words(progress: &Progress) -> String {
    let of = match progress.stages {
        Some(stages) => format!(" in at most {stages} stages"),
        None => String::new(),
    };
    let searches = progress.searches;
    match progress.gap.is_finite() {
        true => format!(
            "{searches} searches{of}  within {:.2} % of the optimum  Ctrl-C keeps what is known",
            100.0 * progress.gap
        ),
        false => format!("{searches} searches{of}  Ctrl-C keeps what is known"),
    }
}

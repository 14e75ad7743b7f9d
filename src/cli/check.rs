//! `check`.

use std::path::Path;

use crate::check;
use crate::fault::{Fault, FaultKind, InputError, printable};
use crate::import;
use crate::plan::{Plan, SCHEMA};
use crate::problem::Problem;
use crate::settings::Settings;

use super::args::CheckArgs;
use super::{CliError, Ending, output};

/// Recomputes a plan and lists what is wrong with it.
pub fn check(args: &CheckArgs) -> Result<Ending, CliError> {
    let instance = args.problem.read(args.quiet)?;
    let plan = read_plan(&args.plan)?;
    let options = args.problem.options.clone().or(&plan.problem);
    let settings = Settings::resolve(&instance, &options)?;
    // The checker adds up without looking out for overflow; a problem that can be formed has none.
    let Problem { settings, .. } = Problem::new(&instance, settings)?;
    let violations = check::check(&instance, &settings, &plan);
    let shown = args.plan.display();
    if violations.is_empty() {
        let objective = plan
            .objective_ms
            .map_or_else(String::new, |ms| format!(", objective {ms:.6} ms"));
        let text = format!(
            "`{shown}` passes: {} plan in {} stages{objective}\n",
            plan.status,
            plan.stages.len()
        );
        output::write(&text, None)?;
        return Ok(Ending::Done);
    }
    let plural = if violations.len() == 1 {
        "violation"
    } else {
        "violations"
    };
    let mut text = format!("`{shown}` fails: {} {plural}\n", violations.len());
    for violation in &violations {
        text.push_str(&format!("  {}\n", printable(&violation.to_string())));
    }
    output::write(&text, None)?;
    Ok(Ending::CheckFailed)
}

/// The fields that tell a plan from other files.
#[derive(serde::Deserialize)]
struct Kind {
    schema: Option<String>,
}

/// Reads a plan in JSON.
pub fn read_plan(path: &Path) -> Result<Plan, CliError> {
    let in_file = |faults: Vec<Fault>| InputError::in_file(path, faults);
    let bytes = std::fs::read(path).map_err(|error| in_file(vec![Fault::unreadable(path, &error)]))?;
    // Named so that a plan is read as JSON whatever its extension.
    let source = import::Source {
        path: Path::new("plan.json"),
        bytes: &bytes,
    };
    // A file of another kind is told so, not that it lacks the fields of a plan.
    let kind: Kind = import::from_structured(&source).map_err(in_file)?;
    if kind.schema.as_deref() != Some(SCHEMA) {
        let kind = match kind.schema {
            Some(found) => FaultKind::UnknownValue {
                found,
                known: vec![SCHEMA.into()],
            },
            None => FaultKind::Missing {
                what: "field `schema`".into(),
                expected: format!("`{SCHEMA}`"),
                remedy: "write the plan with `stagecut solve --format json`".into(),
            },
        };
        return Err(in_file(vec![Fault::new("schema", kind)]).into());
    }
    Ok(import::from_structured(&source).map_err(in_file)?)
}

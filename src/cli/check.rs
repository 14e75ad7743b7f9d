//! `check`.

use std::path::Path;

use crate::check;
use crate::fault::{Fault, FaultKind, InputError};
use crate::import;
use crate::plan::Plan;
use crate::settings::Settings;

use super::args::CheckArgs;
use super::{CliError, Ending, output};

/// Recomputes a plan and lists what is wrong with it.
pub fn check(args: &CheckArgs) -> Result<Ending, CliError> {
    let instance = args.problem.read(args.quiet)?;
    let plan = read_plan(&args.plan)?;
    let options = args.problem.options.clone().or(&plan.problem);
    let settings = Settings::resolve(&instance, &options)?;
    let violations = check::check(&instance, &settings, &plan);
    let shown = args.plan.display();
    if violations.is_empty() {
        let objective = plan.objective_ms.map_or_else(String::new, |ms| format!(", objective {ms:.6} ms"));
        let text = format!("`{shown}` passes: {} plan in {} stages{objective}\n", plan.status, plan.stages.len());
        output::write(&text, None)?;
        return Ok(Ending::Done);
    }
    let mut text = format!("`{shown}` fails: {} violations\n", violations.len());
    for violation in &violations {
        text.push_str(&format!("  {violation}\n"));
    }
    output::write(&text, None)?;
    Ok(Ending::CheckFailed)
}

/// Reads a plan in JSON.
pub fn read_plan(path: &Path) -> Result<Plan, CliError> {
    let in_file = |faults: Vec<Fault>| InputError::in_file(path, faults);
    let bytes = std::fs::read(path)
        .map_err(|error| in_file(vec![Fault::new("the file", FaultKind::Unreadable(error.to_string()))]))?;
    // Named so that a plan is read as JSON whatever its extension.
    let source = import::Source {
        path: Path::new("plan.json"),
        bytes: &bytes,
    };
    Ok(import::from_structured(&source).map_err(in_file)?)
}

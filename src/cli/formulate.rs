//! `formulate`.

use crate::exact::{bounds, highs};
use crate::formulations::partition::{Interest, Partition, item_labels};
use crate::formulations::staging::Windows;

use super::args::FormulateArgs;
use super::{CliError, Ending};

/// Writes the textbook program of a problem.
pub fn formulate(args: &FormulateArgs) -> Result<Ending, CliError> {
    let extension = args.output.extension().and_then(|extension| extension.to_str());
    if !matches!(extension, Some("lp" | "mps")) {
        return Err(CliError::Usage(format!(
            "found output `{}`, expected a name that ends in `.lp` or `.mps`",
            args.output.display()
        )));
    }
    let (instance, problem) = args.problem.problem(args.quiet)?;
    if problem.workers.is_some() {
        return Err(CliError::Usage(
            "workers that differ have no program to write; name one device kind with `--device-kinds`".into(),
        ));
    }
    let labels = item_labels(&instance, &problem);
    let limit_ns = bounds::all_in_one_ns(&problem);
    let Partition { program, .. } = Partition::build(
        &problem,
        &Windows::all(&problem),
        Interest::up_to(limit_ns),
        &labels,
    );
    if !args.quiet {
        super::output::note(&format!(
            "one unit of time in the program is {} ns; {} binaries, {} rows",
            program.scale_ns,
            program.binaries(),
            program.rows.len()
        ));
    }
    std::fs::write(&args.output, "").map_err(|error| CliError::write(&args.output, error))?;
    highs::write(program, &instance.name, &args.output)?;
    Ok(Ending::Done)
}

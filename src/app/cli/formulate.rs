//! `formulate`.

use crate::solve::formulate::{comment_mark, write};

use super::args::FormulateArgs;
use super::{CliError, Ending, output};

/// Writes the textbook program of a problem.
pub(super) fn formulate(args: &FormulateArgs) -> Result<Ending, CliError> {
    comment_mark(&args.output)?;
    output::check_path(Some(&args.output))?;
    let (instance, problem) = args.problem.problem(args.quiet)?;
    let written = write(&instance, &problem, &args.output)?;
    if !args.quiet {
        output::note(&format!(
            "one unit of time in the program is {} ns; {} binaries, {} rows; comments in the file say how to read its objective",
            written.unit_ns, written.binaries, written.rows
        ));
    }
    Ok(Ending::Done)
}

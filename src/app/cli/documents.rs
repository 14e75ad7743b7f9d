//! `schema` and `man`: what is printed about the program itself.

use std::path::Path;

use clap::CommandFactory;

use crate::model::spec;
use crate::online;
use crate::problem::plan::bare;

use super::args::Described;
use super::{Cli, CliError, Ending, output};

/// Prints the JSON Schema of a format.
pub(super) fn schema(of: Described) -> Result<Ending, CliError> {
    let schema = match of {
        Described::Instance => spec::json_schema(),
        Described::Plan => bare::json_schema(),
        Described::Scenario => online::spec::json_schema(),
    };
    output::write(&format!("{schema:#}\n"), None)?;
    Ok(Ending::Done)
}

/// Prints the manual page, or writes one for every command into a folder.
pub(super) fn man(folder: Option<&Path>) -> Result<Ending, CliError> {
    match folder {
        Some(folder) => {
            let written = clap_mangen::generate_to(Cli::command(), folder);
            written.map_err(|error| CliError::write(folder, error))?;
        }
        None => {
            let mut page = Vec::new();
            let rendered = clap_mangen::Man::new(Cli::command()).render(&mut page);
            rendered.map_err(|error| CliError::write(Path::new("stdout"), error))?;
            output::write(&String::from_utf8_lossy(&page), None)?;
        }
    }
    Ok(Ending::Done)
}

//! `import` and `schema`.

use crate::import::read_spec;
use crate::instance::Instance;
use crate::instance::spec::{SCHEMA, json_schema};

use super::args::ImportArgs;
use super::{CliError, Ending, output};

/// Converts a file to a native instance, once it is known to be a valid one.
pub fn import(args: &ImportArgs) -> Result<Ending, CliError> {
    let (mut spec, notes) = read_spec(&args.file)?;
    let instance = Instance::read(&args.file, None)?;
    if !args.quiet {
        notes.iter().for_each(|note| output::note(note));
    }
    spec.schema = Some(SCHEMA.into());
    spec.name = Some(instance.name);
    let is_toml = args
        .output
        .as_ref()
        .is_some_and(|path| path.extension().is_some_and(|e| e == "toml"));
    let text = match is_toml {
        true => toml::to_string(&spec).map_err(|error| CliError::Usage(error.to_string()))?,
        false => {
            serde_json::to_string_pretty(&spec).map_err(|error| CliError::Usage(error.to_string()))? + "\n"
        }
    };
    output::write(&text, args.output.as_deref())?;
    Ok(Ending::Done)
}

/// Prints the JSON Schema of native instances.
pub fn schema() -> Result<Ending, CliError> {
    output::write(&format!("{:#}\n", json_schema()), None)?;
    Ok(Ending::Done)
}

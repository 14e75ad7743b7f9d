//! `import` and `generate`.

use std::path::Path;

use crate::app::flags::as_flags;
use crate::app::report;
use crate::input::generate::random::random;
use crate::input::generate::transformer::transformer;
use crate::input::import::config::{self, Summary, read_model};
use crate::input::import::read_spec;
use crate::input::read::stem;
use crate::model::fault::InputError;
use crate::model::instance::Instance;
use crate::model::precision::Precision;
use crate::model::spec::{InstanceSpec, SCHEMA};

use super::args::{Family, GenerateArgs, ImportArgs, ReportFormat};
use super::{CliError, Ending, output};

/// Converts a file to a native instance, once it is known to be a valid one.
pub(super) fn import(args: &ImportArgs) -> Result<Ending, CliError> {
    let path = args.output.as_deref();
    format(path)?;
    output::check_path(path)?;
    if args.summary {
        return summary(args);
    }
    let (mut spec, notes) = match args.model.any() {
        true => read_model(&args.file, &args.model.asked())?,
        false => read_spec(&args.file)?,
    };
    let instance = match args.model.any() {
        true => {
            let valid = Instance::validated(&spec, &stem(&args.file), notes);
            valid.map_err(|faults| InputError::in_file(&args.file, faults))?
        }
        false => Instance::read(&args.file, None)?,
    };
    if !args.quiet {
        let unordered = instance.network.unordered_in_words();
        let notes = instance.notes.iter().map(|note| note.written(as_flags));
        notes.chain(unordered).for_each(|note| output::note(&note));
    }
    spec.schema = Some(SCHEMA.into());
    spec.name = Some(instance.name);
    write(&spec, path)
}

/// A summary as programs read it.
#[derive(serde::Serialize)]
struct Named<'a> {
    /// The file's name without folders and extension.
    model: &'a str,
    /// Numbers in which keys and values are kept.
    precision: Precision,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// Writes what the model of a configuration has.
fn summary(args: &ImportArgs) -> Result<Ending, CliError> {
    let path = args.output.as_deref();
    let precision = args.model.asked().precision();
    let (summary, notes) = config::summary(&args.file, precision)?;
    if !args.quiet {
        notes
            .iter()
            .for_each(|note| output::note(&note.written(as_flags)));
    }
    let name = stem(&args.file);
    let text = match args.format {
        ReportFormat::Text => report::model(&summary, &name),
        ReportFormat::Json => {
            let named = Named {
                model: &name,
                precision: precision.into(),
                summary: &summary,
            };
            serde_json::to_string_pretty(&named).map_err(|error| CliError::Usage(error.to_string().into()))?
                + "\n"
        }
    };
    output::write(&text, path)?;
    Ok(Ending::Done)
}

/// Serves the program that reads models.
#[cfg(feature = "onnx")]
pub(super) fn infer_shapes() -> Result<Ending, CliError> {
    let served = crate::input::import::onnx::isolated::serve();
    served.map_err(|error| CliError::write(Path::new("stdout"), error))?;
    Ok(Ending::Done)
}

/// Makes an instance.
pub(super) fn generate(args: &GenerateArgs) -> Result<Ending, CliError> {
    match &args.family {
        Family::Transformer { asked, output } => write(&transformer(asked)?, output.as_deref()),
        Family::Random { asked, output } => write(&random(asked), output.as_deref()),
    }
}

/// Formats of instances.
#[derive(Clone, Copy)]
enum Format {
    Json,
    Toml,
}

/// TOML, where the path says so, or JSON.
fn format(path: Option<&Path>) -> Result<Format, CliError> {
    let known = [("json", Format::Json), ("toml", Format::Toml)];
    output::format(path, None, Format::Json, &known)
}

fn write(spec: &InstanceSpec, path: Option<&Path>) -> Result<Ending, CliError> {
    let format = format(path)?;
    output::check_path(path)?;
    let text = match format {
        Format::Toml => toml::to_string(spec).map_err(|error| CliError::Usage(error.to_string().into()))?,
        Format::Json => {
            serde_json::to_string_pretty(spec).map_err(|error| CliError::Usage(error.to_string().into()))?
                + "\n"
        }
    };
    output::write(&text, path)?;
    Ok(Ending::Done)
}

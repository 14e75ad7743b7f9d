//! `layout`: what the stages of a layout of Megatron hold.

use serde::Serialize;

use crate::app::flags::as_flags;
use crate::export::megatron_layout::{Layout, Letter, Model};
use crate::model::fault::InputError;

use super::args::{LayoutArgs, ReportFormat};
use super::{CliError, Ending, output};

/// Says what the stages hold, or refuses the layout for all the reasons that Megatron has.
pub(super) fn layout(args: &LayoutArgs) -> Result<Ending, CliError> {
    let model = Model {
        devices: args.devices as usize,
        virtual_stages: args.virtual_stages.map(|chunks| chunks as usize),
        decoders: args.layers as usize,
        mtp: args.mtp as usize,
    };
    let read = Layout::accepted(&args.layout, &model);
    match args.format {
        ReportFormat::Json => output::write(&json(&args.layout, &model, &read)?, None)?,
        ReportFormat::Text => {
            if let Ok(layout) = &read {
                output::write(&text(layout, &model), None)?;
            }
        }
    }
    read?;
    Ok(Ending::Done)
}

fn text(layout: &Layout, model: &Model) -> String {
    let by_stage = layout.by_stage(Letter::Decoder);
    let listed: Vec<String> = by_stage.iter().map(usize::to_string).collect();
    let mut text = format!(
        "`{layout}` is accepted: {} stages, {} on each of {} devices; {} decoder layers, {} of multi-token prediction\n\
         decoder layers by stage: {}\n",
        layout.stages.len(),
        layout.virtual_stages(model.devices).unwrap_or(1),
        model.devices,
        model.decoders,
        model.mtp,
        listed.join(" ")
    );
    for (at, stage) in layout.stages.iter().enumerate() {
        let held = match stage.is_empty() {
            true => "nothing".to_owned(),
            false => alone(stage).to_string(),
        };
        let (device, chunk) = (at % model.devices + 1, at / model.devices + 1);
        text += &format!("  stage {} on device {device}, chunk {chunk}: {held}\n", at + 1);
    }
    text
}

/// A stage as a layout of its own.
fn alone(stage: &[Letter]) -> Layout {
    Layout {
        stages: vec![stage.to_vec()],
    }
}

/// What a layout is, for programs.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    layout: &'a str,
    accepted: bool,
    /// Why it is refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<String>,
    #[serde(flatten)]
    accepts: Option<Accepted>,
}

#[derive(Serialize)]
struct Accepted {
    devices: usize,
    stages: usize,
    virtual_stages: usize,
    decoder_layers: usize,
    mtp_layers: usize,
    decoders_per_stage: Vec<usize>,
    /// The letters of every stage, each written out.
    contents: Vec<String>,
}

fn json(text: &str, model: &Model, read: &Result<Layout, InputError>) -> Result<String, CliError> {
    let letters = |stage: &Vec<Letter>| stage.iter().map(|letter| letter.symbol()).collect();
    let accepts = read.as_ref().ok().map(|layout| Accepted {
        devices: model.devices,
        stages: layout.stages.len(),
        virtual_stages: layout.virtual_stages(model.devices).unwrap_or(1),
        decoder_layers: model.decoders,
        mtp_layers: model.mtp,
        decoders_per_stage: layout.by_stage(Letter::Decoder),
        contents: layout.stages.iter().map(letters).collect(),
    });
    let faults = read.as_ref().err().into_iter().flat_map(|error| &error.faults);
    let report = Report {
        schema: "stagecut-layout/1",
        layout: text,
        accepted: accepts.is_some(),
        reasons: faults.map(|fault| fault.written(as_flags)).collect(),
        accepts,
    };
    let text =
        serde_json::to_string_pretty(&report).map_err(|error| CliError::Usage(error.to_string().into()))?;
    Ok(text + "\n")
}

//! Configurations of published models: `config.json` of Hugging Face. What a row of `architectures` and the fields of a file say becomes a
//! model of `input::transformer`, and that a network.
//!
//! Parameters are counted as checkpoints hold them, to the unit. What a file says and this does not model is said in a note.

mod architectures;
mod fields;
mod json;
mod language;
mod towers;

use std::path::Path;

use serde_json::{Map, Value};

use super::{Imported, Source, is_object, unlimited_cluster};
use crate::input::intake;
use crate::input::source::text::{fault_at, json_fault};
use crate::input::transformer::{
    Attention, Block, Granularity, Model, Phase, Precision, Run, degrees, network, request_in_pieces,
    uneven_degrees,
};
pub use crate::input::transformer::{LayerRun, Summary};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::setting;
use crate::model::spec::InstanceSpec;
use crate::model::words::{Words, words};

use architectures::{ARCHITECTURES, Architecture};
pub use architectures::{Described, described};
use fields::Fields;
use language::Language;
use towers::SEEING;

/// The longest sequence where none is asked for.
const SEQUENCE: f64 = 4096.0;

/// How a model is run; what is not given is a default.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Tokens of a sequence: by default 4,096, or as many as the model has positions for.
    pub sequence: Option<u32>,
    /// Tokens before these whose keys and values are cached: a forward pass alone.
    pub context: Option<u32>,
    /// What a server does: then a forward pass alone, and `sequence` and `context` have the defaults of that.
    pub phase: Option<Phase>,
    /// Tokens of a prompt that a server reads, and of what it writes behind it, where a micro-batch is a whole request.
    pub prefill_tokens: Option<u32>,
    /// See `prefill_tokens`.
    pub decode_tokens: Option<u32>,
    /// Sequences of a micro-batch: by default 1.
    pub micro_batch: Option<u32>,
    /// Numbers to compute with: by default bf16.
    pub precision: Option<Precision>,
    /// How attention is computed.
    pub attention: Attention,
    /// Degrees of tensor parallelism to write modes for: by default those of 1, 2, 4, 8 that divide all heads of keys and values.
    pub tensor: Option<Vec<u32>>,
    /// Whether tensor groups split by sequence what they do not split by width.
    pub sequence_parallel: bool,
    /// What a layer of the instance is: by default a block.
    pub granularity: Option<Granularity>,
    /// Micro-batches of an iteration, each of which takes its part of the optimiser's step.
    pub micro_batches: Option<u32>,
    /// Layers that predict further tokens, of those that the model has: by default none.
    pub mtp: Option<u32>,
}

impl Asked {
    /// A whole request as the prompt that it begins with.
    fn as_prompt(&self) -> Self {
        let prompt = self.prefill_tokens;
        Self {
            phase: prompt.map(|_| Phase::Prefill).or(self.phase),
            context: prompt.or(self.context),
            ..self.clone()
        }
    }

    /// Numbers to compute with.
    pub fn precision(&self) -> Precision {
        self.precision.unwrap_or(Precision::Bf16)
    }
}

/// What is known of a model from its file.
struct Known {
    model: Model,
    architecture: &'static Architecture,
    /// Positions that it was made for, where it says so.
    positions: Option<f64>,
    notes: Vec<Words>,
}

/// Whether a file is a JSON object that names a type of model or a class.
pub(super) fn detect(source: &Source) -> bool {
    // Faults of its syntax are told as such.
    let names = |text: &str| text.contains("\"model_type\"") || text.contains("\"architectures\"");
    is_object(source) && source.text().is_ok_and(names) && {
        let object = source.text().ok().and_then(|text| json::object(text).ok());
        object.is_none_or(|object| object.contains_key("model_type") || object.contains_key("architectures"))
    }
}

/// What sees images: values of `model_type` of the whole.
pub fn seeing() -> Vec<&'static str> {
    SEEING.iter().map(|form| form.name).collect()
}

/// Reads a configuration as a network, in the way that is run where nothing is asked.
pub(super) fn read(source: &Source) -> Imported {
    read_asked(source, &Asked::default())
}

/// Reads a file that must be a configuration.
///
/// # Errors
///
/// Every fault of the file, or that it is none.
pub fn read_model(path: &Path, asked: &Asked) -> Result<(InstanceSpec, Vec<Words>), InputError> {
    in_file(path, |source| read_asked(source, asked))
}

/// What the model of a configuration has, and notes.
///
/// # Errors
///
/// Every fault of the file, or that it is none.
pub fn summary(path: &Path, precision: Precision) -> Result<(Summary, Vec<Words>), InputError> {
    in_file(path, |source| {
        let known = known(source)?;
        Ok((known.model.summary(precision), known.notes))
    })
}

fn in_file<T>(path: &Path, read: impl FnOnce(&Source) -> Result<T, Vec<Fault>>) -> Result<T, InputError> {
    let bytes =
        intake::read(path).map_err(|error| InputError::in_file(path, [Fault::unreadable(path, &error)]))?;
    let source = Source { path, bytes: &bytes };
    let outcome = match detect(&source) {
        true => read(&source),
        false => Err(vec![Fault::new(
            "the file",
            FaultKind::Unsupported {
                found: "no configuration of a model".into(),
                expected: "a JSON object with `model_type` or `architectures`, which these options are for"
                    .into(),
            },
        )]),
    };
    outcome.map_err(|faults| InputError::in_file(path, faults))
}

fn read_asked(source: &Source, asked: &Asked) -> Imported {
    let asked = &asked.as_prompt();
    let mut known = known(source)?;
    let mut faults = Vec::new();
    let heads = known.model.shared_heads();
    for heads in &heads {
        faults.extend(uneven_degrees(asked.tensor.as_deref(), *heads));
    }
    let granularity = asked.granularity.unwrap_or(Granularity::Block);
    faults.extend(request_in_pieces(asked.decode_tokens, granularity));
    faults.extend(uncached(&known.model, asked));
    faults.extend(unpredicted(&known.model, asked));
    if !faults.is_empty() {
        return Err(faults);
    }
    let predictors = asked.mtp.unwrap_or(0) as usize;
    let left_out = known.model.predictors.split_off(predictors).len();
    let most = known.positions.unwrap_or(SEQUENCE).min(SEQUENCE);
    let [sequence, context] = match asked.phase {
        Some(phase) => phase.tokens(asked.sequence, asked.context, most).map(Some),
        None => [asked.sequence.map(f64::from), asked.context.map(f64::from)],
    };
    let run = Run {
        sequence: sequence.unwrap_or(most),
        context,
        phase: asked.phase,
        written: asked.decode_tokens,
        micro_batch: f64::from(asked.micro_batch.unwrap_or(1)),
        precision: asked.precision(),
        attention: asked.attention,
        degrees: degrees(asked.tensor.as_deref(), granularity, &heads),
        sequence_parallel: asked.sequence_parallel,
        granularity,
        micro_batches: asked.micro_batches,
        spread: 0.0,
        seed: 0,
    };
    let mut notes = known.notes;
    notes.extend(assumed(&known.model, &run, asked));
    if left_out > 0 {
        notes.push(words!(
            "layers that predict further tokens are left out of the network: {}; {} puts so many in",
            left_out.to_string(),
            setting::MTP.given(left_out + predictors)
        ));
    }
    let cluster = run.precision.cluster();
    let cluster = unlimited_cluster(cluster).map_err(|error| error.faults)?;
    let spec = InstanceSpec {
        provenance: Some(format!(
            "a configuration of Hugging Face, architecture {}; {} layers, sequence {}, micro-batch {}, {:?}, {:?} attention",
            known.architecture.name,
            known.model.blocks.len(),
            run.sequence,
            run.micro_batch,
            run.precision,
            run.attention,
        )),
        network: network(&known.model, &run),
        cluster: Some(cluster),
        pipeline: run.pipeline(),
        ..Default::default()
    };
    Ok((spec, notes))
}

/// What is wrong with a cache.
fn uncached(model: &Model, asked: &Asked) -> Option<Fault> {
    let at = match (asked.context, asked.phase) {
        (None, None) => return None,
        (Some(_), _) => setting::CONTEXT,
        (None, Some(_)) => setting::PHASE,
    };
    let kind = FaultKind::Unsupported {
        found: "a cache before layers that attend to what a tower saw".into(),
        expected: words!("such a model without {}", setting::CONTEXT),
    };
    let crosses = model.blocks.iter().any(Block::crosses);
    crosses.then(|| Fault::new(at, kind))
}

/// What is wrong with the layers for further tokens that are asked for.
fn unpredicted(model: &Model, asked: &Asked) -> Option<Fault> {
    let (mtp, most) = (asked.mtp? as usize, model.predictors.len());
    let kind = match () {
        () if mtp > most => FaultKind::Unsupported {
            found: format!("{mtp} layers that predict further tokens").into(),
            expected: format!("at most {most}, which the file says (`num_nextn_predict_layers`)").into(),
        },
        () if mtp > 0 && (asked.context.is_some() || asked.phase.is_some()) => FaultKind::Unsupported {
            found: "layers that predict further tokens in a forward pass alone".into(),
            expected: "them in training: drafts of tokens are not modelled".into(),
        },
        () => return None,
    };
    Some(Fault::new(setting::MTP, kind))
}

/// What was assumed of how it is run.
fn assumed(model: &Model, run: &Run, asked: &Asked) -> Vec<Words> {
    let mut notes = Vec::new();
    if asked.sequence.is_none() && asked.phase.is_none() {
        notes.push(words!(
            "sequences of {} tokens, unless {} says otherwise when it is imported",
            run.sequence.to_string(),
            setting::SEQUENCE
        ));
    }
    match &model.tower {
        Some(_) if !run.trains() => {
            notes.push("the vision tower is left out: what it saw is in the cache".into())
        }
        Some(tower) => notes.push(words!(
            "one image a sequence, {} vectors in the vision tower, which is trained with the rest",
            tower.tokens.to_string()
        )),
        None => {}
    }
    notes
}

/// What a file says.
fn known(source: &Source) -> Result<Known, Vec<Fault>> {
    let text = source.text()?;
    let whole = json::object(text).map_err(|error| {
        let line = text
            .lines()
            .nth(error.line().saturating_sub(1))
            .unwrap_or_default();
        let start = line.as_ptr() as usize - text.as_ptr() as usize;
        let at = (start + error.column().saturating_sub(1)).min(text.len());
        vec![fault_at(text, at..at, json_fault(&error))]
    })?;
    let outer = Fields::new(&whole, "", &[], &[]);
    let own_type = outer.text("model_type");
    let seeing = SEEING.iter().find(|form| Some(form.name) == own_type);
    let inner = outer.object("text_config");
    let at = if inner.is_some() { "text_config." } else { "" };
    let object = inner.unwrap_or(&whole);
    let architecture = architecture(object, own_type, at)?;
    let fields = Fields::new(object, at, architecture.defaults, architecture.names);
    let language = Language {
        architecture,
        fields: &fields,
    };
    // The whole decides where both say it.
    let is_tied = outer
        .flag("tie_word_embeddings")
        .or_else(|| fields.flag("tie_word_embeddings"));
    let mut model = language.model(is_tied);
    let positions = fields.maybe("max_position_embeddings");
    let mut faults = outer.faults();
    let mut notes = Vec::new();
    match (seeing, whole.get("vision_config").and_then(Value::as_object)) {
        (Some(form), Some(vision)) => match form.tower(vision, model.width) {
            Ok(tower) => model.tower = Some(tower),
            Err(more) => faults.extend(more),
        },
        (Some(_), None) => notes.push("no `vision_config`: the language model alone".into()),
        (None, Some(_)) => faults.push(unknown("a vision tower of an unknown form", own_type, at)),
        (None, None) => {}
    }
    if model.tower.is_none() && model.blocks.iter().any(Block::crosses) {
        faults.push(Fault::new("vision_config", missing("vision_config")));
    }
    faults.extend(fields.faults());
    if faults.is_empty() {
        faults.extend(too_large(&model));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    notes.extend(left_out(&model, &whole));
    Ok(Known {
        model,
        architecture,
        positions,
        notes,
    })
}

fn missing(name: &str) -> FaultKind {
    FaultKind::Missing {
        what: format!("`{name}`"),
        expected: "what this architecture needs".into(),
        remedy: "take the whole file of the model, which says it".into(),
    }
}

/// The row of an object's type, or of its class where it names no type.
fn architecture(
    object: &Map<String, Value>,
    outer: Option<&str>,
    at: &'static str,
) -> Result<&'static Architecture, Vec<Fault>> {
    let own = object.get("model_type").and_then(Value::as_str);
    let of_whole = outer.and_then(|name| SEEING.iter().find(|form| form.name == name));
    let found = match (own, of_whole) {
        // A model that sees, whose language model is described beside the rest.
        (Some(name), Some(form)) if name == form.name => architectures::of_type(form.text),
        (Some(name), _) => architectures::of_type(name),
        (None, Some(form)) => architectures::of_type(form.text),
        (None, None) => {
            let classes = object.get("architectures").and_then(Value::as_array);
            let class = classes
                .and_then(|classes| classes.first())
                .and_then(Value::as_str);
            ARCHITECTURES
                .iter()
                .find(|row| class.is_some_and(|class| class == row.class))
        }
    };
    found.ok_or_else(|| vec![unknown("an unknown architecture", own.or(outer), at)])
}

fn unknown(what: &str, name: Option<&str>, at: &'static str) -> Fault {
    let known = ARCHITECTURES.iter().flat_map(|row| row.types);
    let seeing = SEEING.iter().map(|form| form.name);
    let mut known: Vec<&str> = known.copied().chain(seeing).collect();
    known.sort_unstable();
    known.dedup();
    let found = match name {
        Some(name) => format!("{what}, `{name}`"),
        None => what.to_owned(),
    };
    let kind = FaultKind::Unsupported {
        found: found.into(),
        expected: format!("one of {}", known.join(", ")).into(),
    };
    Fault::new(format!("{at}model_type"), kind)
}

/// Counts beyond what is exact.
fn too_large(model: &Model) -> Option<Fault> {
    const MOST: u64 = 1 << 53;
    let found = model.summary(Precision::Bf16).parameters;
    (found >= MOST).then(|| {
        let kind = FaultKind::Overflow {
            found: found as f64,
            most: MOST,
            unit: "parameters",
        };
        Fault::new("the file", kind)
    })
}

/// What a model has and a network does not.
fn left_out(model: &Model, whole: &Map<String, Value>) -> Vec<Words> {
    let mut notes: Vec<Words> = Vec::new();
    if model
        .embedding
        .as_ref()
        .is_some_and(|embedding| embedding.is_tied)
    {
        notes.push(
            "the head is the table of words (`tie_word_embeddings`): each stage that needs it holds a copy, and their gradients are summed \
             once an iteration (`shared`)"
                .into(),
        );
    }
    if model.blocks.iter().any(Block::has_experts) {
        notes.push(
            words!(
                "experts: tokens choose them evenly and none is dropped; replicas of a stage share them out where {} says so",
                setting::EXPERT
            ),
        );
    }
    if whole
        .get("quantization_config")
        .is_some_and(|quantised| !quantised.is_null())
    {
        notes.push("`quantization_config` is left out: weights have the precision of the instance".into());
    }
    notes
}

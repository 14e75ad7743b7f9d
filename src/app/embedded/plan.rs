//! `plan`: options of the problem, of the search, and of the model that is planned for a batch.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Failure, asked, json};
use crate::app::cli::plan::{instance_of, precision, tensor, told};
use crate::app::report::Chosen;
use crate::input::import::config::Asked;
use crate::input::import::given_cluster;
use crate::input::source::text::parser_fault;
use crate::input::transformer::Attention;
use crate::model::efficiency::Efficiency;
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::spec::{ClusterSpec, GivenCluster};
use crate::problem::control::Control;
use crate::problem::plan::Plan;
use crate::solve::global_batch::{self, Question, Step, TIME_LIMIT};

/// What the keywords say beside those of the problem and of the search.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Batch {
    global_batch: u32,
    sequence: Option<u32>,
    #[serde(default, deserialize_with = "sizes")]
    micro_batch: Option<Vec<u32>>,
    #[serde(default)]
    attention: Attention,
    mtp: Option<u32>,
    cluster: Option<Devices>,
    efficiency: Option<Efficiency>,
}

/// The names of these keywords.
const OF_BATCH: [&str; 7] = [
    "global_batch",
    "sequence",
    "micro_batch",
    "attention",
    "mtp",
    "cluster",
    "efficiency",
];

/// A preset's name, a file, or a document.
#[derive(Deserialize)]
#[serde(untagged, expecting = "the name of a preset, a file, or a cluster as a dict")]
enum Devices {
    Named(String),
    Document(Box<ClusterSpec>),
}

fn sizes<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Vec<u32>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a number of sequences, or a list of them")]
    enum Written {
        One(u32),
        List(Vec<u32>),
    }
    Ok(
        Option::<Written>::deserialize(from)?.map(|written| match written {
            Written::One(size) => vec![size],
            Written::List(sizes) => sizes,
        }),
    )
}

/// What `plan` tells.
#[derive(Serialize)]
struct Planned {
    /// As `--format json` writes it; absent without a plan.
    choice: Option<Value>,
    /// As `--format text` writes it; absent without a plan.
    text: Option<String>,
    /// The plan, or why there is none of the least size.
    plan: Plan,
    /// What it is a plan of.
    instance: Value,
}

/// How far it has come.
#[derive(Serialize)]
struct Told {
    micro_batch: u32,
    seconds: f64,
    objective_ms: Option<f64>,
    bound_ms: f64,
}

/// The best plan of a model for a batch, in JSON.
///
/// * `path`: the configuration of the model;
/// * `text`: keywords in JSON;
/// * `tell`: called now and then, with how far it has come in JSON.
///
/// # Errors
///
/// [`Failure`].
pub fn plan(
    path: &Path,
    text: &str,
    interrupt: &AtomicBool,
    tell: &(dyn Fn(String) + Sync),
) -> Result<String, Failure> {
    let (batch, rest): (Map<String, Value>, Map<String, Value>) = asked::object(text)?
        .into_iter()
        .partition(|(name, _)| OF_BATCH.contains(&name.as_str()));
    let batch: Batch = serde_json::from_value(Value::Object(batch))
        .map_err(|error| InputError::option("the options", parser_fault(&error.to_string())))?;
    refuse_zero(&batch)?;
    let options = asked::options(&Value::Object(rest).to_string())?;
    let cluster = match batch.cluster {
        None => None,
        Some(Devices::Named(name)) => Some(given_cluster(&name)?),
        Some(Devices::Document(content)) => Some(GivenCluster {
            name: "the cluster".into(),
            content: *content,
        }),
    };
    let question = Question {
        model: Asked {
            sequence: batch.sequence,
            precision: Some(precision(&options.pipeline)),
            attention: batch.attention,
            tensor: tensor(&options.pipeline),
            sequence_parallel: true,
            mtp: batch.mtp,
            ..Asked::default()
        },
        cluster,
        efficiency: batch.efficiency,
        global_batch: batch.global_batch,
        sizes: batch.micro_batch,
        options: options.pipeline.clone(),
    };
    let control = Control {
        time_limit: Some(options.time_limit.unwrap_or(TIME_LIMIT)),
        ..options.control(Some(interrupt))
    };
    let show = |step: &Step| {
        tell(json(&Told {
            micro_batch: step.micro_batch,
            seconds: step.seconds,
            objective_ms: step.best_ms,
            bound_ms: step.bound_ms,
        }));
    };
    let answer = global_batch::search(path, &question, &control, &show)?;
    let target = options.pipeline.target;
    let told = answer
        .best()
        .map(|best| told(target, best))
        .transpose()?
        .flatten();
    let chosen = Chosen::new(&answer, question.global_batch, told);
    let size = answer
        .best()
        .or(answer.sizes.first())
        .ok_or_else(|| InputError::option("micro_batch", FaultKind::EmptyNetwork))?;
    Ok(json(&Planned {
        choice: chosen
            .as_ref()
            .map(|chosen| serde_json::from_str(&chosen.json()).unwrap_or_default()),
        text: chosen.as_ref().map(|chosen| chosen.text(&Default::default())),
        plan: size.plan.clone(),
        instance: serde_json::to_value(instance_of(size)).unwrap_or_default(),
    }))
}

/// Numbers of sequences and tokens that are none.
fn refuse_zero(batch: &Batch) -> Result<(), InputError> {
    let sizes = batch
        .micro_batch
        .iter()
        .flatten()
        .map(|&size| ("micro_batch", size));
    let given = [
        ("global_batch", Some(batch.global_batch)),
        ("sequence", batch.sequence),
    ];
    let given = given
        .into_iter()
        .filter_map(|(name, number)| Some((name, number?)));
    let is_empty = batch.micro_batch.as_ref().is_some_and(Vec::is_empty);
    let expected = "a whole number from 1 to 2^32 - 1";
    let fault = |(name, found): (&str, u32)| {
        let found = f64::from(found);
        Fault::new(name.to_owned(), FaultKind::BadNumber { found, expected })
    };
    let empty = is_empty.then_some(("micro_batch", 0));
    let zero = given.chain(sizes).filter(|(_, number)| *number == 0);
    let faults: Vec<Fault> = zero.chain(empty).map(fault).collect();
    match faults.is_empty() {
        true => Ok(()),
        false => Err(InputError { path: None, faults }),
    }
}

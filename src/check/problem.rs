//! Which problem a plan is checked against.
//!
//! The instance and whoever asks decide it. Where both are silent the plan may: a number of stages, or that transfers are
//! ignored, is a question like any other, and an answer to it can be checked; what it took from nowhere else is told. It may
//! not say that devices hold more, or that links are faster, than the instance says: such a claim is left out, and what the
//! plan states then differs from the problem.
//!
//! A plan that was made on another cluster carries it, and with it all that was asked: the devices of the instance have no say then,
//! and what the plan alone says is told.

use serde_json::{Map, Value};

use super::{Checker, Violation};
use crate::model::fault::InputError;
use crate::model::instance::Instance;
use crate::model::options::{Cuts, PipelineOptions};
use crate::model::setting;
use crate::model::settings::Settings;
use crate::model::words::{Asked, Setting, words};
use crate::problem::plan::Plan;

/// The problem of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Posed {
    /// The problem to check it against.
    pub settings: Settings,
    /// What it owes to the plan alone, as options of the command line.
    pub claimed: Vec<Asked>,
}

/// Poses the problem of a plan: what is asked, what the instance says, and where both are silent what the plan claims.
///
/// # Errors
///
/// Options that contradict each other or the instance.
pub fn pose(instance: &Instance, asked: &PipelineOptions, plan: &Plan) -> Result<Posed, InputError> {
    let asked = &sized(asked.clone(), plan);
    let said = sized(asked.clone().or(&beside_order(plan)).or(&instance.pipeline), plan);
    let claims = match plan.cluster {
        Some(_) => plan.problem.clone(),
        None => credible(instance, &plan.problem),
    };
    // What has no default may have to come from the plan.
    let needed = PipelineOptions {
        stages: plan.problem.stages,
        devices: claims.devices,
        micro_batches: plan.problem.micro_batches,
        ..PipelineOptions::default()
    };
    let with_needed = || Settings::resolve(instance, &said.clone().or(&needed));
    let settings = match plan.cluster {
        Some(_) => Settings::resolve(instance, &asked.clone().or(&plan.problem)),
        None => Settings::resolve(instance, &said.clone().or(&claims)),
    };
    // Claims that contradict the instance are left out, and told as differences.
    let settings = settings.or_else(|error| with_needed().map_err(|_| of_plan(error, &said)))?;
    let own = match Settings::resolve(instance, &said) {
        Ok(settings) => table(&settings.to_options(instance)),
        Err(_) => {
            let mut own = with_needed().map_or_else(|_| Map::new(), |own| table(&own.to_options(instance)));
            table(&needed).keys().for_each(|name| drop(own.remove(name)));
            own.extend(table(&said));
            own
        }
    };
    let posed = table(&settings.to_options(instance));
    let differs = |name: &str| posed.contains_key(name) && posed.get(name) != own.get(name);
    let claimed = setting::OF_PROBLEM
        .into_iter()
        .filter(|setting| differs(setting.field()))
        .map(|setting| valued(setting, &posed[setting.field()]))
        .collect();
    Ok(Posed { settings, claimed })
}

/// Options with the size of chunks that a plan took, where there is a choice that has it.
fn sized(mut options: PipelineOptions, plan: &Plan) -> PipelineOptions {
    let took = plan.problem.given_chunks().unwrap_or_default();
    let prompt = options.prompt.or(plan.problem.prompt).unwrap_or(0);
    let sizes = options.chunks.as_ref().map(|asked| asked.to_choose(prompt));
    if let ([size], Some(sizes)) = (took, sizes)
        && sizes.contains(size)
    {
        options.chunks = plan.problem.chunks.clone();
    }
    options
}

/// What has no say where a plan says its order, and is what the plan says: the schedule, and the objective of plans without an order.
fn beside_order(plan: &Plan) -> PipelineOptions {
    match plan.order {
        None => PipelineOptions::default(),
        Some(_) => PipelineOptions {
            schedule: plan.problem.schedule,
            objective: plan.problem.objective,
            ..PipelineOptions::default()
        },
    }
}

/// Faults of options that the plan alone says, with their place in it.
fn of_plan(mut error: InputError, said: &PipelineOptions) -> InputError {
    let said = table(said);
    for fault in &mut error.faults {
        let is_at = |setting: &Setting| fault.at == (*setting).into();
        let option = setting::OF_PROBLEM.into_iter().find(is_at);
        if let Some(setting) = option.filter(|setting| !said.contains_key(setting.field())) {
            fault.at = format!("problem.{} of the plan", setting.field()).into();
        }
    }
    error
}

/// The claims of a plan without those that would loosen what the instance says of its devices and links, and without
/// devices that it does not have.
fn credible(instance: &Instance, claims: &PipelineOptions) -> PipelineOptions {
    let cluster = &instance.cluster;
    let mut claims = claims.clone();
    let is_known = |name: &String| cluster.kind(name).is_some();
    claims.device_kinds = claims
        .device_kinds
        .filter(|names| !names.is_empty() && names.iter().all(is_known));
    let named = |name: &String| {
        claims
            .device_kinds
            .as_ref()
            .is_none_or(|names| names.contains(name))
    };
    let in_play: Vec<_> = cluster.kinds.iter().filter(|kind| named(&kind.name)).collect();
    claims.memory_limit = claims.memory_limit.filter(|limit| {
        let claimed = limit.bytes().unwrap_or(u64::MAX);
        in_play
            .iter()
            .all(|kind| kind.memory_bytes.is_none_or(|own| claimed <= own))
    });
    claims.devices = claims.devices.filter(|&claimed| {
        in_play
            .iter()
            .all(|kind| kind.count.is_none_or(|own| claimed <= own))
    });
    claims.bandwidth_bytes_per_s = claims
        .bandwidth_bytes_per_s
        .filter(|&claimed| claimed <= cluster.link.bandwidth_bytes_per_s);
    claims
}

/// Options by name, as files have them.
fn table(options: &PipelineOptions) -> Map<String, Value> {
    let options = PipelineOptions {
        // Tied cuts are what options without the word mean.
        cuts: options.cuts.filter(|&cuts| cuts == Cuts::Separate),
        ..options.clone()
    };
    match serde_json::to_value(options) {
        Ok(Value::Object(table)) => table,
        _ => Map::new(),
    }
}

/// An option with its value in a file.
fn valued(setting: Setting, value: &Value) -> Asked {
    match value {
        Value::Bool(true) => setting.into(),
        Value::String(text) => setting.given(text),
        Value::Array(values) => {
            let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let words: Vec<String> = values.iter().map(word).collect();
            setting.given(words.join(","))
        }
        value => setting.given(value),
    }
}

impl Checker<'_> {
    /// The problem that a plan states against the one that it is checked against.
    pub(super) fn problem(&mut self, plan: &Plan) {
        let expected = table(&self.settings.to_options(self.instance));
        let found = table(&plan.problem);
        let shown = |value: Option<&Value>| match value {
            Some(Value::String(text)) => format!("`{text}`"),
            Some(value) => format!("`{value}`"),
            None => "nothing".into(),
        };
        for setting in setting::OF_PROBLEM {
            let name = setting.field();
            let [found, expected] = [found.get(name), expected.get(name)];
            if found == expected {
                continue;
            }
            let mut otherwise = words!("{}", shown(expected));
            if let Some(found) = found {
                otherwise = words!(
                    "{}, unless {} is asked for here too",
                    otherwise,
                    valued(setting, found)
                );
            }
            self.violations.push(Violation::Field {
                field: format!("problem.{name}"),
                found: shown(found),
                expected: otherwise,
            });
        }
    }
}

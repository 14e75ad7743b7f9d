//! The best plan of a model for a batch, in one screen: what it is, what it holds, how it runs, what other choices lose.

use serde::Serialize;

use super::Style;
use super::format::{Digits, bytes, count, percent, wrap};
use super::model::grouped;
use super::text::LABEL;
use super::{memory, modes, times};
use crate::export::{Target, layout_of};
use crate::model::instance::Instance;
use crate::model::options::MemoryLimit;
use crate::model::settings::Settings;
use crate::problem::plan::{Held, Plan, PlanMode, Status};
use crate::solve::global_batch::{Answer, Choice, OfSize, Otherwise};

/// The best plan of an answer, with what a framework is told.
pub(crate) struct Chosen<'a> {
    answer: &'a Answer,
    best: &'a OfSize,
    /// Sequences of an iteration.
    global_batch: u32,
    held: Option<Held>,
    /// The framework, and what it reads.
    told: Option<(&'static Target, String)>,
}

impl<'a> Chosen<'a> {
    /// The best plan of an answer; `None` where there is none.
    pub(crate) fn new(
        answer: &'a Answer,
        global_batch: u32,
        told: Option<(&'static Target, String)>,
    ) -> Option<Self> {
        let best = answer.best()?;
        let settings = Settings::resolve(&best.instance, &best.plan.problem).ok();
        Some(Self {
            held: settings.and_then(|settings| best.plan.fullest(&best.instance, &settings)),
            answer,
            best,
            global_batch,
            told,
        })
    }

    fn plan(&self) -> &Plan {
        &self.best.plan
    }

    fn instance(&self) -> &Instance {
        &self.best.instance
    }

    /// Tokens of a sequence.
    fn sequence(&self) -> f64 {
        let tokens = self
            .instance()
            .network
            .micro_batch
            .map_or(0.0, |micro_batch| micro_batch.tokens);
        tokens / f64::from(self.best.micro_batch)
    }

    /// The report that a person reads.
    pub(crate) fn text(&self, style: &Style) -> String {
        let mut out = wrap(&self.headline(), style.width, 0) + "\n\n";
        for (label, fact) in self.facts() {
            // What goes on with others of its label has none.
            let lines = wrap(&fact, style.width.saturating_sub(LABEL), 0);
            let lines = lines.replace('\n', &format!("\n{:LABEL$}", ""));
            out += &format!("{label:<LABEL$}{lines}\n");
        }
        if let Some((target, text)) = &self.told {
            out += &format!("\nfor {}:\n{}", target.name, in_short(target, text));
        }
        out
    }

    fn headline(&self) -> String {
        let plan = self.plan();
        let proved = match self.answer.gap() {
            Some(gap) if gap <= 0.0 => ", and it is proved that no plan is faster".to_owned(),
            Some(gap) => format!("; no plan is faster by more than {}", percent(gap)),
            None => String::new(),
        };
        format!(
            "`{}`: {} sequences of {} tokens in {} on {}{proved}",
            plan.instance,
            grouped(u64::from(self.global_batch)),
            grouped(self.sequence() as u64),
            time(plan.objective_ms.unwrap_or(0.0)),
            match plan.problem.devices.filter(|&asked| asked > devices(plan)) {
                Some(asked) => format!("{} of {} devices", devices(plan), grouped(asked as u64)),
                None => count(devices(plan), "device"),
            }
        )
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let (plan, instance) = (self.plan(), self.instance());
        let digits = Digits::for_ms(plan.objective_ms.unwrap_or(0.0));
        let mut facts = vec![("degrees", degrees(plan, self.best.micro_batch))];
        facts.extend(layout_of(instance, plan).map(|layout| ("layout", layout.to_string())));
        let again = modes::recomputation(instance, plan, digits);
        facts.push(("recomputed", again.unwrap_or_else(|| "nothing".into())));
        facts.extend(modes::offload(instance, plan, digits).map(|there| ("offloaded", there)));
        facts.extend(
            self.held
                .as_ref()
                .map(|held| ("memory", in_words(held, instance, plan))),
        );
        facts.extend(modes::throughput(plan).map(|rate| ("throughput", rate)));
        facts.extend(plan.run.map(|run| ("fill, drain", percent(run.bubble_share))));
        facts.extend(times::described(&plan.times).map(|times| ("times", times)));
        facts.extend(memory::precision(instance, plan).map(|precision| ("precision", precision)));
        let mut label = "next best";
        for other in &self.answer.otherwise {
            facts.push((label, self.loses(other)));
            label = "";
        }
        let sizes: Vec<String> = self.answer.sizes.iter().map(|size| self.size(size)).collect();
        facts.push(("micro-batch", sizes.join("; ")));
        facts
    }

    /// What is lost where a choice is another.
    fn loses(&self, other: &Otherwise) -> String {
        let choice = format!("another {}", other.choice.name());
        let best_ms = self.plan().objective_ms.unwrap_or(0.0);
        let longer = |ms: f64| (ms - best_ms) / best_ms;
        let at_least = other.plan.bound_ms.map(longer).filter(|&part| part > 0.0);
        match (other.plan.objective_ms, other.plan.status) {
            (Some(ms), Status::Optimal) => {
                format!(
                    "{choice}: {} longer ({})",
                    percent(longer(ms)),
                    degrees(&other.plan, other.micro_batch)
                )
            }
            (Some(ms), _) => {
                let at_least =
                    at_least.map_or_else(String::new, |part| format!(", at least {}", percent(part)));
                format!(
                    "{choice}: {} longer{at_least} ({})",
                    percent(longer(ms)),
                    degrees(&other.plan, other.micro_batch)
                )
            }
            (None, Status::Infeasible) => format!("{choice}: fits nowhere"),
            (None, _) => match at_least {
                Some(part) => format!("{choice}: at least {} longer", percent(part)),
                None => format!("{choice}: not known"),
            },
        }
    }

    fn size(&self, size: &OfSize) -> String {
        let known = match (size.plan.objective_ms, size.plan.bound_ms, size.plan.status) {
            (Some(ms), ..) => time(ms),
            (None, _, Status::Infeasible) => "fits nowhere".into(),
            (None, Some(bound_ms), _) if bound_ms > 0.0 => format!("at least {}", time(bound_ms)),
            (None, ..) => "not known".into(),
        };
        format!("{}: {known}", size.micro_batch)
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> String {
        let plan = self.plan();
        let mode = plan.stages.first().and_then(|stage| stage.mode.as_ref());
        let replicas = mode.map_or(1, |mode| mode.replicas);
        let report = Report {
            schema: "stagecut-choice/1",
            model: &plan.instance,
            global_batch: self.global_batch,
            sequence: self.sequence(),
            devices: devices(plan),
            degrees: Degrees::of(plan, self.best.micro_batch),
            micro_batches: plan.problem.micro_batches,
            micro_batches_of_replica: plan.problem.micro_batches.map(|all| all / replicas as u64),
            iteration_ms: plan.objective_ms,
            bound_ms: self.answer.bound_ms,
            gap: self.answer.gap(),
            tokens_per_s: plan.throughput.map(|throughput| throughput.tokens_per_s),
            mfu: plan.throughput.and_then(|throughput| throughput.mfu),
            layout: layout_of(self.instance(), plan).map(|layout| layout.to_string()),
            memory: self.held.as_ref(),
            target: self.told.as_ref().map(|(target, _)| target.name),
            told: self.told.as_ref().map(|(_, text)| text.as_str()),
            otherwise: self.answer.otherwise.iter().map(Other::new).collect(),
            sizes: self.answer.sizes.iter().map(Size::new).collect(),
            plan,
        };
        serde_json::to_string_pretty(&report).expect("documents have string keys alone") + "\n"
    }
}

/// The whole answer, for programs.
#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    model: &'a str,
    /// Sequences of an iteration.
    global_batch: u32,
    /// Tokens of a sequence.
    sequence: f64,
    /// Devices that the plan uses.
    devices: usize,
    #[serde(flatten)]
    degrees: Degrees,
    micro_batches: Option<u64>,
    micro_batches_of_replica: Option<u64>,
    iteration_ms: Option<f64>,
    /// No plan of any size takes less.
    bound_ms: Option<f64>,
    gap: Option<f64>,
    tokens_per_s: Option<f64>,
    mfu: Option<f64>,
    layout: Option<String>,
    /// What the fullest devices hold.
    memory: Option<&'a Held>,
    target: Option<&'static str>,
    /// What the target reads: flags, a file or a program.
    told: Option<&'a str>,
    /// The best plans in which one choice is another.
    otherwise: Vec<Other>,
    /// Every size of micro-batches that was looked at.
    sizes: Vec<Size>,
    plan: &'a Plan,
}

/// What is chosen. Degrees are those of the first stage.
#[derive(Serialize)]
struct Degrees {
    tensor: usize,
    /// Stages, of which each is a group of devices.
    pipeline: usize,
    replicas: usize,
    /// How many replicas share out experts, and how many devices the sequence.
    expert: usize,
    context: usize,
    /// How many members of a replica share out every micro-batch.
    group: usize,
    virtual_stages: usize,
    micro_batch: u32,
}

impl Degrees {
    fn of(plan: &Plan, micro_batch: u32) -> Self {
        let mode = plan.stages.first().and_then(|stage| stage.mode.as_ref());
        let virtual_stages = plan.virtual_stages().unwrap_or(1);
        Self {
            tensor: mode.map_or(1, |mode| mode.tensor),
            pipeline: plan.stages.len() / virtual_stages,
            replicas: mode.map_or(1, |mode| mode.replicas),
            expert: mode.map_or(1, |mode| mode.expert),
            context: mode.map_or(1, |mode| mode.context),
            group: mode.map_or(1, |mode| mode.group),
            virtual_stages,
            micro_batch,
        }
    }
}

#[derive(Serialize)]
struct Other {
    choice: &'static str,
    #[serde(flatten)]
    degrees: Option<Degrees>,
    status: Status,
    iteration_ms: Option<f64>,
    bound_ms: Option<f64>,
}

impl Other {
    fn new(other: &Otherwise) -> Self {
        let has_plan = !other.plan.stages.is_empty();
        Self {
            choice: match other.choice {
                Choice::Tensor => "tensor",
                Choice::Replicas => "replicas",
                Choice::Expert => "expert",
                Choice::VirtualStages => "virtual_stages",
                Choice::MicroBatch => "micro_batch",
            },
            degrees: has_plan.then(|| Degrees::of(&other.plan, other.micro_batch)),
            status: other.plan.status,
            iteration_ms: other.plan.objective_ms,
            bound_ms: other.plan.bound_ms,
        }
    }
}

#[derive(Serialize)]
struct Size {
    micro_batch: u32,
    status: Status,
    /// Absent where no plan was found that beats the sizes before.
    iteration_ms: Option<f64>,
    bound_ms: Option<f64>,
}

impl Size {
    fn new(size: &OfSize) -> Self {
        Self {
            micro_batch: size.micro_batch,
            status: size.plan.status,
            iteration_ms: size.plan.objective_ms,
            bound_ms: size.plan.bound_ms,
        }
    }
}

/// What a target reads, or where it comes from if that is no matter of a few lines.
fn in_short(target: &Target, text: &str) -> String {
    const MOST_LINES: usize = 12;
    match text.lines().count() {
        ..=MOST_LINES => text.to_owned(),
        lines => format!(
            "{lines} lines, which `stagecut export --to {}` writes from what `--plan-output` and `--instance-output` keep\n",
            target.name
        ),
    }
}

/// Devices of a plan.
fn devices(plan: &Plan) -> usize {
    let named = plan.stages.iter().flat_map(|stage| &stage.devices);
    named.collect::<std::collections::BTreeSet<_>>().len()
}

/// Degrees and micro-batches in words.
fn degrees(plan: &Plan, micro_batch: u32) -> String {
    let chosen = Degrees::of(plan, micro_batch);
    let alike = |mode: &PlanMode| {
        let own = [mode.tensor, mode.replicas, mode.expert, mode.context, mode.group];
        own == [
            chosen.tensor,
            chosen.replicas,
            chosen.expert,
            chosen.context,
            chosen.group,
        ]
    };
    let is_alike = plan
        .stages
        .iter()
        .all(|stage| stage.mode.as_ref().is_none_or(alike));
    let mut words = match is_alike {
        true => vec![
            format!("tensor {}", chosen.tensor),
            format!("pipeline {}", chosen.pipeline),
            format!("data {}", chosen.replicas),
        ],
        false => modes::modes(plan).into_iter().collect(),
    };
    let degrees = [
        ("expert", chosen.expert),
        ("context", chosen.context),
        ("groups of", chosen.group),
    ];
    let further = degrees.iter().filter(|(_, degree)| is_alike && *degree > 1);
    words.extend(further.map(|(name, degree)| format!("{name} {degree}")));
    if chosen.virtual_stages > 1 {
        words.push(format!("{} chunks a device", chosen.virtual_stages));
    }
    words.push(format!("micro-batch {micro_batch}"));
    if let Some(all) = plan.problem.micro_batches.filter(|_| is_alike) {
        words.push(format!("{} of them a replica", all / chosen.replicas as u64));
    }
    words.join(", ")
}

/// What a device holds, part by part.
fn in_words(held: &Held, instance: &Instance, plan: &Plan) -> String {
    let parts = [
        ("weights", held.weight_bytes),
        ("gradients", held.gradient_bytes),
        ("optimizer", held.optimizer_bytes),
        ("held once beside", held.resident_bytes),
        ("activations", held.activation_bytes),
        ("workspace", held.workspace_bytes),
    ];
    let parts = parts.iter().filter(|(_, part)| *part > 0);
    let parts: Vec<String> = parts
        .map(|(name, part)| format!("{name} {}", bytes(*part)))
        .collect();
    let of_kind = || {
        let (kind, _) = held.devices.first()?.rsplit_once(':')?;
        instance.cluster.kinds[instance.cluster.kind(kind)?].memory_bytes
    };
    let limit = match plan.problem.memory_limit {
        Some(limit) => MemoryLimit::bytes(limit),
        None => of_kind(),
    };
    let limit = limit.map_or_else(String::new, |limit| format!(" of {}", bytes(limit)));
    format!(
        "{}{limit} on each device of stage {}, the fullest: {}",
        bytes(held.bytes),
        held.stage,
        parts.join(", ")
    )
}

/// A time of an iteration: six digits, in the unit that suits it.
fn time(ms: f64) -> String {
    match ms < 1e3 {
        true => format!("{} ms", Digits::for_ms(ms).ms(ms)),
        false => format!("{} s", Digits::for_ms(ms / 1e3).ms(ms / 1e3)),
    }
}

//! What frameworks can run: plans that are made for one are never refused by its exporter, and are the best among all that it takes.

use crate::common::seeds;
use std::collections::BTreeMap;

use crate::common::draw::{Scope, draw};
use crate::common::modal::random_modal;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::check;
use stagecut::evaluate;
use stagecut::exact;
use stagecut::export::{Target, find};
use stagecut::instance::Instance;
use stagecut::methods::Method;
use stagecut::options::{
    Cuts, Degrees, Layout, Mode, OptimizerOffload, PipelineOptions, Recomputation, Recompute, Region,
    Staffing,
};
use stagecut::plan::bare::{BarePlan, BareStage};
use stagecut::plan::{Plan, PlanMode, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::InstanceSpec;

/// How often what was looked at came up, by target.
#[derive(Debug, Default)]
struct Seen(BTreeMap<String, [usize; 4]>);

/// Positions in [`Seen`]: plans, problems without one, refusals, and plans that the target makes worse.
const PLANNED: usize = 0;
const NONE: usize = 1;
const REFUSED: usize = 2;
const RESTRICTED: usize = 3;

impl Seen {
    fn count(&mut self, target: Region, what: usize) {
        self.0.entry(target.to_string()).or_default()[what] += 1;
    }
}

/// Gives layers other names, everywhere.
fn rename(spec: &mut InstanceSpec, names: &[String]) {
    let old: Vec<String> = spec.network.layers.iter().map(|layer| layer.id.clone()).collect();
    let new = |id: &String| {
        let at = old.iter().position(|old| old == id).unwrap();
        names[at].clone()
    };
    for layer in &mut spec.network.layers {
        layer.id = new(&layer.id);
    }
    for layer in &mut spec.network.layers {
        for mode in &mut layer.modes {
            let named = |bytes: &BTreeMap<String, f64>| bytes.iter().map(|(id, of)| (new(id), *of)).collect();
            mode.input_bytes = named(&mode.input_bytes);
            mode.output_bytes = named(&mode.output_bytes);
        }
    }
    for tensor in &mut spec.network.tensors {
        tensor.producer = new(&tensor.producer);
        tensor.consumers = tensor.consumers.iter().map(new).collect();
    }
}

/// Names of blocks with something before and after, of modules that lie in each other, or of blocks alone.
fn names(rng: &mut ChaCha8Rng, count: usize) -> Vec<String> {
    const MODULES: [&str; 8] = ["a", "a.b", "a.b.c", "a.d", "e.f", "e.g", "e.g.h", "i"];
    match rng.random_range(0..4) {
        0 => (0..count)
            .map(|at| format!("{}/op{at}", MODULES[rng.random_range(0..MODULES.len())]))
            .collect(),
        1 => (0..count).map(|at| format!("b.{at}")).collect(),
        _ => {
            let size = rng.random_range(1..=2);
            let before = rng.random_range(0..=1);
            let after = rng.random_range(0..=1);
            // Multi-token prediction between the blocks and the head.
            let predicting = usize::from(rng.random_bool(0.3));
            (0..count)
                .map(|at| match at {
                    _ if at < before => format!("embed.{at}x"),
                    _ if at + after >= count => format!("head.{at}x"),
                    _ if at + after + predicting >= count => format!("mtp.{at}x"),
                    _ => format!("b.{}.part{at}x", (at - before) / size),
                })
                .collect()
        }
    }
}

/// A small problem with anything in it whose layers have such names, and are alike now and then.
pub(crate) fn spec(seed: u64) -> InstanceSpec {
    let scope = Scope {
        layers: [3, 5],
        chain: (seed / 8).is_multiple_of(2),
        mixed: (seed / 8).is_multiple_of(3),
        cuts: (!(seed / 8).is_multiple_of(9)).then_some(Cuts::Tied),
    };
    let mut spec = draw(format!("region-{seed}"), seed, scope);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    named(&mut spec, &mut rng);
    spec.pipeline.stages = spec.pipeline.stages.map(|stages| stages.min(3));
    spec
}

fn named(spec: &mut InstanceSpec, rng: &mut ChaCha8Rng) {
    let forward = spec.network.layers.iter().filter(|layer| !layer.backward);
    let mut names = names(rng, forward.count()).into_iter();
    let layers = spec.network.layers.iter();
    let own = layers.map(|layer| match layer.backward {
        true => layer.id.replace('.', ""),
        false => names.next().unwrap(),
    });
    let names: Vec<String> = own.collect();
    rename(spec, &names);
    if rng.random_bool(0.6) {
        for layer in &mut spec.network.layers {
            layer.operator = None;
            layer.parameter_bytes = 1.0;
            layer.modes.iter_mut().for_each(|mode| mode.parameter_bytes = 1e6);
        }
    }
}

/// Every way to give layers stages without a gap.
fn assignments(layers: usize, stages: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..layers {
        let more = |known: &Vec<usize>| {
            let known = known.clone();
            (0..stages).map(move |stage| [&known[..], &[stage]].concat())
        };
        all = all.iter().flat_map(more).collect();
    }
    let is_full = |of: &Vec<usize>| (0..=*of.iter().max().unwrap()).all(|stage| of.contains(&stage));
    all.retain(is_full);
    all
}

/// Every choice of one of so many for each of some.
fn choices(of: &[usize]) -> Vec<Vec<usize>> {
    let more = |known: Vec<Vec<usize>>, &count: &usize| {
        let with = |known: &Vec<usize>| {
            let known = known.clone();
            (0..count).map(move |at| [&known[..], &[at]].concat())
        };
        known.iter().flat_map(with).collect()
    };
    of.iter().fold(vec![Vec::new()], more)
}

/// Most plans of a problem that are looked at; larger ones are left out.
const MOST_PLANS: usize = 400;

/// The least that a plan which the target takes comes to, in ms, and a plan of any kind; `None` where there are too many.
fn best_ms(instance: &Instance, settings: &Settings, target: &Target) -> Option<[Option<f64>; 2]> {
    let free = Settings {
        target: None,
        uniform: false,
        ..settings.clone()
    };
    let problem = Problem::new(instance, free.clone()).ok();
    let mut best = [f64::INFINITY; 2];
    for bare in plans(instance, settings)? {
        let Ok(found) = evaluate::evaluate(instance, &free, problem.as_ref(), &bare) else {
            continue;
        };
        let Some(ms) = found.plan.objective_ms.filter(|_| found.violations.is_empty()) else {
            continue;
        };
        best[1] = best[1].min(ms);
        if (target.write)(instance, &found.plan).is_ok() {
            best[0] = best[0].min(ms);
        }
    }
    Some(best.map(|ms| ms.is_finite().then_some(ms)))
}

/// Every plan, if they are not too many; of stacks those that keep the order of blocks.
pub(crate) fn plans(instance: &Instance, settings: &Settings) -> Option<Vec<BarePlan>> {
    plans_up_to(MOST_PLANS, instance, settings)
}

/// The same, if there are not more than so many.
pub(crate) fn plans_up_to(most: usize, instance: &Instance, settings: &Settings) -> Option<Vec<BarePlan>> {
    let layers = instance
        .network
        .layers
        .iter()
        .filter(|layer| settings.includes(layer));
    let layers: Vec<_> = layers.collect();
    let name = |&kind: &usize| instance.cluster.kinds[kind].name.as_str();
    let kinds: Vec<&str> = settings.kinds.iter().map(name).collect();
    let mut plans = Vec::new();
    for assignment in assignments(layers.len(), settings.stages.min(layers.len())) {
        let used = assignment.iter().max().unwrap() + 1;
        let stage = |stage: usize| BareStage {
            layers: (layers.iter().zip(&assignment).filter(|(_, of)| **of == stage))
                .map(|(layer, _)| layer.id.clone())
                .collect(),
            ..BareStage::default()
        };
        let stages: Vec<BareStage> = (0..used).map(stage).collect();
        let blocks = layers.iter().zip(&assignment);
        let blocks = blocks.filter(|(layer, _)| layer.id.starts_with("b."));
        let layout = settings.target.map(|target| target.limits().layout);
        let is_stack = matches!(layout, Some(Layout::Blocks { .. }));
        if is_stack && !blocks.map(|(_, stage)| stage).is_sorted() {
            continue;
        }
        if settings.modal {
            plans.extend(modal_plans(instance, settings, &stages));
        } else {
            plans.extend(choices(&vec![kinds.len(); used]).iter().map(|chosen| {
                let mut stages = stages.clone();
                for (stage, &kind) in stages.iter_mut().zip(chosen) {
                    stage.devices = vec![kinds[kind].to_owned()];
                }
                BarePlan { stages }
            }));
        }
        if plans.len() > most {
            return None;
        }
    }
    Some(plans)
}

/// How a stage may run.
#[derive(Clone, Copy)]
struct Run {
    kind: usize,
    tensor: usize,
    expert: usize,
    context: usize,
    replicas: usize,
    /// Whether the state of the optimiser lies at hosts.
    offloads: bool,
}

impl Run {
    fn devices(&self) -> usize {
        self.tensor * self.context * self.replicas
    }
}

/// Every kind, tensor degree, expert degree, context degree and number of replicas that a stage may have on so many devices of each kind.
fn runs(settings: &Settings, count: &dyn Fn(usize) -> usize) -> Vec<Run> {
    let on_kind = |&kind: &usize| {
        let devices = count(kind);
        let upto = move |others: usize| 1..=devices / others;
        let groups = upto(1).flat_map(move |tensor| upto(tensor).map(move |context| (tensor, context)));
        let replicated = groups.flat_map(move |(tensor, context)| {
            upto(tensor * context).map(move |replicas| (tensor, context, replicas))
        });
        let shared = replicated.flat_map(move |(tensor, context, replicas)| {
            let experts = (1..=replicas).filter(move |expert| replicas.is_multiple_of(*expert));
            let both = experts.flat_map(|expert| [false, true].map(|offloads| (expert, offloads)));
            both.map(move |(expert, offloads)| Run {
                kind,
                tensor,
                expert,
                context,
                replicas,
                offloads,
            })
        });
        shared.filter(|run| {
            settings.tensor.allows(run.tensor)
                && settings.expert.allows(run.expert)
                && settings.context_parallel.allows(run.context)
                && settings.replicas.allows(run.replicas)
                && match settings.optimizer_offload {
                    OptimizerOffload::Choose => true,
                    asked => run.offloads == (asked == OptimizerOffload::All),
                }
        })
    };
    settings.kinds.iter().flat_map(on_kind).collect()
}

/// Every way to run stages: their degrees, their replicas, and what layers compute again.
fn modal_plans(instance: &Instance, settings: &Settings, stages: &[BareStage]) -> Vec<BarePlan> {
    let count = |kind: usize| settings.count(&instance.cluster, kind).unwrap_or(settings.stages);
    let runs = runs(settings, &count);
    let again = |id: &String| {
        let layer = instance
            .network
            .layers
            .iter()
            .find(|layer| layer.id == *id)
            .unwrap();
        let mut names: Vec<String> = layer.modes().iter().map(|mode| mode.recompute.clone()).collect();
        names.retain(|name| name == "none" || settings.recompute.names(name));
        names.sort_unstable();
        names.dedup();
        names
    };
    let mut plans = Vec::new();
    for runs in choices(&vec![runs.len(); stages.len()])
        .iter()
        .map(|at| at.iter().map(|&at| runs[at]))
    {
        let runs: Vec<Run> = runs.collect();
        let taken = |kind: usize| {
            let own = runs.iter().filter(|run| run.kind == kind);
            own.map(Run::devices).sum::<usize>()
        };
        if settings.kinds.iter().any(|&kind| taken(kind) > count(kind)) {
            continue;
        }
        let ids: Vec<(usize, &String)> = stages
            .iter()
            .enumerate()
            .flat_map(|(k, stage)| stage.layers.iter().map(move |id| (k, id)))
            .collect();
        let names: Vec<Vec<String>> = ids.iter().map(|(_, id)| again(id)).collect();
        for chosen in choices(&names.iter().map(Vec::len).collect::<Vec<_>>()) {
            let mut stages = stages.to_vec();
            for (stage, run) in stages.iter_mut().zip(&runs) {
                if settings.kinds.len() > 1 {
                    stage.devices = vec![instance.cluster.kinds[run.kind].name.clone(); run.devices()];
                }
                stage.mode = Some(PlanMode {
                    tensor: run.tensor,
                    expert: run.expert,
                    context: run.context,
                    group: 1,
                    replicas: run.replicas,
                    recomputed: BTreeMap::new(),
                    optimizer_offload: run.offloads,
                    host_bytes: 0,
                });
            }
            for (((k, id), names), at) in ids.iter().zip(&names).zip(chosen) {
                if names[at] != "none" {
                    let mode = stages[*k].mode.as_mut().unwrap();
                    mode.recomputed
                        .entry(names[at].clone())
                        .or_default()
                        .push((*id).clone());
                }
            }
            plans.push(BarePlan { stages });
        }
    }
    plans
}

/// The same problem with options that a target can have, as far as it is not drawn whether it has them.
fn suit(spec: &mut InstanceSpec, region: Region, modal: bool) {
    let limits = region.limits();
    let options = &mut spec.pipeline;
    match (limits.trains, limits.infers) {
        (false, _) => options.mode = Some(Mode::Inference),
        (_, false) => options.mode = Some(Mode::Training),
        (true, true) => {}
    }
    if !modal {
        return;
    }
    let choose = |is_allowed: bool| is_allowed.then_some(Degrees::Choose);
    options.tensor = choose(limits.staffing != Staffing::One);
    options.replicas = choose(limits.staffing == Staffing::Replicated);
    let trains = options.mode != Some(Mode::Inference) && limits.trains;
    let recomputes = limits.recomputation != Recomputation::Nothing && trains;
    options.recompute = recomputes.then_some(Recompute::Choose);
    options.optimizer_sharding = None;
    options.precision = None;
    options.micro_batches = options.micro_batches.or(Some(4));
}

/// The plan for a target, which its exporter takes and none that it takes beats; `None` where the target is refused.
fn hold(spec: &InstanceSpec, region: Region, seen: &mut Seen) -> Option<Plan> {
    let instance = Instance::from_spec(spec).ok()?;
    let options = PipelineOptions {
        target: Some(region),
        ..PipelineOptions::default()
    };
    let Ok(settings) = Settings::resolve(&instance, &options) else {
        seen.count(region, REFUSED);
        return None;
    };
    let target = find(&region.to_string()).unwrap();
    let [best, free] = best_ms(&instance, &settings, target)?;
    let context = || format!("{region} {best:?} {}", serde_json::to_string(spec).unwrap());
    let Ok(problem) = Problem::new(&instance, settings.clone()) else {
        assert!(best.is_none(), "refused: {}", context());
        seen.count(region, NONE);
        return None;
    };
    let plan = Method::Exact(exact::Method::Exact)
        .run(&instance, &problem, &Default::default())
        .unwrap();
    let violations = check::check(&instance, &settings, &plan);
    assert!(violations.is_empty(), "{violations:?} {}", context());
    if !plan.stages.is_empty() {
        (target.write)(&instance, &plan).unwrap_or_else(|fault| panic!("{fault:?} {}", context()));
    }
    // Periods of plans for Megatron are not proved: their bound is that of plans that need be told nothing.
    let is_alike = region.limits().recomputation == Recomputation::Alike;
    let is_open = settings.modal && is_alike && matches!(plan.status, Status::Feasible | Status::Unknown);
    assert!(
        is_open || matches!(plan.status, Status::Optimal | Status::Infeasible),
        "open: {}",
        context()
    );
    match (plan.objective_ms, best) {
        (Some(found), Some(best)) => {
            assert!(found > best - 1e-6, "found {found}: {}", context());
            assert!(
                plan.bound_ms.unwrap() < best + 1e-6,
                "{:?}: {}",
                plan.bound_ms,
                context()
            );
            assert!(is_open || found < best + 1e-6, "found {found}: {}", context());
            seen.count(region, PLANNED);
            if free.unwrap() < best - 1e-6 {
                seen.count(region, RESTRICTED);
            }
        }
        (None, _) if is_open => seen.count(region, NONE),
        (None, None) => seen.count(region, NONE),
        (found, _) => panic!("found {found:?}: {}", context()),
    }
    Some(plan)
}

#[test]
fn plans_for_a_target_are_the_best_that_its_exporter_takes() {
    let mut seen = Seen::default();
    for seed in seeds(160) {
        let mut spec = spec(seed);
        let region = Region::ALL[seed as usize % Region::ALL.len()];
        suit(&mut spec, region, false);
        hold(&spec, region, &mut seen);
    }
    println!("{seen:?}");
    let restricted: usize = seen.0.values().map(|counts| counts[RESTRICTED]).sum();
    let planned = |region: &Region| seen.0[&region.to_string()][PLANNED] > 3;
    assert!(restricted > 5 && Region::ALL.iter().all(planned), "{seen:?}");
}

/// The same where stages have modes and links two levels; what Megatron can be told of recomputation, `modal_iteration` has.
#[test]
fn plans_with_modes_for_a_target_are_the_best_that_its_exporter_takes() {
    let mut seen = Seen::default();
    for seed in seeds(160) {
        let mut spec = random_modal(seed);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        named(&mut spec, &mut rng);
        if spec.network.layers.len() <= 4 {
            let region = Region::ALL[seed as usize % Region::ALL.len()];
            suit(&mut spec, region, true);
            hold(&spec, region, &mut seen);
        }
    }
    println!("{seen:?}");
    for target in ["torchtitan", "vllm", "sglang", "torch"] {
        assert!(seen.0[target][PLANNED] > 0, "{target} {seen:?}");
    }
}

//! Separate cuts where stages have modes, against brute force, and that against what is known without modes and with tied cuts.

use crate::common::{draws, modal, seeds, separate_spec};
use crate::in_modes::{found, is_open, settings_for};
use crate::modal_iteration::make_usual;
use crate::oracles::separate_modes::{best_together_ns, best_with};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::cluster::Host;
use stagecut::instance::Instance;
use stagecut::network::{Experts, LayerMode};
use stagecut::options::{
    Communication, Cuts, DeviceOrder, MemoryLimit, Mode, Objective, OptimizerSharding, PipelineOptions,
    Schedule,
};
use stagecut::plan::split::SplitLayer;
use stagecut::plan::{Plan, Status, StoppedBy};
use stagecut::settings::Settings;
use stagecut::spec::InstanceSpec;
use std::time::Duration;

/// Whether two objectives are one, but for the last digits.
pub(super) fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(other.abs()).max(1.0)
}

/// Whether two answers are one: the same objective, or none.
pub(super) fn are_near(one: Option<f64>, other: Option<f64>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_near(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// What `exact` makes of an instance, which brute force over modes takes for one of stages without modes.
fn plain(instance: &Instance, objective: Objective) -> Option<(Settings, Plan)> {
    let settings = settings_for(instance, objective)?;
    let plan = found(instance, &settings, None)?;
    Some((settings, plan))
}

/// Where every stage is one device and computes nothing again, brute force over modes finds what is found without modes. Weights move beside all else at the
/// end of an iteration, not with a micro-batch: of some they are left out.
#[test]
fn without_modes_brute_force_is_what_it_is_without_modes() {
    for objective in [Objective::Period, Objective::Formula, Objective::Iteration] {
        let (mut compared, mut apart, mut bound) = (0, 0, 0);
        for seed in seeds(600) {
            let mut spec = separate_spec(seed, 3, seed.is_multiple_of(4));
            let stages = spec.pipeline.stages.unwrap_or(3).min(3);
            spec.pipeline.stages = Some(stages);
            let is_overlapped = spec.pipeline.communication == Some(Communication::Overlapped);
            for layer in &mut spec.network.layers {
                if objective == Objective::Iteration || is_overlapped {
                    layer.parameter_bytes = 0.0;
                }
                if seed % 5 == 2 {
                    (layer.frozen, layer.resident_bytes) = (layer.id.as_str() < "f2", 0.0);
                }
            }
            let Ok(instance) = Instance::from_spec(&spec) else {
                continue;
            };
            let Some((settings, plan)) = plain(&instance, objective) else {
                continue;
            };
            let is_known = matches!(plan.status, Status::Optimal | Status::Infeasible);
            // Formulas of stages without modes count links, and phases, by themselves.
            let by_phase = objective == Objective::Formula
                && (settings.schedule == Schedule::Gpipe || settings.communication.has_links());
            if settings.modal || !is_known || by_phase {
                continue;
            }
            let best = best_with(&instance, &settings, Cuts::Separate);
            assert!(
                are_near(plan.objective_ms, best),
                "seed {seed}: {:?}, {best:?} by brute force over modes\n{plan:#?}",
                plan.objective_ms
            );
            compared += 1;
            apart += usize::from(is_apart(&plan));
            bound += usize::from(settings.memory_limit.is_some());
        }
        println!("{objective}: {compared} compared, {apart} with layers apart, {bound} with limits");
        assert!(compared * 8 > draws(600) as usize, "{compared}");
        assert!(apart * 10 > compared && bound * 4 > compared, "{apart}, {bound}");
    }
}

/// Whether a plan has a layer whose passes lie apart.
fn is_apart(plan: &Plan) -> bool {
    plan.split.as_ref().is_some_and(|split| !split.layers.is_empty())
}

/// A small problem with separate cuts and anything in it that modes know, features drawn each by itself.
fn drawn(seed: u64) -> InstanceSpec {
    drawn_on(seed, true)
}

/// The same on devices of one kind, or of several where they may be `unlike`.
pub(super) fn drawn_on(seed: u64, unlike: bool) -> InstanceSpec {
    let spec = match seed % 5 {
        0 => modal::random_modal_slow_inside(seed),
        _ => modal::random_modal(seed),
    };
    with_anything(spec, seed, unlike)
}

/// A problem with features drawn each by itself.
pub(super) fn with_anything(mut spec: InstanceSpec, seed: u64, unlike: bool) -> InstanceSpec {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x5e9a);
    // What a layer computes again it mostly computes again in the backward pass.
    if !seed.is_multiple_of(4) {
        make_usual(&mut spec);
    }
    let mut may = |probability: f64| rng.random_bool(probability);
    if may(0.2) {
        modal::add_experts(&mut spec, seed);
    }
    if may(0.2) {
        modal::add_context(&mut spec, seed);
    }
    if may(0.25) {
        modal::shard(&mut spec, seed);
    }
    if may(0.25) {
        modal::add_hosts(&mut spec, seed);
        if may(0.6) {
            modal::offload_states(&mut spec, seed);
        }
    }
    if may(0.3) && unlike {
        spec = modal::on_unlike_devices(spec, seed);
        spec.pipeline.device_order = may(0.4).then_some(DeviceOrder::Given);
    }
    if may(0.15) {
        add_tie(&mut spec, seed);
    }
    let pipeline = &mut spec.pipeline;
    pipeline.uniform = may(0.15).then_some(true);
    pipeline.communication = may(0.4).then_some(Communication::Overlapped);
    if may(0.2)
        && pipeline
            .optimizer_sharding
            .is_none_or(|of| of == OptimizerSharding::Zero1)
    {
        pipeline.schedule = Some(Schedule::Pipedream);
    }
    pipeline.mode = Some(Mode::Training);
    pipeline.cuts = Some(Cuts::Separate);
    // Layers rarely lie apart where what moves takes as long as what runs.
    if may(0.5) {
        let link = spec.cluster.as_mut().and_then(|cluster| cluster.link.as_mut());
        link.into_iter()
            .for_each(|link| link.bandwidth_bytes_per_s *= 10.0);
    }
    confine(&mut spec);
    spec
}

/// At most three stages, as brute force takes every placement of every pass.
fn confine(spec: &mut InstanceSpec) {
    let kinds = &spec.cluster.as_ref().expect("a cluster").device_kinds;
    let devices: usize = kinds.iter().filter_map(|kind| kind.count).sum();
    let asked = spec.pipeline.stages.unwrap_or(devices);
    spec.pipeline.stages = Some(asked.min(3));
}

/// Ties two layers of a network without operators of its own backward.
fn add_tie(spec: &mut InstanceSpec, seed: u64) {
    let layers = &mut spec.network.layers;
    let count = layers.len();
    if count < 2 || layers.iter().any(|layer| layer.backward) {
        return;
    }
    let first = seed as usize % (count - 1);
    for at in [first, count - 1] {
        layers[at].tie = Some("pair".into());
    }
}

/// What was seen.
#[derive(Debug, Default)]
struct Seen {
    compared: usize,
    /// Problems without a proof.
    open: usize,
    /// Problems whose best plan with separate cuts is better than with tied ones, some of which have none at all.
    better: usize,
    /// Plans with a layer whose passes lie apart; of these those where either stage has several devices.
    apart: usize,
    apart_on_groups: usize,
}

impl Seen {
    /// Counts what a plan has.
    fn look_at(&mut self, plan: &Plan) {
        let Some(split) = &plan.split else {
            return;
        };
        self.apart += usize::from(!split.layers.is_empty());
        let is_group = |stage: usize| plan.stages[stage - 1].devices.len() > 1;
        let of_groups = |layer: &SplitLayer| is_group(layer.forward_stage) || is_group(layer.backward_stage);
        self.apart_on_groups += usize::from(split.layers.iter().any(of_groups));
    }
}

/// The settings of a problem with modes and this objective; `None` where what was drawn is none.
fn asked(instance: &Instance, objective: Objective) -> Option<Settings> {
    settings_for(instance, objective).filter(|settings| settings.modal)
}

/// Whether devices or their hosts have memory that a plan may not fit.
fn is_limited(instance: &Instance, settings: &Settings) -> bool {
    let mut kinds = settings.kinds.iter().map(|&kind| &instance.cluster.kinds[kind]);
    let of_host = |host: Option<Host>| host.is_some_and(|host| host.memory_bytes.is_some());
    settings.memory_limit.is_some() || kinds.any(|kind| kind.memory_bytes.is_some() || of_host(kind.host))
}

/// Whether what moves between stages that are no neighbours may go farther than over the boundaries between, of which searches keep little account.
fn goes_farther(instance: &Instance) -> bool {
    instance.cluster.nodes.is_some() || !instance.cluster.links.is_empty()
}

/// Whether ways of some layer differ in their forward passes: then a stage of least work need not be the best of an iteration.
fn has_several_forward(instance: &Instance) -> bool {
    instance.network.layers.iter().any(|layer| {
        let modes = layer.modes();
        let differ = |one: &LayerMode, other: &LayerMode| {
            one.tensor == other.tensor
                && (one.host_bytes != other.host_bytes || forward_of(one) != forward_of(other))
        };
        modes
            .iter()
            .any(|one| modes.iter().any(|other| differ(one, other)))
    })
}

/// What a mode takes forwards, and what its experts exchange.
fn forward_of(mode: &LayerMode) -> (Vec<Option<u64>>, Option<Experts>) {
    let times = mode.times.iter();
    (
        times.map(|times| Some((*times)?.forward_ns)).collect(),
        mode.experts,
    )
}

/// A problem, its plan, and the least objective in ms by brute force.
pub(super) struct Compared {
    pub(super) instance: Instance,
    pub(super) settings: Settings,
    pub(super) plan: Plan,
    pub(super) best: Option<f64>,
}

impl Compared {
    /// The plan of a problem held against brute force; `None` where what was drawn is none.
    pub(super) fn of((seed, spec): (u64, &InstanceSpec), objective: Objective) -> Option<Self> {
        // Some layer may run on none of the kinds drawn.
        let instance = Instance::from_spec(spec).ok()?;
        let settings = asked(&instance, objective)?;
        // Of devices that differ there may be more plans than a test has time for.
        let plan = found(&instance, &settings, Some(Duration::from_secs(2)))?;
        let best = best_with(&instance, &settings, settings.cuts);
        let compared = Self {
            instance,
            settings,
            plan,
            best,
        };
        compared.hold(seed);
        Some(compared)
    }

    fn told(&self, seed: u64) -> String {
        let Self { plan, best, .. } = self;
        let found = (plan.status, plan.objective_ms, plan.bound_ms);
        format!("seed {seed}: {found:?}, best {best:?}\n{plan:#?}")
    }

    fn hold(&self, seed: u64) {
        let told = || self.told(seed);
        let Self { plan, best, .. } = self;
        let close_ms = 1e-6 * best.unwrap_or(0.0).max(1.0);
        let is_open = is_open(plan, best.map(|ms| [ms; 2]), close_ms, &told);
        assert!(!is_open || self.may_be_open(), "open: {}", told());
    }

    /// Whether no plan is proved.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.plan.status, Status::Feasible | Status::Unknown)
    }

    fn may_be_open(&self) -> bool {
        let (instance, settings) = (&self.instance, &self.settings);
        let is_separate = settings.cuts == Cuts::Separate;
        self.plan.stopped_by == StoppedBy::TimeLimit
            || is_separate && (is_limited(instance, settings) || goes_farther(instance))
            || settings.objective == Objective::Formula && goes_farther(instance)
            || settings.objective == Objective::Iteration && has_several_forward(instance)
    }
}

/// Whether an objective is no less than another, but for the last digits.
pub(super) fn is_no_less(one: f64, other: f64) -> bool {
    one >= other || is_near(one, other)
}

/// Holds the plan of a problem against brute force.
fn hold(problem: (u64, &InstanceSpec), objective: Objective, seen: &mut Seen) {
    let Some(compared) = Compared::of(problem, objective) else {
        return;
    };
    seen.open += usize::from(compared.is_open());
    seen.compared += 1;
    let best_ms = compared.best.unwrap_or(f64::INFINITY);
    let tied_ms = best_with(&compared.instance, &compared.settings, Cuts::Tied).unwrap_or(f64::INFINITY);
    assert!(
        is_no_less(tied_ms, best_ms),
        "{tied_ms} with tied cuts, {}",
        compared.told(problem.0)
    );
    seen.better += usize::from(compared.best.is_some() && !is_near(tied_ms, best_ms));
    seen.look_at(&compared.plan);
}

fn problems_are_those_of_brute_force(objective: Objective) {
    let mut seen = Seen::default();
    // The last one has a frozen layer whose modes of one degree hold different bytes for good.
    for seed in seeds(1_500).chain([43_548]) {
        hold((seed, &drawn(seed)), objective, &mut seen);
    }
    println!("{objective}: {seen:?}");
    assert!(
        seen.compared * 3 > draws(1_500) as usize
            && seen.better * 20 > seen.compared
            && seen.apart * 20 > seen.compared
            && seen.apart_on_groups * 100 > seen.compared,
        "{seen:?}"
    );
}

#[test]
fn periods_are_those_of_brute_force() {
    problems_are_those_of_brute_force(Objective::Period);
}

#[test]
fn iterations_are_those_of_brute_force() {
    problems_are_those_of_brute_force(Objective::Iteration);
}

/// Tied cuts are among separate ones: what is best of the placements that join all passes of a layer is best with tied cuts, and none of all is worse.
#[test]
fn brute_force_with_all_passes_together_is_that_of_tied_cuts() {
    for objective in [Objective::Period, Objective::Iteration] {
        let [mut compared, mut better, mut explicit] = [0; 3];
        for seed in seeds(400) {
            let Ok(instance) = Instance::from_spec(&drawn(seed)) else {
                continue;
            };
            let Some(settings) = asked(&instance, objective) else {
                continue;
            };
            let of_iterations = objective == Objective::Iteration;
            let together = best_together_ns(&instance, &settings, of_iterations).map(|ns| ns / 1e6);
            let tied = best_with(&instance, &settings, Cuts::Tied);
            assert!(are_near(together, tied), "seed {seed}: {together:?}, {tied:?}");
            let best_ms = best_with(&instance, &settings, Cuts::Separate).unwrap_or(f64::INFINITY);
            let tied_ms = tied.unwrap_or(f64::INFINITY);
            assert!(
                best_ms <= tied_ms || is_near(best_ms, tied_ms),
                "seed {seed}: {best_ms}, {tied_ms}"
            );
            compared += 1;
            better += usize::from(best_ms < tied_ms && !is_near(best_ms, tied_ms));
            explicit += usize::from(instance.network.has_explicit_backward());
        }
        println!("{objective}: {compared} compared, {better} better, {explicit} with a backward graph");
        assert!(
            compared * 3 > draws(400) as usize && better * 20 > compared,
            "{compared}, {better}"
        );
    }
}

/// One layer of 4 + 8 ms and 2 MB that keeps 1 MB, or half of all on two devices, which reduce 1 MB; three devices with links of 1 GB/s.
const ONE_LAYER: &str = r#"{"network": {"layers": [{"id": "block", "modes": [
    {"forward_ms": 4, "backward_ms": 8, "parameter_bytes": 2e6, "stash_bytes": 1e6},
    {"tensor": 2, "forward_ms": 2, "backward_ms": 4, "parameter_bytes": 1e6, "stash_bytes": 5e5, "collective_bytes": 1e6}]}]},
    "cluster": {"device_kinds": [{"name": "gpu", "count": 3}], "link": {"bandwidth_bytes_per_s": 1e9}},
    "pipeline": {"cuts": "separate", "micro_batches": 8, "tensor": "choose"}}"#;

/// The same layer on one device each, of 100 bytes that keeps 10, where nothing that moves takes time.
const REPLICATED: &str = r#"{"network": {"layers": [
    {"id": "block", "forward_ms": 4, "backward_ms": 8, "parameter_bytes": 100, "stash_bytes": 10}]},
    "cluster": {"device_kinds": [{"name": "gpu", "count": 3}], "link": {"bandwidth_bytes_per_s": 1e9}},
    "pipeline": {"cuts": "separate", "micro_batches": 8, "replicas": "choose", "stages": 2, "all_stages": true,
        "communication": "ignored", "optimizer": "sgd", "precision": "uniform", "objective": "period"}}"#;

/// Problems of one layer, and the least objective in ms as counted by hand.
fn counted_by_hand() -> Vec<(InstanceSpec, Option<f64>)> {
    let mut all = Vec::new();
    // One device runs forwards: 4 ms, 1 ms for the stash, and 2 ms for the weights once. Two run backwards: 4 ms and half of 1 ms, half a ms for the stash, 1 ms for the
    // weights once. Iterations have those two in front: they receive eight stashes as soon as they like, and wait for 5 ms of each of the others' micro-batches.
    for (objective, ms) in [
        (Objective::Period, 5.0 + 2.0 / 8.0),
        (Objective::Iteration, 0.5 + 8.0 * 5.0 + 4.5 + 1.0),
    ] {
        let mut spec: InstanceSpec = serde_json::from_str(ONE_LAYER).unwrap();
        spec.pipeline.objective = Some(objective);
        all.push((spec, Some(ms)));
    }
    // One replica runs forwards with 100 bytes, two backwards. Three micro-batches are between the passes with 1F1B, two in a replica; four of eight with
    // GPipe; PipeDream has a second version. Replicas that share out all have half of the weights and gradients, and once all of them.
    let none = OptimizerSharding::None;
    for (schedule, sharding, bytes, less_ms) in [
        (Schedule::OneFOneB, none, 200 + 2 * 10, None),
        (Schedule::Gpipe, none, 200 + 4 * 10, None),
        (Schedule::Pipedream, none, 200 + 2 * 10 + 100, None),
        // Where no replicas do, nothing is there twice.
        (
            Schedule::OneFOneB,
            OptimizerSharding::Zero3,
            100 + 200 + 2 * 10,
            Some(8.0),
        ),
    ] {
        for (limit, ms) in [(bytes, Some(4.0)), (bytes - 1, less_ms)] {
            let mut spec: InstanceSpec = serde_json::from_str(REPLICATED).unwrap();
            spec.pipeline.schedule = Some(schedule);
            spec.pipeline.optimizer_sharding = Some(sharding);
            spec.pipeline.memory_limit = Some(MemoryLimit::Bytes(limit));
            all.push((spec, ms));
        }
    }
    all
}

#[test]
fn brute_force_finds_what_is_counted_by_hand() {
    for (spec, ms) in counted_by_hand() {
        let instance = Instance::from_spec(&spec).unwrap();
        let settings = Settings::resolve(&instance, &PipelineOptions::default()).unwrap();
        let best = best_with(&instance, &settings, Cuts::Separate);
        assert!(are_near(best, ms), "{best:?}, not {ms:?}: {:?}", spec.pipeline);
    }
}

#[test]
fn plans_are_what_is_counted_by_hand() {
    for (spec, ms) in counted_by_hand() {
        let instance = Instance::from_spec(&spec).unwrap();
        let settings = Settings::resolve(&instance, &PipelineOptions::default()).unwrap();
        // A layer that fits nowhere may be refused.
        let plan = found(&instance, &settings, None);
        let found = plan.and_then(|plan| plan.objective_ms);
        assert!(are_near(found, ms), "{found:?}, not {ms:?}: {:?}", spec.pipeline);
    }
}

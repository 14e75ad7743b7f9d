//! What tests of stages in modes share: small networks on equal devices, what is found for an instance, and how it is held against brute force.

use std::time::Duration;

use crate::common::{draws, seeds};
use crate::oracles::modes::{best_iteration_ns, best_ms};
use stagecut::check;
use stagecut::control::Control;
use stagecut::exact;
use stagecut::instance::Instance;
use stagecut::methods::Method;
use stagecut::options::{Objective, OptimizerSharding, PipelineOptions};
use stagecut::plan::{Plan, PlanMode, PlanStage, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, NetworkSpec, TensorSpec,
};

/// Layers, and so many devices with links of 10 GB/s.
pub(crate) fn on_devices(count: usize, layers: Vec<LayerSpec>) -> InstanceSpec {
    InstanceSpec {
        network: NetworkSpec {
            layers,
            ..NetworkSpec::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                count: Some(count),
                ..DeviceKindSpec::default()
            }],
            link: Some(LinkSpec {
                bandwidth_bytes_per_s: 1e10,
                latency_ms: 0.0,
                nodes: None,
            }),
            ..ClusterSpec::default()
        }),
        ..InstanceSpec::default()
    }
}

/// The same with a tensor of so many bytes from each layer to the next.
pub(crate) fn chain_on_devices(count: usize, layers: Vec<LayerSpec>, bytes: Option<f64>) -> InstanceSpec {
    let tensor = |pair: &[LayerSpec]| TensorSpec {
        producer: pair[0].id.clone(),
        consumers: vec![pair[1].id.clone()],
        bytes,
        ..TensorSpec::default()
    };
    let tensors = layers.windows(2).map(tensor).collect();
    let mut spec = on_devices(count, layers);
    spec.network.tensors = tensors;
    spec
}

/// What a method makes of a problem; the plan passes the checker. `None` where the problem has none, whatever the method.
fn run(method: Method, instance: &Instance, settings: &Settings, control: &Control) -> Option<Plan> {
    let problem = Problem::new(instance, settings.clone()).ok()?;
    let plan = method.run(instance, &problem, control).unwrap();
    let violations = check::check(instance, &problem.settings, &plan);
    assert!(violations.is_empty(), "{violations:?}\n{plan:#?}");
    Some(plan)
}

/// What `exact` makes of a problem within a time.
pub(crate) fn found(instance: &Instance, settings: &Settings, time_limit: Option<Duration>) -> Option<Plan> {
    let control = Control {
        time_limit,
        ..Control::default()
    };
    run(Method::Exact(exact::Method::Exact), instance, settings, &control)
}

/// What a method makes of an instance.
pub(crate) fn solved_by(method: Method, instance: &Instance, options: &PipelineOptions) -> Plan {
    let settings = Settings::resolve(instance, options).unwrap();
    run(method, instance, &settings, &Control::default()).unwrap()
}

/// What `exact` makes of an instance.
pub(crate) fn solved(spec: &InstanceSpec, options: &PipelineOptions) -> Plan {
    let instance = Instance::from_spec(spec).unwrap();
    solved_by(Method::Exact(exact::Method::Exact), &instance, options)
}

/// The settings of an instance with this objective; `None` where what was drawn contradicts itself.
pub(crate) fn settings_for(instance: &Instance, objective: Objective) -> Option<Settings> {
    let options = PipelineOptions {
        objective: Some(objective),
        ..PipelineOptions::default()
    };
    Settings::resolve(instance, &options).ok()
}

/// Whether no plan is proved, once a plan has been held against the least objective in ms: with the best of what is equally good for its stages, and with the worst.
pub(crate) fn is_open(plan: &Plan, best: Option<[f64; 2]>, close_ms: f64, told: &dyn Fn() -> String) -> bool {
    let [least_ms, most_ms] = best.unwrap_or([f64::INFINITY; 2]);
    let is_possible = plan.objective_ms.is_none_or(|ms| ms >= least_ms - close_ms);
    let is_bounded = plan.bound_ms.is_none_or(|ms| ms <= most_ms + close_ms);
    assert!(is_possible && is_bounded, "{}", told());
    match plan.status {
        Status::Optimal => {
            let is_best = plan.objective_ms.is_some_and(|ms| ms < most_ms + close_ms);
            assert!(is_best && best.is_some(), "{}", told());
        }
        Status::Infeasible => assert!(best.is_none(), "{}", told()),
        Status::Feasible | Status::Unknown => return true,
    }
    false
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) compared: usize,
    /// Plans whose layers with a table lie in several stages.
    pub(crate) parted: usize,
    /// Plans with a stage whose replicas share out experts.
    pub(crate) expert: usize,
    /// Plans with a stage of groups that share out a sequence.
    pub(crate) context: usize,
    /// Of these, with experts that are shared out, and with gradients.
    pub(crate) experts_in_context: usize,
    pub(crate) sharded_in_context: usize,
    /// Plans with a stage of several replicas that share out gradients.
    pub(crate) shared_out: usize,
    /// Plans with something at hosts.
    pub(crate) hosts: usize,
    open: usize,
}

impl Seen {
    /// Counts what a plan has.
    fn look_at(&mut self, instance: &Instance, settings: &Settings, plan: &Plan) {
        self.compared += 1;
        let shares = |stage: &&PlanStage| {
            let layers = instance.network.layers.iter();
            let mut own = layers.filter(|layer| stage.forward.contains(&layer.id));
            own.any(|layer| layer.shared.is_some())
        };
        self.parted += usize::from(plan.stages.iter().filter(shares).count() > 1);
        let modes = plan.stages.iter().filter_map(|stage| stage.mode.as_ref());
        let has = |of: fn(&PlanMode) -> bool| modes.clone().any(of);
        self.expert += usize::from(has(|mode| mode.expert > 1));
        self.context += usize::from(has(|mode| mode.context > 1));
        self.experts_in_context += usize::from(has(|mode| mode.context > 1 && mode.expert > 1));
        self.hosts += usize::from(has(|mode| mode.host_bytes > 0));
        let states_alone = [OptimizerSharding::None, OptimizerSharding::Zero1];
        let more = !states_alone.contains(&settings.optimizer_sharding);
        self.shared_out += usize::from(more && plan.stages.iter().any(|stage| stage.replicas() > 1));
        self.sharded_in_context += usize::from(more && has(|mode| mode.context > 1));
    }
}

/// Periods and iterations, and of how many problems at most one is left open: more of iterations, where what layers compute again may change their
/// forward passes. A sum that goes between nodes over a boundary inside one may be short of a proof.
pub(crate) const PERIODS_AND_ITERATIONS: [(Objective, usize); 2] =
    [(Objective::Period, 20), (Objective::Iteration, 4)];

/// Holds the plans of problems that are drawn from seeds against brute force.
///
/// * `objectives`: what is asked of each, and of how many problems at most one is left open;
/// * `is_enough`: whether enough was seen of so many draws.
pub(crate) fn hold_drawn(
    count: u64,
    objectives: &[(Objective, usize)],
    drawn: impl Fn(u64) -> InstanceSpec,
    is_enough: impl Fn(&Seen, usize) -> bool,
) {
    for &(objective, most_open) in objectives {
        let mut seen = Seen::default();
        for seed in seeds(count) {
            hold((seed, &drawn(seed)), objective, &mut seen);
        }
        println!("{objective}: {seen:?}");
        assert!(is_enough(&seen, draws(count) as usize), "{seen:?}");
        assert!(seen.open * most_open < seen.compared, "{seen:?}");
    }
}

/// Holds the plan of a problem with modes against brute force.
fn hold((seed, spec): (u64, &InstanceSpec), objective: Objective, seen: &mut Seen) {
    // Some layer may run on none of the kinds drawn.
    let Ok(instance) = Instance::from_spec(spec) else {
        return;
    };
    let Some(settings) = settings_for(&instance, objective).filter(|settings| settings.modal) else {
        return;
    };
    let Some(plan) = found(&instance, &settings, None) else {
        return;
    };
    let best = match objective {
        Objective::Iteration => best_iteration_ns(&instance, &settings).map(|ns| ns as f64 / 1e6),
        _ => best_ms(&instance, &settings),
    };
    let told = || format!("seed {seed}: {:?}, best {best:?}\n{plan:#?}", plan.objective_ms);
    seen.look_at(&instance, &settings, &plan);
    seen.open += usize::from(is_open(&plan, best.map(|ms| [ms; 2]), 1e-6, &told));
}

//! Separate cuts against tied ones: never worse, and by how much better.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{problem_of, separate_spec};
use stagecut::bound_source::BoundSource;
use stagecut::check::{Violation, check};
use stagecut::control::Control;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{Communication, Cuts, MemoryLimit, Mode, PipelineOptions};
use stagecut::plan::{Outcome, Plan, Statistics, Status, StoppedBy};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::{InstanceSpec, LayerSpec, NetworkSpec, TensorSpec};

const MODES: [Communication; 3] = [
    Communication::Ignored,
    Communication::Blocking,
    Communication::Overlapped,
];

/// Plans of the three: separate cuts, tied cuts, and tied cuts laid out over separate passes.
struct Plans {
    separate: Plan,
    tied: Plan,
    lifted: Plan,
}

/// `None` where the options do not fit the instance.
fn plans(instance: &Instance, options: &PipelineOptions, time_limit: Option<Duration>) -> Option<Plans> {
    let run = |cuts: Cuts, method: &str| {
        let options = PipelineOptions {
            cuts: Some(cuts),
            ..options.clone()
        };
        let settings = Settings::resolve(instance, &options).ok()?;
        let problem = Problem::new(instance, settings).ok()?;
        let control = Control {
            time_limit,
            ..Control::default()
        };
        let method = methods::find(method).expect("a method");
        let plan = method.run(instance, &problem, &control).expect("HiGHS works");
        assert_eq!(check(instance, &problem.settings, &plan), [], "{}", instance.name);
        Some(plan)
    };
    Some(Plans {
        separate: run(Cuts::Separate, "exact")?,
        tied: run(Cuts::Tied, "exact")?,
        lifted: run(Cuts::Separate, "tied-cuts")?,
    })
}

impl Plans {
    /// The relative gain of separate cuts over tied ones, where both are proved.
    ///
    /// Whatever is proved, no plan with tied cuts is better than the bound for separate cuts.
    fn gain(&self, name: &str) -> Option<f64> {
        let [separate, tied, lifted] =
            [&self.separate, &self.tied, &self.lifted].map(|plan| plan.objective_ms);
        for ms in [tied, lifted].into_iter().flatten() {
            let is_lower = |bound: f64| bound <= ms;
            assert!(self.separate.bound_ms.is_some_and(is_lower), "{name}");
        }
        let proved = |plan: &Plan| matches!(plan.status, Status::Optimal | Status::Infeasible);
        if !proved(&self.separate) || !proved(&self.tied) {
            return None;
        }
        if self.lifted.stopped_by == StoppedBy::Completed {
            assert_eq!(lifted, tied, "{name}");
        }
        let tied = tied?;
        let separate = separate.expect("tied plans are plans for separate cuts");
        assert!(
            separate <= tied,
            "{name}: {separate} with separate cuts, {tied} with tied ones"
        );
        Some(if tied > 0.0 { (tied - separate) / tied } else { 0.0 })
    }
}

/// Nothing but what tied cuts move, too.
fn without_extra_transfers(mut spec: InstanceSpec) -> InstanceSpec {
    for layer in &mut spec.network.layers {
        (layer.stash_bytes, layer.parameter_bytes) = (0.0, 0.0);
    }
    spec
}

#[test]
fn separate_cuts_are_never_worse() {
    let (mut compared, mut gained) = (0, 0);
    for seed in 0..240 {
        let spec = separate_spec(seed, 3 + seed as usize % 4, seed.is_multiple_of(4));
        let free = without_extra_transfers(spec.clone());
        let mut cases = vec![(spec.clone(), spec.pipeline.communication)];
        cases.extend(MODES.map(|mode| (free.clone(), Some(mode))));
        for (spec, communication) in cases {
            let Ok(instance) = Instance::from_spec(&spec) else {
                continue;
            };
            let options = PipelineOptions {
                communication,
                ..PipelineOptions::default()
            };
            let Some(plans) = plans(&instance, &options, None) else {
                continue;
            };
            if let Some(gain) = plans.gain(&instance.name) {
                compared += 1;
                gained += usize::from(gain > 0.0);
            }
        }
    }
    assert!(compared > 600 && gained > 150, "{compared}, {gained}");
}

/// Profiles and models with a backward pass in every layer.
fn measured() -> Vec<Instance> {
    let mut paths = Vec::new();
    for name in ["alexnet.graph.txt", "resnet18.graph.txt", "vgg16.graph.txt"] {
        paths.push(Path::new("../shared/data/pipedream").join(name));
    }
    for name in ["alexnet.csv", "googlenet.csv"] {
        paths.push(Path::new("../shared/data/caffe").join(name));
    }
    let onnx = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "onnx");
    if cfg!(feature = "onnx") {
        let folder = std::fs::read_dir("instances").expect("instances of this project");
        let mut models: Vec<PathBuf> = folder.map(|entry| entry.expect("an entry").path()).collect();
        models.retain(onnx);
        models.sort();
        paths.append(&mut models);
    }
    let (present, absent): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(|path| path.exists());
    absent
        .iter()
        .for_each(|path| println!("skipped: no `{}`", path.display()));
    let read = |path: &PathBuf| Instance::read(path, None).expect("a measured instance");
    present.iter().map(read).collect()
}

fn unlimited(stages: usize, communication: Communication) -> PipelineOptions {
    PipelineOptions {
        mode: Some(Mode::Training),
        stages: Some(stages),
        communication: Some(communication),
        memory_limit: Some(MemoryLimit::from(None)),
        ..PipelineOptions::default()
    }
}

#[test]
fn separate_cuts_are_never_worse_on_measured_instances() {
    let limit = Some(Duration::from_secs(1));
    let mut compared = 0;
    for mut instance in measured() {
        let name = instance.name.clone();
        for communication in MODES {
            let plans = plans(&instance, &unlimited(3, communication), limit).expect("options that fit");
            compared += usize::from(plans.gain(&name).is_some());
        }
        for layer in &mut instance.network.layers {
            (layer.stash_bytes, layer.parameter_bytes) = (0, 0);
        }
        for communication in [Communication::Blocking, Communication::Overlapped] {
            let plans = plans(&instance, &unlimited(3, communication), limit).expect("options that fit");
            compared += usize::from(plans.gain(&name).is_some());
        }
    }
    assert!(compared > 10, "{compared}");
}

#[test]
fn separate_cuts_are_never_worse_on_explicit_backward_graphs() {
    let limit = Some(Duration::from_secs(2));
    let mut compared = 0;
    for name in [
        "layer_bert24_training",
        "layer_resnet50_training",
        "operator_bert_l-3_training",
    ] {
        let path = Path::new("../shared/data/dnn-partitioning").join(format!("{name}.json"));
        if !path.exists() {
            println!("skipped: no `{}`", path.display());
            continue;
        }
        let instance = Instance::read(&path, None).expect("a measured graph");
        for communication in MODES {
            let options = PipelineOptions {
                device_kinds: Some(vec!["accelerator".into()]),
                ..unlimited(3, communication)
            };
            let plans = plans(&instance, &options, limit).expect("options that fit");
            compared += usize::from(plans.gain(name).is_some());
        }
    }
    println!("compared {compared} proved pairs");
}

/// `a -> w -> b` with backward operators of `a` and `b`, and one of neither.
fn explicit_graph() -> InstanceSpec {
    let forward = |id: &str, tie: Option<&str>| LayerSpec {
        id: id.into(),
        forward_ms: Some(1.0),
        tie: tie.map(Into::into),
        ..LayerSpec::default()
    };
    let backward = |id: &str, tie: Option<&str>| LayerSpec {
        id: id.into(),
        backward_ms: Some(2.0),
        tie: tie.map(Into::into),
        backward: true,
        ..LayerSpec::default()
    };
    let tensor = |(from, to): (&str, &str)| TensorSpec {
        producer: from.into(),
        consumers: vec![to.into()],
        bytes: None,
        transfer_ms: Some(0.0),
    };
    InstanceSpec {
        network: NetworkSpec {
            layers: vec![
                forward("a", Some("A")),
                forward("w", None),
                forward("b", Some("B")),
                backward("a'", Some("A")),
                backward("b'", Some("B")),
                backward("sum", None),
            ],
            tensors: [("a", "w"), ("w", "b"), ("b'", "a'"), ("sum", "a'")]
                .map(tensor)
                .into(),
            ..NetworkSpec::default()
        },
        pipeline: PipelineOptions {
            stages: Some(2),
            cuts: Some(Cuts::Separate),
            ..PipelineOptions::default()
        },
        ..InstanceSpec::default()
    }
}

#[test]
fn backward_operators_keep_the_order_of_their_ties() {
    let (instance, problem) = problem_of(&explicit_graph()).expect("a problem");
    let item = |id: &str| {
        let has = |&layer: &usize| instance.network.layers[layer].id == id;
        let items = &problem.items;
        let at = items
            .iter()
            .position(|item| item.layers.iter().chain(&item.backward_layers).any(has));
        at.expect("an item")
    };
    let order = |from: &str, to: &str| {
        let at = |id: &str| (item(id) as u32).into();
        problem.order.contains_edge(at(from), at(to))
    };
    assert!(order("a'", "b'") && !order("b'", "a'"));
    assert!(!order("a'", "sum") && !order("sum", "a'"));

    let faults = |second: &[&str]| {
        let mut assignment = vec![0; problem.items.len()];
        second.iter().for_each(|id| assignment[item(id)] = 1);
        let outcome = Outcome {
            allocation: Some(assignment.into()),
            bound_ns: 0,
            bound_source: BoundSource::None,
            stopped_by: StoppedBy::Completed,
            statistics: Statistics::default(),
        };
        check(
            &instance,
            &problem.settings,
            &Plan::new(&instance, &problem, "hand", outcome),
        )
    };
    assert_eq!(faults(&["b", "b'"]), []);
    assert_eq!(faults(&["b'", "sum"]), []);
    assert_eq!(faults(&["b", "sum"]), []);
    let order = |from: &str, to: &str| Violation::Order {
        from: from.into(),
        to: to.into(),
        stages: [2, 1],
        by: 1,
    };
    assert_eq!(faults(&["b", "a'"]), [order("a'", "b'")]);
    assert_eq!(faults(&["w", "b'"]), [order("w", "b")]);
}

/// Bandwidths from far above NVLink to a slow network: the gain shrinks, and is gone where moving a stash takes longer than
/// the work it would balance.
#[test]
fn the_gain_on_vgg16_vanishes_on_slow_links() {
    let path = Path::new("../shared/data/pipedream/vgg16.graph.txt");
    if !path.exists() {
        println!("skipped: no `{}`", path.display());
        return;
    }
    let instance = Instance::read(path, None).expect("a profile");
    for communication in [Communication::Blocking, Communication::Overlapped] {
        let gain = |bandwidth: f64| {
            let options = PipelineOptions {
                bandwidth_bytes_per_s: Some(bandwidth),
                ..unlimited(4, communication)
            };
            let plans = plans(&instance, &options, None).expect("options that fit");
            let mut stages = plans.separate.stages.iter();
            let splits = stages.any(|stage| stage.forward != stage.backward);
            let gain = plans.gain("vgg16").expect("both are proved");
            assert!(splits || gain == 0.0, "{communication}, {bandwidth} bytes/s");
            gain
        };
        // NVLink, then 200, 100, 10 and 1 Gb/s.
        let gains = [150e9, 25e9, 12.5e9, 1.25e9, 1.25e8].map(gain);
        assert!(gains[0] > 0.1, "{communication}: {gains:?}");
        assert!(
            gains.is_sorted_by(|faster, slower| faster >= slower),
            "{communication}: {gains:?}"
        );
        assert_eq!(gains[2..], [0.0; 3], "{communication}");
    }
}

//! Why a search stopped and what it found: every combination, from the engine's own mouth.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stagecut::control::{Control, Progress};
use stagecut::cost;
use stagecut::exact::bounds;
use stagecut::formulations::Program;
use stagecut::formulations::partition::{Interest, Partition, item_labels};
use stagecut::formulations::staging::Windows;
use stagecut::heuristics::slicing;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::objective::Objective;
use stagecut::options::{Groups, MemoryLimit, PipelineOptions};
use stagecut::plan::{Plan, Status, StoppedBy};
use stagecut::problem::Problem;
use stagecut::schedule::Schedule;
use stagecut::settings::Settings;
use stagecut::solver::{Stop, solve};
use stagecut::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, NetworkSpec, ResourceSpec, TensorSpec,
};

/// Layers side by side behind one source, with costly tensors between: easy to plan, hard to prove.
fn wide(layers: usize) -> InstanceSpec {
    let time = |i: usize| 3.0 + (i * i * 7 % 11) as f64;
    let name = |i: usize| format!("layer{i}");
    let layer = |i: usize| LayerSpec {
        id: name(i),
        forward_ms: Some(time(i)),
        resident_bytes: 10.0,
        ..Default::default()
    };
    let tensor = |i: usize| TensorSpec {
        producer: name(i / 3),
        consumers: vec![name(i)],
        transfer_ms: Some(1.0 + (i % 4) as f64),
        ..Default::default()
    };
    InstanceSpec {
        network: NetworkSpec {
            layers: (0..layers).map(layer).collect(),
            tensors: (1..layers).map(tensor).collect(),
            ..Default::default()
        },
        pipeline: PipelineOptions {
            stages: Some(8),
            ..Default::default()
        },
        ..Default::default()
    }
}

fn run(spec: &InstanceSpec, method: &str, control: &Control) -> Plan {
    let instance = Instance::from_spec(spec).expect("a valid instance");
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).expect("valid settings");
    let problem = Problem::new(&instance, settings).expect("a valid problem");
    let method = methods::find(method).expect("a registered method");
    let plan = method.run(&instance, &problem, control).expect("HiGHS works");
    assert_eq!(stagecut::check::check(&instance, &problem.settings, &plan), []);
    plan
}

#[test]
fn a_time_limit_without_a_plan_is_unknown() {
    let control = Control {
        time_limit: Some(Duration::ZERO),
        ..Control::default()
    };
    let plan = run(&wide(60), "textbook", &control);
    assert_eq!(
        (plan.status, plan.stopped_by),
        (Status::Unknown, StoppedBy::TimeLimit)
    );
    assert!(plan.stages.is_empty() && plan.objective_ms.is_none());
}

#[test]
fn a_time_limit_with_a_plan_is_feasible() {
    let control = Control {
        time_limit: Some(Duration::from_millis(300)),
        ..Control::default()
    };
    let plan = run(&wide(60), "milp", &control);
    assert_eq!(
        (plan.status, plan.stopped_by),
        (Status::Feasible, StoppedBy::TimeLimit)
    );
    assert!(plan.bound_ms < plan.objective_ms);
}

/// Devices of three speeds to form groups of: every ideal of the network takes long.
fn wide_on_groups(layers: usize) -> InstanceSpec {
    let kind = |rate: f64| DeviceKindSpec {
        name: format!("rate-{rate}"),
        count: Some(6),
        resources: vec![ResourceSpec {
            name: "gpu".into(),
            forward_rate: rate,
            ..Default::default()
        }],
        ..Default::default()
    };
    let mut spec = wide(layers);
    spec.cluster = Some(ClusterSpec {
        device_kinds: [1.0, 1.7, 2.3].map(kind).into(),
        ..Default::default()
    });
    spec.pipeline.groups = Some(Groups::Assign);
    // One stage of all devices would be best at once.
    spec.pipeline.all_stages = Some(true);
    spec
}

#[test]
fn a_pass_over_ideals_and_devices_looks_at_the_clock() {
    let control = Control {
        time_limit: Some(Duration::from_secs(1)),
        ..Control::default()
    };
    let plan = run(&wide_on_groups(60), "ideals", &control);
    assert_eq!(
        (plan.status, plan.stopped_by),
        (Status::Feasible, StoppedBy::TimeLimit)
    );
    // Far more than a look at the clock should take, far less than a pass does.
    assert!(plan.statistics.seconds < 10.0, "{}", plan.statistics.seconds);
}

#[test]
fn an_interrupt_before_the_search_keeps_what_is_known() {
    let interrupt = AtomicBool::new(true);
    let control = Control {
        interrupt: &interrupt,
        ..Control::default()
    };
    let plan = run(&wide(60), "exact", &control);
    assert_eq!(
        (plan.status, plan.stopped_by),
        (Status::Feasible, StoppedBy::Interrupt)
    );
    let plan = run(&wide(60), "textbook", &control);
    assert_eq!(
        (plan.status, plan.stopped_by),
        (Status::Unknown, StoppedBy::Interrupt)
    );
}

/// HiGHS reports progress while it runs; an interrupt sent from there stops it with the incumbent.
#[test]
fn an_interrupt_during_the_search_returns_the_best_plan() {
    let interrupt = AtomicBool::new(false);
    let progress = |progress: &Progress| {
        if progress.incumbent_ns.is_some() && progress.seconds > 0.2 {
            interrupt.store(true, Ordering::Relaxed);
        }
    };
    let control = Control {
        interrupt: &interrupt,
        progress: Some(&progress),
        // Only so that a broken interrupt fails the test instead of running on.
        time_limit: Some(Duration::from_secs(60)),
        ..Control::default()
    };
    let plan = run(&wide(60), "milp", &control);
    assert_eq!(
        (plan.status, plan.stopped_by),
        (Status::Feasible, StoppedBy::Interrupt)
    );
}

#[test]
fn a_gap_that_is_asked_for_stops_the_search() {
    let control = Control {
        gap: 0.9,
        ..Control::default()
    };
    let plan = run(&wide(60), "exact", &control);
    assert_eq!((plan.status, plan.stopped_by), (Status::Feasible, StoppedBy::Gap));
    assert!(plan.gap.is_some_and(|gap| gap <= 0.9));
}

#[test]
fn too_little_memory_is_proved_infeasible_by_every_method() {
    let mut spec = wide(9);
    spec.pipeline.stages = Some(4);
    // Nine layers of ten bytes on four stages: one holds three.
    spec.pipeline.memory_limit = Some(MemoryLimit::Bytes(29));
    for method in ["exact", "milp", "ideals", "textbook"] {
        let plan = run(&spec, method, &Control::default());
        assert_eq!(
            (plan.status, plan.stopped_by),
            (Status::Infeasible, StoppedBy::Completed),
            "{method}"
        );
        assert_eq!((plan.objective_ms, plan.bound_ms, plan.gap), (None, None, None));
    }
}

#[test]
fn a_finished_search_is_optimal_and_names_its_bound() {
    let mut spec = wide(9);
    spec.pipeline.stages = Some(3);
    for (method, source) in [("milp", "program"), ("ideals", "ideals"), ("textbook", "program")] {
        let plan = run(&spec, method, &Control::default());
        assert_eq!(
            (plan.status, plan.stopped_by),
            (Status::Optimal, StoppedBy::Completed),
            "{method}"
        );
        assert_eq!(
            (plan.bound_source.name(), plan.gap),
            (source, Some(0.0)),
            "{method}"
        );
    }
}

/// A complete start is a solution of the program at the cost we compute ourselves: HiGHS accepts it and never does worse.
#[test]
fn an_incumbent_is_a_start_that_highs_accepts() {
    let instance = Instance::from_spec(&wide(60)).expect("a valid instance");
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).expect("valid settings");
    let problem = Problem::new(&instance, settings).expect("a valid problem");
    let (incumbent, objective_ns) = slicing::best_slicing(&problem, 0, &|| false).expect("a plan");
    let limit_ns = bounds::all_in_one_ns(&problem);
    let labels = item_labels(&instance, &problem);
    let Partition { program, columns } = Partition::build(
        &problem,
        &Windows::all(&problem),
        Interest::up_to(limit_ns),
        &labels,
    );
    let scale_ns = program.scale_ns;
    let start = columns.start(&problem, &incumbent);
    assert_eq!(columns.assignment(&start), Some(incumbent));
    let control = Control {
        time_limit: Some(Duration::from_millis(500)),
        ..Control::default()
    };
    let solved = solve(program, Some(&start), None, &control, &|_| ()).expect("HiGHS works");
    assert_eq!(solved.stop, Stop::Limit(StoppedBy::TimeLimit));
    let found = solved
        .values
        .and_then(|values| columns.assignment(&values))
        .expect("at least the start");
    let found_ns = cost::assignment_ns(&problem, &found);
    assert!(found_ns <= objective_ns && solved.bound * scale_ns <= found_ns as f64);
}

/// A program whose infeasibility presolve sees at once, and one that only the search can refute.
#[test]
fn infeasible_programs_are_told_apart_from_failures() {
    use good_lp::{Expression, variable};

    let at_once = {
        let mut program = Program::new(1.0);
        let x = program.declare(variable().binary().name("x"));
        program.add_row("above[1]".into(), Expression::from(2), x.expression());
        program.objective = x.expression();
        program
    };
    // Three binaries of which each pair has exactly one set: parity forbids it, the relaxation does not.
    let by_parity = {
        let mut program = Program::new(1.0);
        let x: Vec<_> = (0..3)
            .map(|i| program.declare(variable().binary().name(format!("x{i}"))))
            .collect();
        for (a, b) in [(0, 1), (1, 2), (0, 2)] {
            let sum = || x[a].expression() + x[b].expression();
            program.add_row(format!("most[{a},{b}]"), sum(), 1.into());
            program.add_row(format!("least[{a},{b}]"), 1.into(), sum());
        }
        program.objective = x[0].expression();
        program
    };
    for program in [at_once, by_parity] {
        let solved = solve(program, None, None, &Control::default(), &|_| ()).expect("HiGHS works");
        assert_eq!((solved.stop, solved.values), (Stop::Infeasible, None));
        assert_eq!(solved.bound, f64::INFINITY);
    }
}

/// Presolve of HiGHS loses more accuracy on this program than its own tolerance allows, and it ends with an error.
#[test]
fn program_whose_solution_presolve_spoils_is_solved_without() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("instances/measured/inception-v3.json");
    let (mut spec, _) = stagecut::import::read_spec(&path).expect("a readable instance");
    spec.pipeline = PipelineOptions {
        stages: Some(4),
        devices: Some(4),
        micro_batches: Some(8),
        schedule: Some(Schedule::Gpipe),
        objective: Some(Objective::Formula),
        ..Default::default()
    };
    let plan = run(&spec, "milp", &Control::default());
    assert_eq!(plan.status, Status::Optimal, "{:?}", plan.stopped_by);
}

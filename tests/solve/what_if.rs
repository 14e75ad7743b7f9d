//! The optimum as a function of a number: bounds that hold at every value, breakpoints that are exact, and what the command says.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::common::command::{Folder, NET, json, snapshots};
use crate::common::modal::random_modal_links;
use crate::common::{any_spec, random_spec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::control::Control;
use stagecut::cost;
use stagecut::instance::Instance;
use stagecut::options::{Objective, PipelineOptions};
use stagecut::plan::{Status, StoppedBy};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::what_if::{Answer, Curve, Kind, Law, Parameter, Point, Question, ask};
use stagecut::{Error, Options, solve};

/// Three layers of 4 ms, with tensors of 2 MB and 1 MB: one stage is best up to 0.25 GB/s, two up to 0.5 GB/s, then three.
const CHAIN: &str = r#"
[network]
layers = [
  { id = "a", forward_ms = 4.0 },
  { id = "b", forward_ms = 4.0 },
  { id = "c", forward_ms = 4.0 },
]
tensors = [
  { producer = "a", consumers = ["b"], bytes = 2e6 },
  { producer = "b", consumers = ["c"], bytes = 1e6 },
]

[cluster]
device_kinds = [{ name = "gpu" }]
link = { bandwidth_bytes_per_s = 1e9 }
"#;

fn question(parameter: Parameter, from: f64, to: f64) -> Question {
    Question {
        parameter,
        from,
        to,
        stages: None,
        tolerance: if parameter.is_continuous() { 0.02 } else { 0.0 },
        point_limit: None,
    }
}

fn asked(instance: &Instance, options: &PipelineOptions, question: &Question) -> Result<Answer, Error> {
    ask(instance, options, question, &Control::default(), &|_| {})
}

/// What a search proves of a value, in ns; infinite where there is no plan.
fn optimum_ns(instance: &Instance, options: &PipelineOptions) -> Option<f64> {
    let options = Options {
        pipeline: options.clone(),
        ..Options::default()
    };
    let plan = solve(instance, &options).expect("a problem");
    match plan.status {
        Status::Infeasible => Some(f64::INFINITY),
        Status::Optimal => {
            let ms = plan.objective_ms.expect("a plan");
            Some((ms * 1e6).round())
        }
        _ => None,
    }
}

/// A range of the parameter that matters in small random problems.
fn range(parameter: Parameter, instance: &Instance, settings: &Settings) -> (f64, f64) {
    let bytes: u64 = instance
        .network
        .layers
        .iter()
        .map(|layer| settings.base_bytes(layer))
        .sum();
    let stash: u64 = instance
        .network
        .layers
        .iter()
        .map(|layer| layer.stash_bytes)
        .sum();
    match parameter {
        Parameter::Bandwidth => (1e8, 1e10),
        Parameter::Memory => (
            1.0,
            (bytes + settings.in_flight(settings.stages) * stash + 2) as f64,
        ),
        Parameter::Stages | Parameter::Devices => (1.0, 5.0),
        other => panic!("{other}"),
    }
}

/// Values all over a range.
fn grid(parameter: Parameter, (from, to): (f64, f64), rng: &mut ChaCha8Rng) -> Vec<f64> {
    let many = 8;
    let at = |rng: &mut ChaCha8Rng| match parameter.is_continuous() {
        true => from * (to / from).powf(rng.random_range(0.0..=1.0)),
        false => rng.random_range(from as u64..=to as u64) as f64,
    };
    (0..many).map(|_| at(rng)).collect()
}

/// The optimum that a search finds at a value lies within what the curve says of it, for problems of every kind.
#[test]
fn curves_hold_at_every_value() {
    let mut held = [0; 4];
    let [mut apart, mut unproved] = [0; 2];
    for seed in 0..480 {
        let spec = match seed % 10 < 7 {
            true => any_spec(seed),
            false => random_modal_links(seed),
        };
        let Ok(instance) = Instance::from_spec(&spec) else {
            continue;
        };
        let Ok(settings) = Settings::resolve(&instance, &PipelineOptions::default()) else {
            continue;
        };
        let parameters = [
            Parameter::Bandwidth,
            Parameter::Memory,
            Parameter::Stages,
            Parameter::Devices,
        ];
        let parameter = parameters[seed as usize % 4];
        let own = range(parameter, &instance, &settings);
        let mut options = PipelineOptions::default();
        let mut own = own;
        if seed % 16 == 2 {
            (options.all_stages, own.1) = (Some(true), 2.0);
        }
        let question = question(parameter, own.0, own.1);
        let answer = match asked(&instance, &options, &question) {
            Ok(answer) => answer,
            Err(Error::Input(_)) => continue,
            Err(error) => panic!("seed {seed}, {parameter}: {error}"),
        };
        let curve = &answer.curves[0].bounds;
        // An iteration of chunks or of devices that differ has bounds, and no search that ends with a proof.
        let ends = match settings.objective {
            Objective::Iteration => vec![StoppedBy::Completed, StoppedBy::NoMethod],
            _ => vec![StoppedBy::Completed],
        };
        assert!(
            ends.contains(&answer.stopped_by),
            "seed {seed}: {:?}",
            answer.stopped_by
        );
        // Tensors that skip stages over two levels of links are not always proved.
        let is_proved = curve.points.iter().all(Point::is_proved);
        assert!(
            !is_proved || curve.gap() <= question.tolerance,
            "seed {seed}, {parameter}: {} {:?}",
            curve.gap(),
            curve.points
        );
        unproved += usize::from(!is_proved);
        apart += usize::from(curve.law == Law::Apart);
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        for at in grid(parameter, own, &mut rng) {
            let Some(optimum_ns) = optimum_ns(&instance, &parameter.set(&options, at)) else {
                continue;
            };
            let [lower_ns, upper_ns] = curve.bounds_ns(at);
            // Times on shares may be rounded either way, and parts of a ns are not told apart.
            let holds = lower_ns <= optimum_ns + 1.0 && optimum_ns <= upper_ns + 1.0;
            assert!(
                holds,
                "seed {seed}, {parameter} {at}: {lower_ns} <= {optimum_ns} <= {upper_ns}"
            );
        }
        falls(curve, seed);
        held[seed as usize % 4] += 1;
    }
    assert!(
        held.iter().all(|&held| held >= 8) && apart > 0 && unproved < 8,
        "{held:?}, {apart}, {unproved}"
    );
}

/// More is never worse.
fn falls(curve: &Curve, seed: u64) {
    if curve.law == Law::Apart {
        return;
    }
    for pair in curve.points.windows(2) {
        assert!(pair[0].at < pair[1].at, "seed {seed}");
        assert!(pair[0].upper_ns >= pair[1].upper_ns, "seed {seed}: {pair:?}");
        assert!(pair[0].lower_ns >= pair[1].lower_ns, "seed {seed}: {pair:?}");
    }
}

/// Of every plan what it takes and the memory that it needs, by brute force.
fn plans(problem: &Problem) -> Vec<(u64, u64)> {
    let (items, stages) = (problem.items.len(), problem.stages());
    let mut all = Vec::new();
    for code in 0..stages.pow(items as u32) {
        let assignment: Vec<usize> = (0..items)
            .map(|item| code / stages.pow(item as u32) % stages)
            .collect();
        if !cost::is_feasible(problem, &assignment) {
            continue;
        }
        let (compact, used) = cost::without_empty_stages(&assignment);
        let bytes = cost::stage_memory_bytes(problem, &compact, used)
            .into_iter()
            .max();
        all.push((bytes.unwrap_or(0), cost::assignment_ns(problem, &assignment)));
    }
    all
}

/// Every breakpoint of a memory is that of brute force, to the byte.
#[test]
fn breakpoints_of_memory_are_exact() {
    let mut breakpoints = 0;
    for seed in 0..160 {
        let mut spec = random_spec(seed, seed % 3 == 0);
        spec.pipeline.memory_limit = None;
        spec.pipeline.stages = spec.pipeline.stages.map(|stages| stages.min(3));
        if let Some(cluster) = &mut spec.cluster {
            cluster
                .device_kinds
                .iter_mut()
                .for_each(|kind| kind.memory_bytes = None);
        }
        let Some((instance, problem)) = crate::common::problem_of(&spec) else {
            continue;
        };
        if problem.items.len() > 8
            || problem.settings.is_simulated() && problem.settings.communication.has_links()
        {
            continue;
        }
        let plans = plans(&problem);
        let most = plans.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0) + 1;
        let question = question(Parameter::Memory, 1.0, most.max(2) as f64);
        let answer = asked(&instance, &PipelineOptions::default(), &question).expect("an answer");
        let optimum = |limit: u64| {
            let fit = plans.iter().filter(|(bytes, _)| *bytes <= limit);
            fit.map(|(_, ns)| *ns).min()
        };
        let mut steps = Vec::new();
        for (bytes, _) in &plans {
            if *bytes > 1 && optimum(*bytes) != optimum(bytes - 1) {
                steps.push(*bytes);
            }
        }
        steps.sort_unstable();
        steps.dedup();
        let found: Vec<u64> = answer.curves[0]
            .segments
            .iter()
            .skip(1)
            .map(|segment| segment.from as u64)
            .collect();
        // Segments of one value may follow on each other where plans differ.
        let of_value = |at: &u64| optimum(*at) != optimum(at - 1);
        let found: Vec<u64> = found.into_iter().filter(of_value).collect();
        assert_eq!(found, steps, "seed {seed}");
        breakpoints += steps.len();
        for segment in &answer.curves[0].segments {
            for at in [segment.from, segment.to] {
                let expected = optimum(at as u64).map(|ns| problem.settings.ms(ns));
                assert_eq!(segment.from_ms, expected, "seed {seed} at {at}");
            }
        }
    }
    assert!(breakpoints > 60, "{breakpoints}");
}

/// Every curve is the optimum of its number of stages at every whole value; no plan is an optimum without end.
fn assert_curves(answer: &Answer, most: u64, optimum: impl Fn(usize, u64) -> u64, context: &str) {
    for (curve, stages) in answer.curves.iter().zip(1..) {
        for at in 1..=most {
            let expected = match optimum(stages, at) {
                u64::MAX => f64::INFINITY,
                ns => ns as f64,
            };
            assert_eq!(
                curve.bounds.bounds_ns(at as f64),
                [expected; 2],
                "{context} at {at}"
            );
        }
    }
}

/// At every whole value more stages are said to be better where brute force finds them better, and nowhere else: also at one alone.
#[test]
fn more_stages_are_better_where_brute_force_finds_them_better() {
    let (mut alone, mut pairs) = (0, 0);
    for seed in 0..400 {
        let mut spec = random_spec(seed, seed % 3 == 0);
        spec.pipeline.memory_limit = None;
        if let Some(cluster) = &mut spec.cluster {
            cluster
                .device_kinds
                .iter_mut()
                .for_each(|kind| kind.memory_bytes = None);
        }
        let mut of_stages = Vec::new();
        for stages in 1..=3 {
            spec.pipeline.stages = Some(stages);
            let Some((instance, problem)) = crate::common::problem_of(&spec) else {
                continue;
            };
            let settings = &problem.settings;
            let is_asked = problem.items.len() <= 7
                && !settings.all_stages
                && !(settings.is_simulated() && settings.communication.has_links());
            if is_asked {
                of_stages.push((instance, plans(&problem)));
            }
        }
        let [_, _, (instance, most_plans)] = &of_stages[..] else {
            continue;
        };
        let most = most_plans.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0) + 1;
        if !(2..=400).contains(&most) {
            continue;
        }
        let asked_of = Question {
            stages: Some([1, 3]),
            ..question(Parameter::Memory, 1.0, most as f64)
        };
        let answer = asked(instance, &PipelineOptions::default(), &asked_of).expect("an answer");
        let optimum = |stages: usize, limit: u64| {
            let fit = of_stages[stages - 1]
                .1
                .iter()
                .filter(|(bytes, _)| *bytes <= limit);
            fit.map(|(_, ns)| *ns).min().unwrap_or(u64::MAX)
        };
        for better in &answer.better {
            let is_better = |at: u64| optimum(better.stages, at) < optimum(better.than, at);
            let is_said = |at: u64| {
                let mut stretches = better.better.iter();
                stretches.any(|stretch| stretch.from <= at as f64 && at as f64 <= stretch.to)
            };
            for at in 1..=most {
                let context = format!(
                    "seed {seed}: {} stages for {} at {at}",
                    better.stages, better.than
                );
                assert_eq!(is_said(at), is_better(at), "{context}");
            }
            alone += better
                .better
                .iter()
                .filter(|stretch| stretch.from == stretch.to)
                .count();
            pairs += 1;
        }
        let context = format!("seed {seed}");
        assert_curves(&answer, most, optimum, &context);
    }
    assert!(alone > 0 && pairs > 100, "{alone} alone of {pairs}");
}

/// Three stages are better than two with 21 bytes, and with no more or less.
#[test]
fn more_stages_may_be_better_at_one_value_alone() {
    let folder = Folder::with("net.json", include_str!("../cases/more-stages-at-one-value.json"));
    let args = "what-if net.json --stages 1..3 --mode training --communication blocking --schedule 1f1b \
                --optimizer momentum --micro-batches 2 --objective period --memory-limit 6..59";
    let text = folder.succeed(&args.split_whitespace().collect::<Vec<_>>());
    let told = "At 21 B alone, 3 stages are better than 2; elsewhere they gain at most 0.00 %.";
    assert!(text.contains(told), "{text}");
    assert!(text.contains("The optimum is proved at every value."), "{text}");
}

/// Problems of few layers with virtual stages, over bandwidth: a search that ends once it has seen the few plans there are misses none.
#[test]
fn curves_of_few_chunks_are_proved() {
    let layer = |k: usize| format!("{{ id = \"n{k}\", forward_ms = 1e-5, backward_ms = 1e-5 }}");
    let layers: Vec<String> = (0..3).map(layer).collect();
    let text = format!(
        "[network]\nlayers = [{}]\ntensors = [{{ producer = \"n0\", consumers = [\"n2\"], bytes = 5 }}]\n\
         [cluster]\ndevice_kinds = [{{ name = \"g\", count = 3 }}]\nlink = {{ bandwidth_bytes_per_s = 1e9 }}\n",
        layers.join(", ")
    );
    let instance = Instance::from_spec(&toml_spec(&text)).expect("an instance");
    let options = PipelineOptions {
        virtual_stages: Some(2.into()),
        ..PipelineOptions::default()
    };
    let asked_of = question(Parameter::Bandwidth, 1e8, 1e10);
    let answer = asked(&instance, &options, &asked_of).expect("an answer");
    assert!(answer.searches > 20, "{}", answer.searches);
    let gap = answer.curves[0].gap.expect("bounds are known");
    assert!(gap <= 0.02, "{gap}");
}

/// The example of the page: which plan is best where, and from where on more stages are better.
#[test]
fn changes_of_plans_are_found() {
    let instance = Instance::from_spec(&toml_spec(CHAIN)).expect("an instance");
    let options = PipelineOptions {
        stages: Some(3),
        ..PipelineOptions::default()
    };
    let single = asked(&instance, &options, &question(Parameter::Bandwidth, 1e8, 1e10)).expect("an answer");
    let stages: Vec<Option<usize>> = (single.curves[0].segments.iter())
        .filter(|segment| segment.kind == Kind::Plan)
        .map(|segment| segment.stages)
        .collect();
    assert_eq!(stages, [Some(1), Some(2), Some(3)]);
    for (at, expected_ns) in [(1e8, 12e6), (0.375e9, 8e6 + 1e6 / 0.375), (1e10, 4.3e6)] {
        let [lower_ns, upper_ns] = single.curves[0].bounds.bounds_ns(at);
        assert!(
            lower_ns <= expected_ns + 1.0 && expected_ns <= upper_ns + 1.0,
            "{lower_ns} {expected_ns} {upper_ns}"
        );
    }
    let both = Question {
        stages: Some([1, 3]),
        ..question(Parameter::Bandwidth, 1e8, 1e10)
    };
    let family = asked(&instance, &PipelineOptions::default(), &both).expect("an answer");
    assert_eq!(
        family.curves.iter().map(|curve| curve.stages).collect::<Vec<_>>(),
        [Some(1), Some(2), Some(3)]
    );
    for (better, exact) in family.better.iter().zip([0.25e9, 0.5e9]) {
        let [stretch] = &better.better[..] else {
            panic!("{better:?}");
        };
        assert_eq!(stretch.to, 1e10);
        assert!(exact < stretch.from && stretch.from < 1.1 * exact, "{better:?}");
        let most = better.most.expect("a gain");
        assert!(better.gain_elsewhere < Some(0.1) && most.gain > 0.3, "{better:?}");
    }
}

fn toml_spec(text: &str) -> stagecut::spec::InstanceSpec {
    toml::from_str(text).expect("a specification")
}

/// Without time nothing is proved, and nothing is said to be.
#[test]
fn unproved_values_carry_bounds() {
    let instance = Instance::from_spec(&random_spec(3, false)).expect("an instance");
    let hurried = Question {
        point_limit: Some(Duration::ZERO),
        ..question(Parameter::Stages, 1.0, 4.0)
    };
    match asked(&instance, &PipelineOptions::default(), &hurried) {
        Err(error) => panic!("{error}"),
        Ok(answer) => {
            let proved = asked(
                &instance,
                &PipelineOptions::default(),
                &question(Parameter::Stages, 1.0, 4.0),
            );
            let proved = proved.expect("an answer");
            for at in 1..=4 {
                let [lower_ns, upper_ns] = answer.curves[0].bounds.bounds_ns(f64::from(at));
                let [exact_ns, _] = proved.curves[0].bounds.bounds_ns(f64::from(at));
                assert!(lower_ns <= exact_ns && exact_ns <= upper_ns, "{at}");
            }
        }
    }
    let stopped = Control {
        time_limit: Some(Duration::ZERO),
        ..Control::default()
    };
    let question = question(Parameter::Stages, 1.0, 4.0);
    let answer = ask(
        &instance,
        &PipelineOptions::default(),
        &question,
        &stopped,
        &|_| {},
    )
    .expect("an answer");
    assert_eq!(answer.stopped_by, StoppedBy::TimeLimit);
    assert!(!answer.has_plan() && !answer.is_infeasible());
    let interrupt = AtomicBool::new(true);
    let interrupted = Control {
        interrupt: &interrupt,
        ..Control::default()
    };
    let answer = ask(
        &instance,
        &PipelineOptions::default(),
        &question,
        &interrupted,
        &|_| {},
    )
    .expect("an answer");
    assert_eq!(answer.stopped_by, StoppedBy::Interrupt);
}

const BANDWIDTHS: &str = "0.1GB/s..10GB/s";

#[test]
fn reports_for_people() {
    let folder = Folder::with("chain.toml", CHAIN);
    folder.write("net.toml", NET);
    let settings = snapshots("what_if");
    let report = |args: &[&str]| {
        let args = [&["what-if"], args, &["--reproducible", "--quiet"]].concat();
        folder.succeed(&args)
    };
    let bandwidth = report(&["chain.toml", "--stages", "3", "--bandwidth", BANDWIDTHS]);
    let family = report(&["chain.toml", "--stages", "1..3", "--bandwidth", BANDWIDTHS]);
    let memory = report(&["net.toml", "--stages", "2", "--memory-limit", "1kB..4kB"]);
    let stages = report(&["chain.toml", "--stages", "1..3"]);
    let devices = report(&["net.toml", "--devices", "1..3"]);
    settings.bind(|| {
        insta::assert_snapshot!("bandwidth", bandwidth);
        insta::assert_snapshot!("bandwidth-and-stages", family);
        insta::assert_snapshot!("memory", memory);
        insta::assert_snapshot!("stages", stages);
        insta::assert_snapshot!("devices", devices);
    });
}

#[test]
fn results_for_programs() {
    let folder = Folder::with("chain.toml", CHAIN);
    let args = [
        "what-if",
        "chain.toml",
        "--stages",
        "3",
        "--bandwidth",
        BANDWIDTHS,
    ];
    let whole = json(&folder.succeed(&[&args[..], &["--format", "json"]].concat()));
    assert_eq!(whole["schema"], "stagecut-what-if/1");
    assert_eq!(
        (&whole["parameter"], &whole["from"]),
        (&"bandwidth".into(), &1e8.into())
    );
    let plans = whole["plans"].as_array().expect("plans");
    let segments = whole["curves"][0]["segments"].as_array().expect("segments");
    for segment in segments.iter().filter(|segment| segment["kind"] == "plan") {
        let plan = &plans[segment["plan"].as_u64().expect("a plan") as usize];
        assert_eq!(
            plan["stages"].as_array().map(Vec::len),
            segment["stages"].as_u64().map(|n| n as usize)
        );
    }
    // Each is a plan like any other.
    for plan in plans {
        folder.write("plan.json", plan.to_string());
        let bandwidth = plan["problem"]["bandwidth_bytes_per_s"].to_string();
        folder.succeed(&[
            "check",
            "chain.toml",
            "plan.json",
            "--stages",
            "3",
            "--bandwidth",
            &bandwidth,
        ]);
    }
    let table = folder.succeed(&[&args[..], &["--format", "csv"]].concat());
    let points = whole["curves"][0]["points"].as_array().expect("points");
    assert_eq!(table.lines().count(), points.len() + 1);
    assert!(
        table.starts_with("most_stages,parameter,at,status,objective_ms,bound_ms,stages,plan,searched\n")
    );
}

#[test]
fn pictures() {
    let folder = Folder::with("chain.toml", CHAIN);
    let questions: [&[&str]; 3] = [
        &["--stages", "3", "--bandwidth", BANDWIDTHS],
        &["--stages", "1..3", "--bandwidth", BANDWIDTHS],
        &["--stages", "1..3"],
    ];
    for question in questions {
        folder.succeed(&[&["what-if", "chain.toml"], question, &["--output", "curve.svg"]].concat());
        let picture = folder.read("curve.svg");
        let picture = roxmltree::Document::parse(&picture).expect("XML");
        let curves = picture
            .descendants()
            .filter(|node| node.attribute("class") == Some("curve"));
        assert!(curves.count() >= 1, "{question:?}");
        let told = |name: &str| {
            picture
                .descendants()
                .find(|node| node.has_tag_name(name))
                .and_then(|node| node.text())
        };
        let header = picture.descendants().filter(|node| node.has_tag_name("text"));
        let header: Vec<&str> = header.filter_map(|node| node.text()).collect();
        let header = header.join(" ");
        assert!(
            header.starts_with(told("title").expect("a title")),
            "cut short: {header}"
        );
    }
}

/// A question that cannot be answered, or would be ignored, is refused by name.
#[test]
fn questions_that_are_none() {
    let folder = Folder::with("net.toml", NET);
    let refusal = |args: &[&str]| {
        let run = folder.run(&[&["what-if", "net.toml"], args].concat());
        assert_eq!(run.code, 2, "{args:?}: {}", run.stdout);
        let words = run.stderr.split_whitespace().filter(|word| *word != "│");
        words.collect::<Vec<_>>().join(" ")
    };
    let refused = |args: &[&str], words: &str| {
        let found = refusal(args);
        assert!(found.contains(words), "{args:?}: {found}");
    };
    refused(&["--stages", "2"], "found no range");
    refused(
        &[
            "--bandwidth",
            "1GB/s..2GB/s",
            "--memory-limit",
            "1kB..2kB",
            "--stages",
            "2",
        ],
        "found ranges of",
    );
    refused(&["--devices", "1..2", "--stages", "1..2"], "found ranges of");
    refused(
        &["--stages", "3..2"],
        "expected a range from a value above 0 to a larger one",
    );
    refused(
        &["--stages", "0..2"],
        "expected a range from a value above 0 to a larger one",
    );
    refused(
        &["--bandwidth", "1GB..2GB", "--stages", "2"],
        "expected bytes per second",
    );
    refused(
        &[
            "--bandwidth",
            "1GB/s..2GB/s",
            "--stages",
            "2",
            "--communication",
            "ignored",
        ],
        "transfers take no time",
    );
    refused(
        &["--bandwidth", "1GB/s..2GB/s", "--stages", "2", "--tolerance", "0"],
        "expected a part above 0",
    );
    let iteration = [
        "--objective",
        "iteration",
        "--micro-batches",
        "4",
        "--communication",
        "overlapped",
    ];
    for range in [["--bandwidth", "1GB/s..2GB/s"], ["--memory-limit", "1kB..2kB"]] {
        refused(
            &[&range[..], &["--stages", "2"], &iteration].concat(),
            "in flight change the order of work, expected `--objective period` or `formula`, or `--communication blocking`",
        );
        // Workers that run both phases at once have neither.
        let at_once = ["--stages", "2", "--worker", "concurrent"];
        let found = refusal(&[&range[..], &at_once, &iteration].concat());
        assert!(found.ends_with("expected `--objective period`"), "{found}");
    }
}

#[test]
fn exit_codes_say_what_was_found() {
    let folder = Folder::with("net.toml", NET);
    let code = |args: &[&str]| {
        folder
            .run(&[&["what-if", "net.toml", "--stages", "2"], args].concat())
            .code
    };
    assert_eq!(code(&["--memory-limit", "1kB..4kB"]), 0);
    assert_eq!(code(&["--memory-limit", "100B..1kB"]), 3);
    assert_eq!(code(&["--memory-limit", "1kB..4kB", "--time-limit", "0"]), 4);
}

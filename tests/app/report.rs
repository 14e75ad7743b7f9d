//! What people and programs read of a plan.

use stagecut::bound_source::BoundSource;
use stagecut::instance::Instance;
use stagecut::options::{Communication, Cuts, MemoryLimit, Mode, Objective, PipelineOptions, Schedule};
use stagecut::plan::{Outcome, Plan, Status, StoppedBy};
use stagecut::problem::Problem;
use stagecut::report::{self, ComparisonRow, Standing, Style};
use stagecut::settings::Settings;
use stagecut::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, NetworkSpec, TensorSpec,
};
use stagecut::units::ms_to_ns;

const SNAPSHOTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/snapshots/report");

/// Compares with a snapshot under the top-level folder.
macro_rules! assert_snapshot {
    ($name:literal, $text:expr) => {
        let text = $text;
        insta::with_settings!({ snapshot_path => SNAPSHOTS, prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!($name, text);
        });
    };
}

/// No times of the search, so that two runs read the same.
fn style(width: usize) -> Style {
    Style {
        width,
        color: false,
        statistics: false,
    }
}

/// A stem, two branches of two layers, and a head: 10 ms of work forward and 20 backward.
fn two_branches() -> Instance {
    let layers = [
        ("stem", 2.0),
        ("left/conv", 1.5),
        ("left/relu", 0.5),
        ("right/conv", 2.5),
        ("right/relu", 0.5),
        ("head", 3.0),
    ];
    let layer = |(id, forward_ms): &(&str, f64)| LayerSpec {
        id: (*id).into(),
        operator: id.rsplit_once('/').map(|(_, operator)| operator.into()),
        forward_ms: Some(*forward_ms),
        backward_ms: Some(2.0 * forward_ms),
        parameter_bytes: forward_ms * 10e6,
        stash_bytes: 40e6,
        ..Default::default()
    };
    let tensors = [
        ("stem", &["left/conv", "right/conv"][..]),
        ("left/conv", &["left/relu"]),
        ("left/relu", &["head"]),
        ("right/conv", &["right/relu"]),
        ("right/relu", &["head"]),
    ];
    let tensor = |(producer, consumers): &(&str, &[&str])| TensorSpec {
        producer: (*producer).into(),
        consumers: consumers.iter().map(|&to| to.into()).collect(),
        bytes: Some(1e6),
        ..Default::default()
    };
    instance(InstanceSpec {
        name: Some("two_branches".into()),
        network: NetworkSpec {
            layers: layers.iter().map(layer).collect(),
            tensors: tensors.iter().map(tensor).collect(),
            ..Default::default()
        },
        ..Default::default()
    })
}

/// The instance on four GPUs, 1 GB/s apart: a tensor takes 1 ms.
fn instance(spec: InstanceSpec) -> Instance {
    let gpu = DeviceKindSpec {
        name: "gpu".into(),
        count: Some(4),
        memory_bytes: Some(16e9),
        ..Default::default()
    };
    let link = LinkSpec {
        bandwidth_bytes_per_s: 1e9,
        latency_ms: 0.0,
        nodes: None,
    };
    let cluster = Some(ClusterSpec {
        device_kinds: vec![gpu],
        link: Some(link),
        ..ClusterSpec::default()
    });
    Instance::from_spec(&InstanceSpec { cluster, ..spec }).expect("the instance is valid")
}

fn problem(instance: &Instance, options: &PipelineOptions) -> Problem {
    let settings = Settings::resolve(instance, options).expect("the options are valid");
    Problem::new(instance, settings).expect("every layer can be placed")
}

/// A plan that puts layers on stages by name; `None` is no plan.
fn plan(
    instance: &Instance,
    options: &PipelineOptions,
    stage_of: Option<&dyn Fn(&str) -> usize>,
    bound_ns: u64,
    stopped_by: StoppedBy,
) -> Plan {
    let problem = problem(instance, options);
    let first_layer = |item: &stagecut::problem::Item| instance.network.layers[item.layers[0]].id.as_str();
    let outcome = Outcome {
        allocation: stage_of.map(|of| {
            let stages: Vec<usize> = problem.items.iter().map(|item| of(first_layer(item))).collect();
            stages.into()
        }),
        bound_ns,
        bound_source: BoundSource::Windows,
        stopped_by,
        statistics: Default::default(),
    };
    Plan::new(instance, &problem, "exact", outcome)
}

/// Stem and right branch, then left branch and head.
fn two_stages(layer: &str) -> usize {
    usize::from(layer == "head" || layer.starts_with("left"))
}

fn trained(options: &PipelineOptions, bound_ms: f64, stopped_by: StoppedBy) -> (Instance, Plan) {
    let instance = two_branches();
    let bound_ns = ms_to_ns(bound_ms).expect("the bound is a time");
    let plan = plan(&instance, options, Some(&two_stages), bound_ns, stopped_by);
    (instance, plan)
}

/// Stage 1: 15 ms of work; two tensors leave, forth and back: 4 ms. Stage 2 the same.
fn optimal() -> (Instance, Plan) {
    trained(&PipelineOptions::default(), 19.0, StoppedBy::Completed)
}

#[test]
fn the_hand_made_plan_costs_what_its_comment_says() {
    let (_, plan) = optimal();
    assert_eq!((plan.status, plan.objective_ms), (Status::Optimal, Some(19.0)));
}

#[test]
fn an_optimal_plan_in_training() {
    let (instance, plan) = optimal();
    assert_snapshot!("training", report::text(&instance, &plan, &style(120)));
}

#[test]
fn an_iteration_of_gpipe_with_overlapped_communication() {
    let options = PipelineOptions {
        objective: Some(Objective::Formula),
        schedule: Some(Schedule::Gpipe),
        micro_batches: Some(8),
        communication: Some(Communication::Overlapped),
        ..Default::default()
    };
    let (instance, plan) = trained(&options, 100.0, StoppedBy::Gap);
    assert_snapshot!("iteration", report::text(&instance, &plan, &style(120)));
}

/// As [`two_stages`], but with the head backwards on a third: its stash and its weights move.
#[test]
fn separate_cuts_list_what_they_split() {
    let instance = two_branches();
    let options = PipelineOptions {
        cuts: Some(Cuts::Separate),
        schedule: Some(Schedule::Pipedream),
        ..Default::default()
    };
    let problem = problem(&instance, &options);
    let stage = |item: &stagecut::problem::Item| {
        let layer = item.layers.first().or(item.backward_layers.first());
        let name = &instance.network.layers[*layer.expect("a layer")].id;
        two_stages(name) + usize::from(item.layers.is_empty() && name == "head")
    };
    let stages: Vec<usize> = problem.items.iter().map(stage).collect();
    let outcome = Outcome {
        allocation: Some(stages.into()),
        bound_ns: 1_000_000,
        bound_source: BoundSource::Windows,
        stopped_by: StoppedBy::TimeLimit,
        statistics: Default::default(),
    };
    let plan = Plan::new(&instance, &problem, "exact", outcome);
    assert_snapshot!("separate", report::text(&instance, &plan, &style(100)));
    assert_snapshot!(
        "separate_csv",
        report::csv(&plan).expect("memory takes everything")
    );
}

#[test]
fn inference_has_no_backward_column() {
    let instance = two_branches();
    let options = PipelineOptions {
        mode: Some(Mode::Inference),
        ..Default::default()
    };
    let stage = |layer: &str| match layer {
        "stem" => 0,
        "head" => 2,
        _ => 1,
    };
    let plan = plan(&instance, &options, Some(&stage), 5_000_000, StoppedBy::TimeLimit);
    assert_snapshot!("inference", report::text(&instance, &plan, &style(100)));
}

#[test]
fn a_narrow_terminal_gets_layers_on_lines_of_their_own() {
    let (instance, plan) = trained(&PipelineOptions::default(), 15.0, StoppedBy::Interrupt);
    let text = report::text(&instance, &plan, &style(60));
    assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
    assert_snapshot!("narrow", text);
}

#[test]
fn no_plan_at_all() {
    let instance = two_branches();
    let options = PipelineOptions {
        memory_limit: Some(MemoryLimit::Bytes(200_000_000)),
        ..Default::default()
    };
    let plan = plan(&instance, &options, None, u64::MAX, StoppedBy::Completed);
    assert_snapshot!("infeasible", report::text(&instance, &plan, &style(100)));
}

#[test]
fn nothing_found_in_time() {
    let instance = two_branches();
    let options = PipelineOptions {
        all_stages: Some(true),
        ..Default::default()
    };
    let plan = plan(&instance, &options, None, 7_500_000, StoppedBy::TimeLimit);
    assert_snapshot!("stopped", report::text(&instance, &plan, &style(100)));
}

#[test]
fn statistics_and_colours_are_for_those_who_ask() {
    let (instance, mut plan) = optimal();
    plan.statistics.seconds = 1.25;
    plan.statistics.bounds_ms.insert(BoundSource::AnchoredStage, 18.5);
    let text = report::text(&instance, &plan, &Style::default());
    assert!(
        text.contains("1.250 s") && text.contains("anchored stage 18.5000 ms"),
        "{text}"
    );
    let quiet = report::text(&instance, &plan, &style(100));
    assert!(!quiet.contains("1.250") && !quiet.contains('\u{1b}'), "{quiet}");
    let colored = report::text(
        &instance,
        &plan,
        &Style {
            color: true,
            ..style(100)
        },
    );
    assert!(colored.contains("\u{1b}[1m"));
    assert_eq!(anstream::adapter::strip_str(&colored).to_string(), quiet);
}

#[test]
fn csv_has_a_row_a_stage() {
    let (instance, optimal) = optimal();
    let csv = |plan: &Plan| report::csv(plan).expect("memory can be written");
    assert_snapshot!("plan_csv", csv(&optimal));
    let options = PipelineOptions::default();
    let none = plan(&instance, &options, None, u64::MAX, StoppedBy::Completed);
    assert_snapshot!("no_plan_csv", csv(&none));
}

#[test]
fn json_is_read_back_as_the_same_plan() {
    let (_, plan) = optimal();
    let json = report::json(&plan);
    assert!(json.ends_with("}\n"));
    assert_eq!(serde_json::from_str::<Plan>(&json).expect("it is a plan"), plan);
}

fn rows() -> Vec<ComparisonRow> {
    let row = |method: &str, source: &str, status, objective_ms, bound_ms| ComparisonRow {
        method: method.into(),
        source: source.into(),
        status,
        objective_ms,
        bound_ms,
        stopped_by: (status == Standing::Optimal || status == Standing::Feasible)
            .then_some(StoppedBy::Completed),
        seconds: 0.0,
        note: None,
    };
    let mut rows = vec![
        row("greedy", "Duan and Wu 2022", Standing::Feasible, Some(22.5), None),
        row(
            "equal",
            "GPipe, Huang et al. 2019",
            Standing::Feasible,
            Some(22.5),
            None,
        ),
        row(
            "ideals",
            "Tarnawski et al. 2020",
            Standing::Unknown,
            None,
            Some(12.0),
        ),
        row("exact", "stagecut", Standing::Optimal, Some(19.0), Some(19.0)),
        row(
            "chain",
            "PipeDream, Narayanan et al. 2019",
            Standing::Inapplicable,
            None,
            None,
        ),
    ];
    rows[4].note = Some("the network is no chain".into());
    rows
}

#[test]
fn methods_side_by_side() {
    assert_snapshot!("comparison", report::comparison(&rows(), &style(100)));
    assert_snapshot!(
        "comparison_csv",
        report::comparison_csv(&rows()).expect("memory can be written")
    );
    assert_snapshot!("comparison_json", report::comparison_json(&rows()[..2]));
}

#[test]
fn a_comparison_says_what_separate_cuts_gain() {
    let row = |method: &str, status, objective_ms, stopped_by| ComparisonRow {
        method: method.into(),
        source: "ours".into(),
        status,
        objective_ms,
        bound_ms: Some(10.0),
        stopped_by: Some(stopped_by),
        seconds: 0.0,
        note: None,
    };
    let gain = |best: (Standing, f64), tied: (Option<f64>, StoppedBy)| {
        let rows = [
            row("exact", best.0, Some(best.1), StoppedBy::Completed),
            row("tied-cuts", Standing::Feasible, tied.0, tied.1),
        ];
        let report = report::comparison(&rows, &style(80));
        report.lines().nth(1).unwrap_or_default().to_owned()
    };
    let (proved, found) = ((Standing::Optimal, 15.0), (Standing::Feasible, 15.0));
    let (best, stopped) = (StoppedBy::Completed, StoppedBy::TimeLimit);
    let of = |gains: &str| format!("tied cuts take 20.0000 ms: separate cuts gain {gains}");
    assert_eq!(gain(proved, (Some(20.0), best)), of("25.00 %"));
    assert_eq!(gain(proved, (Some(20.0), stopped)), of("at most 25.00 %"));
    assert_eq!(gain(found, (Some(20.0), best)), of("at least 25.00 %"));
    assert_eq!(gain(found, (Some(20.0), stopped)), of("25.00 % so far"));
    assert_eq!(gain((Standing::Optimal, 20.0), (Some(20.0), best)), of("nothing"));
    assert_eq!(
        gain((Standing::Feasible, 20.0), (Some(20.0), best)),
        of("nothing so far")
    );
    let possible = "no plan has tied cuts: separate cuts make one possible";
    assert_eq!(gain(proved, (None, best)), possible);
    assert_eq!(gain(proved, (None, stopped)), "");
}

#[test]
fn a_comparison_may_be_empty_or_unproved() {
    assert_snapshot!(
        "comparison_unproved",
        report::comparison(&rows()[..3], &style(60))
    );
    assert!(report::comparison(&[], &style(80)).starts_with("0 methods: none found a plan"));
    assert!(
        report::comparison_csv(&[])
            .expect("memory can be written")
            .starts_with("method,")
    );
    assert_eq!(report::comparison_json(&[]), "[]\n");
}

#[test]
fn dot_has_a_cluster_a_stage() {
    let (instance, plan) = optimal();
    assert_snapshot!("dot", report::dot(&instance, Some(&plan)));
}

/// A chain of layers whose names are markup.
fn hostile() -> Instance {
    let ids = ["<script>&\"'", "a\\N\n\u{1}", "層"];
    let layer = |id: &&str| LayerSpec {
        id: (*id).into(),
        forward_ms: Some(1.0),
        ..Default::default()
    };
    let tensor = |pair: &[&str]| TensorSpec {
        producer: pair[0].into(),
        consumers: vec![pair[1].into()],
        transfer_ms: Some(0.5),
        ..Default::default()
    };
    instance(InstanceSpec {
        name: Some("<&\">".into()),
        network: NetworkSpec {
            layers: ids.iter().map(layer).collect(),
            tensors: ids.windows(2).map(tensor).collect(),
            ..Default::default()
        },
        ..Default::default()
    })
}

#[test]
fn svg_is_well_formed_whatever_the_names() {
    let instance = hostile();
    let options = PipelineOptions::default();
    let last_apart = |layer: &str| usize::from(layer == "層");
    let plan = plan(&instance, &options, Some(&last_apart), 0, StoppedBy::Completed);
    for plan in [None, Some(&plan)] {
        let svg = report::svg(&instance, plan);
        let document = roxmltree::Document::parse(&svg).expect("the drawing is XML");
        let titles: Vec<&str> = document
            .descendants()
            .filter(|node| node.has_tag_name("title"))
            .filter_map(|node| node.text())
            .collect();
        assert!(titles.contains(&"<&\">"), "{titles:?}");
        assert!(
            titles.iter().any(|title| title.starts_with("<script>&\"'\n")),
            "{titles:?}"
        );
        assert!(!svg.contains("<script>"));
    }
    let dot = report::dot(&instance, Some(&plan));
    assert!(dot.contains(r#"label="a\\N\n"#), "{dot}");
}

#[test]
fn svg_shows_every_layer_stage_and_crossing() {
    let (instance, plan) = optimal();
    let svg = report::svg(&instance, Some(&plan));
    let document = roxmltree::Document::parse(&svg).expect("the drawing is XML");
    let texts: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .filter_map(|node| node.text())
        .collect();
    for layer in &instance.network.layers {
        assert!(texts.contains(&layer.id.as_str()), "{texts:?}");
    }
    assert!(
        texts.contains(&"stage 1") && texts.contains(&"stage 2"),
        "{texts:?}"
    );
    // From stem to the left branch, and from the right branch to the head.
    let heavy = document
        .descendants()
        .filter(|node| node.attribute("stroke-width") == Some("2.2"));
    assert_eq!(heavy.count(), 2);
    assert_eq!(svg, report::svg(&instance, Some(&plan)));
}

#[test]
fn a_plan_of_another_instance_is_shown_without_stages() {
    let (_, plan) = optimal();
    let other = hostile();
    assert!(report::text(&other, &plan, &style(100)).contains("left/conv"));
    assert!(roxmltree::Document::parse(&report::svg(&other, Some(&plan))).is_ok());
    assert!(report::dot(&other, Some(&plan)).contains("n0"));
}

//! Known optima: those of `instances/optima.csv`, and of the measured profiles where they are present.

use std::path::{Path, PathBuf};

use approx::assert_relative_eq;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use stagecut::check;
use stagecut::control::Control;
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::{Communication, PipelineOptions};
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of measured profiles beside the project, or `None`, said so, where it is absent.
fn measured(folder: &str) -> Option<PathBuf> {
    let path = root().join("../shared/data").join(folder);
    if !path.is_dir() {
        eprintln!("skipped: no measured profiles in `../shared/data/{folder}`");
        return None;
    }
    Some(path)
}

/// Solves to proof and checks.
fn prove(path: &Path, options: &PipelineOptions) -> Plan {
    prove_on(None, path, options)
}

/// The same with another cluster in place of the file's.
fn prove_on(cluster: Option<&str>, path: &Path, options: &PipelineOptions) -> Plan {
    let shown = path.display();
    let instance = Instance::read(path, cluster).unwrap_or_else(|error| panic!("{shown}: {error:?}"));
    let settings = Settings::resolve(&instance, options).expect("valid options");
    let problem = Problem::new(&instance, settings).expect("a valid problem");
    let exact = methods::find("exact").expect("a registered method");
    let plan = exact
        .run(&instance, &problem, &Control::default())
        .expect("HiGHS works");
    assert_eq!(plan.status, Status::Optimal, "{shown}");
    assert_eq!(check::check(&instance, &problem.settings, &plan), [], "{shown}");
    plan
}

fn stages(q: usize) -> PipelineOptions {
    PipelineOptions {
        stages: Some(q),
        ..Default::default()
    }
}

#[derive(Deserialize)]
struct Known {
    file: String,
    /// In place of the file's own.
    #[serde(default)]
    cluster: Option<String>,
    stages: usize,
    objective_ms: f64,
}

fn known<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let mut reader = csv::Reader::from_path(path).expect("a table of optima");
    reader
        .deserialize()
        .map(|row| row.expect("a row of the table"))
        .collect()
}

/// Optima of the dnn-partitioning files, proved by others, for up to 32 accelerators: more than the files have, so they are asked for.
#[test]
fn dnn_partitioning() {
    for folder in ["dnn-partitioning", "dnn-partitioning-hard"]
        .into_iter()
        .filter_map(measured)
    {
        for row in known::<Known>(&folder.join("optima.csv")) {
            let options = PipelineOptions {
                communication: Some(Communication::Blocking),
                devices: Some(row.stages),
                device_kinds: Some(vec!["accelerator".into()]),
                ..stages(row.stages)
            };
            let plan = prove(&folder.join(format!("{}.json", row.file)), &options);
            let found = plan.objective_ms.expect("an optimal plan");
            assert_relative_eq!(found, row.objective_ms, max_relative = 1e-6);
        }
    }
}

/// The same file as it is shipped, with a CPU beside six accelerators that pays for no transfers: seven accelerators need as long.
#[test]
fn backward_operators_without_an_order_beside_a_cpu() {
    let Some(folder) = measured("dnn-partitioning-hard") else {
        return;
    };
    let options = PipelineOptions {
        communication: Some(Communication::Blocking),
        ..stages(7)
    };
    let plan = prove(&folder.join("operator_resnet50_training.json"), &options);
    let found = plan.objective_ms.expect("an optimal plan");
    assert_relative_eq!(found, 255.194_419, max_relative = 1e-6);
    let kinds = plan.stages.iter().flat_map(|stage| &stage.devices);
    assert!(
        kinds.into_iter().any(|device| device.starts_with("cpu")),
        "{plan:?}"
    );
}

#[test]
fn measured_profiles_of_pipedream_and_caffe() {
    let files = [
        (
            "pipedream",
            ["alexnet.graph.txt", "vgg16.graph.txt", "resnet18.graph.txt"].as_slice(),
        ),
        ("caffe", ["alexnet.csv", "googlenet.csv"].as_slice()),
    ];
    for (folder, names) in files {
        let Some(folder) = measured(folder) else {
            continue;
        };
        for name in names {
            let [two, four] = [2, 4].map(|q| prove(&folder.join(name), &stages(q)).objective_ms);
            assert!(four <= two, "more stages never hurt: {name}");
        }
    }
}

/// Communication ignored, from an independent computation on the same profile.
#[test]
fn vgg16_without_communication() {
    let Some(folder) = measured("pipedream") else {
        return;
    };
    for (q, period_ms) in [(2, 370.931), (3, 231.234), (4, 216.450), (6, 159.531)] {
        let options = PipelineOptions {
            communication: Some(Communication::Ignored),
            ..stages(q)
        };
        let plan = prove(&folder.join("vgg16.graph.txt"), &options);
        assert_relative_eq!(
            plan.objective_ms.expect("an optimal plan"),
            period_ms,
            epsilon = 1e-9
        );
    }
}

/// Assembly lines, small ones: transfers are ignored, and workers stand in any order.
#[test]
fn assembly_lines() {
    let Some(folder) = measured("assembly-lines") else {
        return;
    };
    let mut cases = Vec::new();
    for (graph, stations, _, _, upper) in known::<(String, usize, u32, f64, f64)>(&folder.join("salbp2.csv"))
    {
        if ["BUXEY", "GUNTHER"].contains(&graph.as_str()) && stations <= 9 {
            cases.push((format!("salbp2/{graph}.IN2"), stations, upper));
        }
    }
    for row in known::<(String, usize, u32, usize, f64, f64, String)>(&folder.join("alwabp.csv")) {
        let (family, number, _, workers, _, upper, _) = row;
        if family == "roszieg" && number <= 4 {
            cases.push((format!("alwabp/{family}/{number}"), workers, upper));
        }
    }
    for (file, q, period_ms) in cases {
        let plan = prove(&folder.join(&file), &stages(q));
        assert_eq!(plan.objective_ms, Some(period_ms), "{file} in {q}");
    }
}

/// The library of instances against its own table; of each, a snapshot in four stages.
#[cfg(feature = "onnx")]
#[test]
fn the_instances_of_this_project() {
    let folder = root().join("instances");
    for row in known::<Known>(&folder.join("optima.csv")) {
        let plan = prove_on(
            row.cluster.as_deref(),
            &folder.join(&row.file),
            &stages(row.stages),
        );
        let found = plan.objective_ms.expect("an optimal plan");
        assert_relative_eq!(found, row.objective_ms, epsilon = 1e-6);
        if row.stages == 4 {
            let variant = row.cluster.map_or(String::new(), |cluster| format!("-{cluster}"));
            let file = row.file.replace('/', "-");
            let instance = file.split('.').next().unwrap_or_default();
            let shown = format!("{}: {}, {found} ms", row.file, plan.status);
            crate::common::command::snapshots("plans")
                .bind(|| insta::assert_snapshot!(format!("{instance}-q4{variant}"), shown));
        }
    }
}

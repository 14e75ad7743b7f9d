//! `calibrate`: figures that were put in come out, what nobody measured is said, and plans made with them say so.

use crate::common::command::{Folder, refused};
use serde_json::{Value, json};

/// Three products and a norm, of which the norm is bound by memory.
const NET: &str = include_str!("../fuzz/seeds/calibrated.toml");

/// What layers of the network take where products attain half, norms a quarter, and a launch a tenth of a ms.
const LAYERS: &str = include_str!("../fuzz/seeds/measured-layers.csv");

fn close(found: &Value, expected: f64) -> bool {
    found
        .as_f64()
        .is_some_and(|found| (found - expected).abs() <= 1e-6 * expected.abs().max(1.0))
}

fn calibrated(folder: &Folder, options: &[&str]) -> Value {
    let text = folder.succeed(&[&["calibrate", "net.toml", "--format", "json", "--quiet"], options].concat());
    serde_json::from_str(&text).expect("a report in JSON")
}

#[test]
fn efficiencies_by_operator_and_launches() {
    let folder = Folder::with("net.toml", NET);
    folder.write("layers.csv", LAYERS);
    let report = calibrated(&folder, &["--measured", "layers.csv", "--output", "mine.toml"]);
    let kind = &report["cluster"]["device_kinds"][0];
    assert!(close(&kind["efficiencies"]["matmul"], 0.5), "{kind}");
    assert!(close(&kind["efficiencies"]["norm"], 0.25), "{kind}");
    assert!(close(&kind["launch_ms"], 0.1), "{kind}");
    assert_eq!(report["residuals"].as_array().map(Vec::len), Some(8));
    assert!(close(&report["errors"][0]["fitted"][0], 0.0), "{report}");
    // Of the layer of norm, both passes say the same of its operator without the other.
    let unseen = report["errors"][0]["unseen"][0].as_f64().expect("an error");
    assert!(unseen < 1e-6, "{unseen}");
    // At peaks, half of each product was missing.
    assert!(
        report["errors"][0]["given"][0]
            .as_f64()
            .is_some_and(|error| error > 0.4)
    );

    // The cluster says the measured times again, and plans made with it say what they are.
    let solve = [
        "solve",
        "net.toml",
        "--cluster",
        "mine.toml",
        "--stages",
        "1",
        "--objective",
        "period",
    ];
    let plan = folder.succeed(&[&solve[..], &["--format", "json"]].concat());
    let plan: Value = serde_json::from_str(&plan).expect("a plan");
    assert!(
        close(&plan["objective_ms"], 30.4 + 56.4),
        "{}",
        plan["objective_ms"]
    );
    let text = folder.succeed(&solve);
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("times calibrated: rooflines at parts by operator of the rates of `gpu`"),
        "{text}"
    );
    assert!(
        said.contains("cluster calibrated: 8 passes of layers within 0.0 % in the mean"),
        "{text}"
    );
    let text = folder.succeed(&["calibrate", "net.toml", "--measured", "layers.csv"]);
    assert!(
        text.contains("efficiency of `gpu`, `matmul`") && text.contains("0.5000"),
        "{text}"
    );
}

/// The figures do not follow one time that is ten times too long; its residual says it.
#[test]
fn a_disturbed_run_bends_nothing() {
    let folder = Folder::with("net.toml", NET);
    folder.write("layers.csv", LAYERS.replace("a,gpu,4.1,8.1", "a,gpu,41,8.1"));
    let report = calibrated(&folder, &["--measured", "layers.csv"]);
    let kind = &report["cluster"]["device_kinds"][0];
    assert!(
        close(&kind["efficiencies"]["matmul"], 0.5) && close(&kind["launch_ms"], 0.1),
        "{kind}"
    );
    assert!(close(&report["errors"][0]["fitted"][1], 0.9), "{report}");
}

#[test]
fn links_by_transfers() {
    let folder = Folder::with("net.toml", NET);
    // 1.25 ms a million bytes, 0.05 ms before the first.
    folder.write(
        "transfers.csv",
        "bytes,measured_ms\n1e6,1.3\n2e6,2.55\n4e6,5.05\n8e6,10.05\n",
    );
    let report = calibrated(&folder, &["--measured", "transfers.csv"]);
    let link = &report["cluster"]["link"];
    assert!(
        close(&link["bandwidth_bytes_per_s"], 8e8) && close(&link["latency_ms"], 0.05),
        "{link}"
    );
    assert!(close(&report["errors"][0]["unseen"][0], 0.0), "{report}");
}

/// One message tells a bandwidth and no latency, one without bytes no bandwidth.
#[test]
fn one_message_tells_one_figure() {
    for (rows, bandwidth, latency) in [("1e6,2", 5e8, 0.0), ("0,2", 1e9, 2.0)] {
        let folder = Folder::with("net.toml", NET);
        folder.write("transfers.csv", format!("# by hand\nbytes,measured_ms\n{rows}\n"));
        let report = calibrated(&folder, &["--measured", "transfers.csv"]);
        let link = &report["cluster"]["link"];
        assert!(close(&link["bandwidth_bytes_per_s"], bandwidth), "{link}");
        assert!(latency == 0.0 || close(&link["latency_ms"], latency), "{link}");
    }
}

/// Plans by any measured cluster, and what an iteration of each takes on the true one.
fn runs(folder: &Folder, truth: &str) -> String {
    folder.write("truth.toml", truth);
    let mut rows = "plan,measured_ms\n".to_owned();
    for (at, stages) in [["a"].as_slice(), &["a", "b"], &["a", "b", "c"]]
        .into_iter()
        .enumerate()
    {
        for micro_batches in ["2", "8", "32"] {
            let rest: Vec<&str> = ["a", "b", "c", "d"]
                .into_iter()
                .filter(|layer| !stages.contains(layer))
                .collect();
            folder.write("stages.json", json!([stages, rest]).to_string());
            let name = format!("plan-{at}-{micro_batches}.json");
            let evaluate = |cluster: &str| {
                folder.succeed(&[
                    "check",
                    "--evaluate",
                    "net.toml",
                    "stages.json",
                    "--stages",
                    "2",
                    "--micro-batches",
                    micro_batches,
                    "--cluster",
                    cluster,
                    "--schedule",
                    "1f1b",
                    "--objective",
                    "iteration",
                    "--output",
                    &name,
                    "--quiet",
                ]);
                let plan: Value = serde_json::from_str(&folder.read(&name)).expect("a plan");
                plan["run"]["iteration_ms"].as_f64().expect("an iteration")
            };
            let measured_ms = evaluate("truth.toml") + 7.0;
            // The plan that is kept knows nothing of the truth.
            evaluate("net-cluster.toml");
            rows += &format!("{name},{measured_ms}\n");
        }
    }
    rows
}

const CLUSTER: &str = r#"
device_kinds = [{ name = "gpu", count = 4, flops_per_s = 1e12, memory_bytes_per_s = 1e11 }]
link = { bandwidth_bytes_per_s = 1e9 }
"#;

#[test]
fn what_layers_leave_open_by_iterations() {
    let folder = Folder::with("net.toml", NET);
    folder.write("net-cluster.toml", CLUSTER);
    let truth = CLUSTER.replace(
        "memory_bytes_per_s = 1e11",
        "memory_bytes_per_s = 1e11, efficiency = 0.4",
    );
    let truth = truth.replace(
        "bandwidth_bytes_per_s = 1e9",
        "bandwidth_bytes_per_s = 5e8, latency_ms = 0.25",
    );
    let rows = runs(&folder, &truth);
    folder.write("runs.csv", rows);
    let report = calibrated(&folder, &["--measured", "runs.csv", "--output", "mine.json"]);
    let cluster = &report["cluster"];
    let near = |value: &Value, expected: f64| {
        value
            .as_f64()
            .is_some_and(|found| (found / expected - 1.0).abs() < 1e-3)
    };
    assert!(near(&cluster["device_kinds"][0]["efficiency"], 0.4), "{cluster}");
    assert!(near(&cluster["link"]["bandwidth_bytes_per_s"], 5e8), "{cluster}");
    assert!(near(&cluster["link"]["latency_ms"], 0.25), "{cluster}");
    assert!(near(&cluster["iteration_ms"], 7.0), "{cluster}");
    assert_eq!(report["errors"][0]["kind"], "iteration");
    assert!(
        report["errors"][0]["unseen"][1]
            .as_f64()
            .is_some_and(|error| error < 0.01),
        "{report}"
    );

    // What an iteration takes beside the plan stands in the report, and not in what is minimised.
    let solve = [
        "solve",
        "net.toml",
        "--cluster",
        "mine.json",
        "--stages",
        "2",
        "--micro-batches",
        "8",
    ];
    let text = folder.succeed(&solve);
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("ms an iteration beside the plan, by the cluster's figures"),
        "{text}"
    );
    assert!(said.contains("cluster calibrated: 9 iterations within"), "{text}");
}

/// Few runs tell few figures: what is left is said, and stays as it was.
#[test]
fn two_runs_tell_one_figure() {
    let folder = Folder::with("net.toml", NET);
    folder.write("net-cluster.toml", CLUSTER);
    let rows = runs(&folder, &CLUSTER.replace("1e11 }", "1e11, efficiency = 0.5 }"));
    let rows: Vec<&str> = rows.lines().take(3).collect();
    folder.write("runs.csv", rows.join("\n") + "\n");
    let report = calibrated(&folder, &["--measured", "runs.csv"]);
    assert_eq!(report["figures"].as_array().map(Vec::len), Some(1), "{report}");
    let left = report["left"].to_string();
    assert!(left.contains("2 runs tell no more than 1 figures"), "{left}");
}

#[test]
fn faults_have_names() {
    let folder = Folder::with("net.toml", NET);
    for (file, contents, parts) in [
        (
            "m.csv",
            "plan,measured_ms\nnone.json,3\n",
            ["none.json", "there is none of that name"].as_slice(),
        ),
        ("m.csv", "plan,measured_ms\n../../etc/passwd,3\n", &["line 2"]),
        (
            "m.csv",
            "bytes,measured_ms\n1e6,0\n",
            &["line 2", "a measured time from 1e-6"],
        ),
        ("m.csv", "bytes,measured_ms\n-1,1\n", &["a size from 0"]),
        ("m.csv", "bytes,measured_ms\n1e6,NaN\n", &["line 2"]),
        ("m.csv", "bytes,seconds\n1e6,1\n", &["seconds"]),
        (
            "m.csv",
            "layer,device,forward_ms,backward_ms\na,gpu,inf,\n",
            &["line 2", "forward_ms"],
        ),
        (
            "m.csv",
            "layer,device,forward_ms,backward_ms\nz,gpu,1,2\n",
            &["measurements of nothing that the instance has"],
        ),
        ("m.csv", "", &["nothing in it"]),
        ("m.toml", NET, &["found no time of a layer", "bytes,measured_ms"]),
        ("m.json", "{}", &["m.json"]),
    ] {
        folder.write(file, contents);
        let run = folder.run(&["calibrate", "net.toml", "--measured", file]);
        if contents.contains("passwd") {
            // Where there is no such file, its reader says so.
            assert_eq!(run.code, 2, "{}", run.stderr);
            continue;
        }
        refused(&run, parts);
    }
    let run = folder.run(&["calibrate", "net.toml"]);
    assert_eq!(run.code, 2);
    folder.write("m.csv", "bytes,measured_ms\n1e6,1\n");
    refused(
        &folder.run(&[
            "calibrate",
            "net.toml",
            "--measured",
            "m.csv",
            "--output",
            "x.csv",
        ]),
        &["`.toml` or `.json`"],
    );
}

/// Figures of a cluster's file that are none.
#[test]
fn figures_that_are_none_are_refused() {
    for (figure, part) in [
        ("efficiencies = { matmul = 1.5 }", "efficiencies.matmul"),
        ("efficiencies = { matmul = 0 }", "efficiencies.matmul"),
        ("launch_ms = -1", "launch_ms"),
        ("launch_ms = nan", "launch_ms"),
    ] {
        let folder = Folder::with("net.toml", NET);
        folder.write(
            "c.toml",
            CLUSTER.replace("count = 4", &format!("count = 4, {figure}")),
        );
        refused(
            &folder.run(&["solve", "net.toml", "--cluster", "c.toml", "--stages", "2"]),
            &[part],
        );
    }
    let folder = Folder::with("net.toml", NET);
    folder.write("c.toml", format!("iteration_ms = -3\n{CLUSTER}"));
    refused(
        &folder.run(&["solve", "net.toml", "--cluster", "c.toml", "--stages", "2"]),
        &["iteration_ms"],
    );
}

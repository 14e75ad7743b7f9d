//! The library of instances: the tables of `instances/README.md` are what the files say, and nothing is missing in them.
//! With `WRITE_TABLES=1` they are written (`make instances`).

use std::path::{Path, PathBuf};

use stagecut::import::{CLUSTER_PRESETS, read_cluster, read_spec};
use stagecut::spec::{InstanceSpec, LayerSpec};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("instances")
}

/// The files of a folder with an extension, sorted; none where there is no such folder.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn read(path: &Path) -> InstanceSpec {
    let (spec, _) = read_spec(path).unwrap_or_else(|error| panic!("{}: {error:?}", path.display()));
    spec
}

/// Digits in groups of three.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).expect("digits"))
        .collect();
    groups.join(",")
}

fn parameters(spec: &InstanceSpec) -> f64 {
    let bytes: f64 = spec
        .network
        .layers
        .iter()
        .map(|layer| layer.parameter_bytes)
        .sum();
    bytes / 4.0
}

/// Networks that came as ONNX models, in the order of `sources.csv`.
#[cfg(feature = "onnx")]
fn onnx() -> String {
    let mut table = "| file | network | source file | layers | GFLOP | parameters |\n\
|---|---|---|---:|---:|---:|\n"
        .to_owned();
    let mut sources = csv::Reader::from_path(folder().join("sources.csv")).expect("sources.csv");
    let mut listed = Vec::new();
    for row in sources.records() {
        let row = row.expect("a row");
        let spec = read(&folder().join(&row[0]));
        let multiplies = |layer: &&LayerSpec| {
            let operator = layer.operator.as_deref().unwrap_or("");
            ["Conv", "Gemm", "MatMul"]
                .iter()
                .any(|known| operator.starts_with(known))
        };
        let work = spec.network.layers.iter().filter(multiplies);
        let flops: f64 = work
            .filter_map(|layer| Some(layer.work.as_ref()?.forward_flops))
            .sum();
        table += &format!(
            "| `{}` | {} | `{}` | {} | {:.3} | {} |\n",
            &row[0],
            &row[1],
            &row[2],
            spec.network.layers.len(),
            flops / 1e9,
            grouped(parameters(&spec))
        );
        listed.push(row[0].to_owned());
    }
    let mut found: Vec<String> = files(&folder(), "onnx").iter().map(|path| name(path)).collect();
    listed.sort();
    found.sort();
    assert_eq!(listed, found, "every model has a row in sources.csv");
    table
}

/// Networks with measured times.
fn measured() -> String {
    let files = files(&folder().join("measured"), "json");
    if files.is_empty() {
        return "None yet.\n".into();
    }
    let mut table = "| file | layers | forward ms | backward ms | parameters | size | model and input |\n\
|---|---:|---:|---:|---:|---:|---|\n"
        .to_owned();
    for path in files {
        let spec = read(&path);
        let layers = &spec.network.layers;
        let total = |time: fn(&LayerSpec) -> Option<f64>| layers.iter().filter_map(time).sum::<f64>();
        let size = std::fs::metadata(&path).expect("a file").len();
        // "TOOL on DATE: MODEL and INPUT, torch VERSION, MACHINE AND METHOD".
        let provenance = spec.provenance.as_deref().unwrap_or_default();
        let (_, measured) = provenance.split_once(": ").expect("a provenance");
        let (model, _) = measured.split_once(", torch ").expect("the release of torch");
        table += &format!(
            "| `measured/{}` | {} | {:.1} | {:.1} | {} | {} kB | {} |\n",
            name(&path),
            layers.len(),
            total(|layer| layer
                .forward_ms
                .or_else(|| layer.times.values().next()?.forward_ms)),
            total(|layer| layer
                .backward_ms
                .or_else(|| layer.times.values().next()?.backward_ms)),
            grouped(parameters(&spec)),
            size.div_ceil(1000),
            model
        );
    }
    table
}

/// PipeDream's profiles; an `Input` is no layer.
fn pipedream() -> String {
    let mut table =
        "| file | layers | forward ms | backward ms | parameters |\n|---|---:|---:|---:|---:|\n".to_owned();
    for path in files(&folder().join("pipedream"), "txt") {
        let spec = read(&path);
        let total =
            |time: fn(&LayerSpec) -> Option<f64>| spec.network.layers.iter().filter_map(time).sum::<f64>();
        table += &format!(
            "| `pipedream/{}` | {} | {:.1} | {:.1} | {} |\n",
            name(&path),
            spec.network.layers.len(),
            total(|layer| layer.forward_ms),
            total(|layer| layer.backward_ms),
            grouped(parameters(&spec))
        );
    }
    table
}

/// Presets of devices and links.
fn clusters() -> String {
    let mut table = "| preset | devices | TFLOP/s | memory | memory GB/s | link GB/s | latency ms |\n\
|---|---|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for path in files(&folder().join("clusters"), "toml") {
        let preset = name(&path).replace(".toml", "");
        let cluster = read_cluster(&preset).unwrap_or_else(|error| panic!("{preset}: {error:?}"));
        let comment = std::fs::read_to_string(&path).expect("a preset");
        assert!(
            comment.contains("# Figures: "),
            "{preset} says where its figures are from"
        );
        let link = cluster.link.expect("a link");
        let outer = (link.bandwidth_bytes_per_s / 1e9).to_string();
        let rates = link.nodes.as_ref().map_or(outer.clone(), |nodes| {
            let inner = nodes.link.bandwidth_bytes_per_s / 1e9;
            format!("{outer}, {inner} in nodes of {}", nodes.devices)
        });
        for (i, kind) in cluster.device_kinds.iter().enumerate() {
            let count = kind.count.map_or_else(String::new, |count| format!("{count} "));
            let first = |text: String| if i == 0 { text } else { String::new() };
            table += &format!(
                "| {} | {count}{} | {} | {} GB | {} | {} | {} |\n",
                first(format!("`{preset}`")),
                kind.name,
                kind.flops_per_s.expect("a rate") / 1e12,
                kind.memory_bytes.expect("a memory") / 1e9,
                kind.memory_bytes_per_s.expect("a rate") / 1e9,
                first(rates.clone()),
                first(link.latency_ms.to_string())
            );
        }
    }
    table
}

/// Holds a table of the README against `current`, or writes it.
fn compare(table: &str, current: &str) -> String {
    let path = folder().join("README.md");
    let readme = std::fs::read_to_string(&path).expect("a README");
    let begin = format!("<!-- {table}: written by `make instances` -->\n");
    let (before, rest) = readme.split_once(&begin).expect("a place for the table");
    let (shown, after) = rest.split_once("<!-- end -->").expect("an end of the table");
    if std::env::var_os("WRITE_TABLES").is_some() {
        std::fs::write(&path, format!("{before}{begin}{current}<!-- end -->{after}")).expect("written");
        return String::new();
    }
    match shown == current {
        true => String::new(),
        false => format!("the table `{table}` is not what the files say; run `make instances`\n"),
    }
}

/// One test, since all tables stand in one file.
#[test]
fn the_tables_are_what_the_files_say() {
    let mut differences = compare("clusters", &clusters())
        + &compare("measured", &measured())
        + &compare("pipedream", &pipedream());
    #[cfg(feature = "onnx")]
    {
        differences += &compare("onnx", &onnx());
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn every_preset_is_known_by_its_file_name() {
    let mut known: Vec<String> = CLUSTER_PRESETS
        .iter()
        .map(|(name, _)| format!("{name}.toml"))
        .collect();
    let found = files(&folder().join("clusters"), "toml");
    known.sort();
    assert_eq!(known, found.iter().map(|path| name(path)).collect::<Vec<_>>());
}

/// dnn-partitioning publishes the larger GNMT too, from the same profile: the same forward time and consumers at every node.
#[test]
fn gnmt_is_that_of_dnn_partitioning() {
    let theirs = folder().join("../../shared/data/dnn-partitioning/layer_gnmt_inference.json");
    if !theirs.exists() {
        eprintln!("skipped: no `{}`", theirs.display());
        return;
    }
    let (ours, theirs) = (
        read(&folder().join("pipedream/gnmt_large.graph.txt")),
        read(&theirs),
    );
    // A forward time on whatever device, and the number of consumers; they have the inputs as nodes, which take no time.
    let nodes = |spec: &InstanceSpec| {
        let layers = spec.network.layers.iter().map(|layer| {
            let on_accelerator = || layer.times.get("accelerator")?.forward_ms;
            let ms = layer.forward_ms.or_else(on_accelerator).expect("a time");
            let tensors = spec.network.tensors.iter();
            let consumers = tensors
                .filter(|tensor| tensor.producer == layer.id)
                .map(|t| t.consumers.len());
            ((ms * 1e3).round() as u64, consumers.sum::<usize>())
        });
        let mut nodes: Vec<_> = layers.filter(|&(time, _)| time > 0).collect();
        nodes.sort_unstable();
        nodes
    };
    assert_eq!(nodes(&ours), nodes(&theirs));
}

/// Every instance has its optima: the grid of `scripts/optima`.
#[test]
fn every_instance_has_known_optima() {
    let mut reader = csv::Reader::from_path(folder().join("optima.csv")).expect("optima.csv");
    let rows = reader.records().map(|row| row.expect("a row")[0].to_owned());
    let known: std::collections::BTreeSet<String> = rows.collect();
    let models = files(&folder(), "onnx").into_iter().map(|path| name(&path));
    let inside = |part: &'static str, extension| {
        let found = files(&folder().join(part), extension).into_iter();
        found.map(move |path| format!("{part}/{}", name(&path)))
    };
    let profiles = inside("measured", "json").chain(inside("pipedream", "txt"));
    for file in models.chain(profiles) {
        assert!(known.contains(&file), "{file}: run `make optima`");
    }
}

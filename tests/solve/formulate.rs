//! Programs in files: what they say of themselves is enough to read what any solver finds for them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::command::{Folder, NET};
use serde_json::Value;

/// What HiGHS finds for a model file, read as any other program would read it: the optimum, and the value of every column.
#[expect(unsafe_code, reason = "the `highs` crate cannot read files")]
fn solved(path: &Path) -> (f64, BTreeMap<String, f64>) {
    let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the pointer comes from `Highs_create`, is used by this thread alone and not after `Highs_destroy`; strings that are handed
    // over end with NUL and outlive the calls; arrays have a place for every column, and names one for `kHighsMaximumStringLength`.
    unsafe {
        let highs = highs_sys::Highs_create();
        highs_sys::Highs_setBoolOptionValue(highs, c"output_flag".as_ptr(), 0);
        for tolerance in [c"mip_feasibility_tolerance", c"primal_feasibility_tolerance"] {
            highs_sys::Highs_setDoubleOptionValue(highs, tolerance.as_ptr(), 1e-9);
        }
        for gap in [c"mip_rel_gap", c"mip_abs_gap"] {
            highs_sys::Highs_setDoubleOptionValue(highs, gap.as_ptr(), 0.0);
        }
        let is_read = highs_sys::Highs_readModel(highs, path.as_ptr()) == highs_sys::STATUS_OK;
        let is_solved = highs_sys::Highs_run(highs) == highs_sys::STATUS_OK;
        let optimum = highs_sys::Highs_getObjectiveValue(highs);
        let columns = highs_sys::Highs_getNumCol(highs);
        let mut values = vec![0.0; columns as usize];
        let none = std::ptr::null_mut();
        highs_sys::Highs_getSolution(highs, values.as_mut_ptr(), none, none, none);
        let name = |column| {
            let mut name = [0 as std::ffi::c_char; 512];
            highs_sys::Highs_getColName(highs, column, name.as_mut_ptr());
            let name = std::ffi::CStr::from_ptr(name.as_ptr());
            name.to_str().expect("a name in ASCII").to_owned()
        };
        let values = (0..columns).map(name).zip(values).collect();
        highs_sys::Highs_destroy(highs);
        assert!(is_read && is_solved, "{path:?}");
        (optimum, values)
    }
}

/// The stages of what a solver found, as the file's comments say: a layer lies in the least stage whose prefix is 1, else in the last.
fn stages(values: &BTreeMap<String, f64>, last: usize) -> Vec<Vec<String>> {
    let mut stage_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, value) in values {
        let Some(prefix) = name.strip_prefix("prefix") else {
            continue;
        };
        let (layer, k) = prefix[1..prefix.len() - 1].rsplit_once(',').expect("two indices");
        let stage = stage_of.entry(layer).or_insert(last);
        if *value > 0.5 {
            *stage = k.parse::<usize>().expect("a stage").min(*stage);
        }
    }
    let in_stage = |k: usize| {
        let own = stage_of.iter().filter(|(_, stage)| **stage == k);
        own.map(|(layer, _)| (*layer).to_owned()).collect::<Vec<_>>()
    };
    (1..=last)
        .map(in_stage)
        .filter(|stage| !stage.is_empty())
        .collect()
}

/// [`NET`] on two fast devices and a slow one.
fn mixed_net() -> String {
    let kinds = r#"[
    { name = "fast", count = 2, resources = [{ name = "gpu", forward_rate = 2 }] },
    { name = "slow", count = 1, resources = [{ name = "gpu", forward_rate = 1 }] },
]"#;
    let mut net: toml::Table = NET.parse().unwrap();
    let cluster = net["cluster"].as_table_mut().unwrap();
    let kinds: toml::Table = format!("device_kinds = {kinds}").parse().unwrap();
    cluster.insert("device_kinds".into(), kinds["device_kinds"].clone());
    net.to_string()
}

const GROUPS: &[&str] = &["--groups", "assign", "--communication", "overlapped"];

/// The time in ms that a file's comments make of an objective value, as a reader would work it out.
fn ms_by_comments(text: &str, mark: char, value: f64) -> f64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{mark} a plan of objective `value` takes ")))
        .expect("a line that says how to read the objective");
    let formula = line.strip_suffix(" ms").expect("a time in ms");
    let number = |text: &str| {
        text.trim_matches(|c| "()".contains(c))
            .parse::<f64>()
            .expect("a number")
    };
    let words: Vec<&str> = formula.split_whitespace().collect();
    match words[..] {
        [scale, "*", "(value", "+", constant] => number(scale) * (value + number(constant)),
        [scale, "/", "(1", "-", "(value", "+", constant] => {
            number(scale) / (1.0 - (value + number(constant)))
        }
        _ => panic!("{formula}"),
    }
}

/// Writes the program of a problem, solves the file and reads it by its comments: the same as what `solve` finds.
fn mean_the_same(folder: &Folder, problem: &[&str], row: &str) {
    let solve = folder.succeed(&[&["solve"], problem, &["--format", "json"]].concat());
    let solve: Value = serde_json::from_str(&solve).expect("a plan in JSON");
    let known_ms = solve["objective_ms"].as_f64().expect("a plan");
    for (file, mark) in [("net.lp", '\\'), ("net.mps", '*')] {
        folder.succeed(&[&["formulate"], problem, &["--output", file]].concat());
        let text = folder.read(file);
        assert!(text.contains(row), "{file} lacks {row}");
        let found_ms = ms_by_comments(&text, mark, solved(&folder.path(file)).0);
        assert!(
            (found_ms - known_ms).abs() < 2e-6,
            "{file}: {found_ms} and {known_ms} ms"
        );
    }
}

#[test]
fn programs_mean_the_same_to_whoever_reads_them() {
    let folder = Folder::with("net.toml", NET);
    let iteration = ["--objective", "formula", "--micro-batches", "5"];
    let cases: [&[&str]; 4] = [
        &[],
        &iteration,
        &["--communication", "overlapped"],
        &["--cuts", "separate"],
    ];
    for options in cases {
        let problem = [&["net.toml", "--stages", "2"], options].concat();
        mean_the_same(&folder, &problem, "precedence");
    }
    let gpipe = ["net.toml", "--stages", "3", "--schedule", "gpipe"];
    mean_the_same(&folder, &[&gpipe[..], &iteration].concat(), "precedence");
}

/// Whoever solves the program feeds the stages back, and they cost what the solver says.
#[test]
fn stages_that_a_solver_finds_are_a_plan() {
    let folder = Folder::with("net.toml", NET);
    for file in ["net.lp", "net.mps"] {
        folder.succeed(&["formulate", "net.toml", "--stages", "3", "--output", file]);
        let text = folder.read(file);
        assert!(
            text.contains(" `prefix` of a layer and k is 1 where the layer"),
            "{text}"
        );
        let (value, values) = solved(&folder.path(file));
        let found = serde_json::to_string(&stages(&values, 3)).expect("JSON");
        folder.write("stages.json", &found);
        let evaluate = ["check", "--evaluate", "net.toml", "stages.json", "--stages", "3"];
        let costed: Value =
            serde_json::from_str(&folder.succeed(&[&evaluate[..], &["--format", "json"]].concat()))
                .expect("JSON");
        let mark = text.chars().next().expect("a comment");
        let ms = ms_by_comments(&text, mark, value);
        let objective = costed["objective_ms"].as_f64().expect("a time");
        assert!(
            (objective - ms).abs() < 2e-6,
            "{file}: {objective} and {ms} ms, {found}"
        );
    }
}

/// Files of the groups program minimise a pace, those of devices a time.
#[test]
fn programs_of_workers_that_differ_mean_the_same_to_whoever_reads_them() {
    let folder = Folder::with("net.toml", mixed_net());
    let problem = ["net.toml", "--stages", "2", "--all-stages"];
    mean_the_same(&folder, &[&problem[..], GROUPS].concat(), "inventory");
    let blocking = ["--communication", "blocking"];
    mean_the_same(&folder, &[&problem[..], &blocking].concat(), "one_choice");
}

/// Two blocks and a head on four devices in nodes of two: blocks may be computed again, and the tensor between them and the head may cross
/// nodes.
const BLOCKS: &str = r#"
[network]
layers = [
  { id = "block1", modes = [
    { forward_ms = 1, backward_ms = 2, stash_bytes = 50, parameter_bytes = 1e6 },
    { recompute = "full", forward_ms = 1, backward_ms = 3, stash_bytes = 10, parameter_bytes = 1e6 },
    { tensor = 2, forward_ms = 0.6, backward_ms = 1.2, stash_bytes = 30, parameter_bytes = 5e5, collective_bytes = 1e5 },
  ] },
  { id = "block2", modes = [
    { forward_ms = 1, backward_ms = 2, stash_bytes = 50, parameter_bytes = 1e6 },
    { recompute = "full", forward_ms = 1, backward_ms = 3, stash_bytes = 10, parameter_bytes = 1e6 },
  ] },
  { id = "head", forward_ms = 1.5, backward_ms = 3, parameter_bytes = 3e5, stash_bytes = 5 },
]
tensors = [
  { producer = "block1", consumers = ["block2", "head"], bytes = 2e5 },
  { producer = "block2", consumers = ["head"], bytes = 1e5 },
]

[cluster]
device_kinds = [{ name = "gpu", count = 4 }]

[cluster.link]
bandwidth_bytes_per_s = 1e9
latency_ms = 0.01
nodes = { devices = 2, link = { bandwidth_bytes_per_s = 1e10 } }
"#;

#[test]
fn programs_of_modes_mean_the_same_to_whoever_reads_them() {
    let folder = Folder::with("net.toml", BLOCKS);
    let choose = [
        "--tensor",
        "choose",
        "--replicas",
        "choose",
        "--recompute",
        "choose",
    ];
    let problem = [
        &["net.toml", "--micro-batches", "4", "--objective", "period"],
        &choose[..],
    ]
    .concat();
    mean_the_same(&folder, &problem, "behind");
    let tight = ["--memory-limit", "8000090"];
    mean_the_same(&folder, &[&problem[..], &tight].concat(), "stage_memory");
    mean_the_same(&folder, &["net.toml", "--stages", "3", "--all-stages"], "crosses");
}

#[test]
fn what_no_program_can_say_is_refused_with_the_reason() {
    let folder = Folder::with("net.toml", mixed_net());
    // The theorem's shares differ from device to device where ratios of rates do, which is no linear constraint.
    let uneven = mixed_net().replace("forward_rate = 2", "forward_rate = 2\nbackward_rate = 3");
    folder.write("net.toml", uneven);
    let options = [
        "net.toml",
        "--stages",
        "2",
        "--worker",
        "concurrent",
        "--shares",
        "theorem",
        "--communication",
        "overlapped",
        "--groups",
        "assign",
    ];
    for command in [
        &["formulate", "--output", "net.lp"][..],
        &["solve", "--method", "milp"],
    ] {
        let run = folder.run(&[command, &options].concat());
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (2, ""),
            "{command:?}: {}",
            run.stderr
        );
        assert!(run.stderr.contains("linear"), "{command:?}: {}", run.stderr);
    }
    folder.succeed(&[&["solve"], &options[..]].concat());
}

//! What each framework can run, as `docs/frameworks.md` tells it: the table is written from the code.
//!
//! With `WRITE_TABLES=1` it is written.

use stagecut::export::TARGETS;
use stagecut::options::{
    Devices, KeptStates, Layout, Limits, OptimizerSharding, Recomputation, Region, Staffing,
};

/// One row of the table.
fn row(region: Region) -> String {
    let Limits {
        layout,
        staffing,
        recomputation,
        takes_chunks,
        trains,
        infers,
        devices,
        states,
        sharding,
    } = region.limits();
    let cuts = match layout {
        Layout::Layers => "anywhere",
        Layout::ModuleTree => "between modules; one that computes something itself is whole",
        Layout::ModuleList => "where one layer's output is all that is still needed",
        Layout::Blocks { each, predictors } => match (predictors, each) {
            (true, _) => {
                "between blocks, in their order; the ends on the first and last stage, multi-token prediction whole behind the blocks"
            }
            (false, true) => {
                "between blocks, in their order, one on every stage; the ends on the first and last stage"
            }
            (false, false) => "between blocks, in their order; the ends on the first and last stage",
        },
    };
    let shared = match (staffing, sharding) {
        (Staffing::One | Staffing::Tensor, _) => "has none",
        (Staffing::Replicated, OptimizerSharding::None) => "nothing",
        (Staffing::Replicated, OptimizerSharding::Zero1) => "states of the optimiser, or nothing",
        (Staffing::Replicated, _) => "states, gradients and weights, some of them, or nothing",
    };
    let staffing = match staffing {
        Staffing::One => "one device",
        Staffing::Tensor => "one tensor degree for all",
        Staffing::Replicated => "one tensor degree and number of replicas for all",
    };
    let again = match recomputation {
        Recomputation::Nothing => "nothing",
        Recomputation::AllBlocks => "all blocks, or nothing",
        Recomputation::Alike => "the same in all blocks, or all of the first so many of each stage",
    };
    let chunks = if takes_chunks {
        "in a loop, none empty"
    } else {
        "none"
    };
    let mode = match (trains, infers) {
        (true, true) => "both",
        (true, false) => "training",
        (false, _) => "inference",
    };
    let devices = match devices {
        Devices::Any => "any",
        Devices::OneEach => "GPUs and CPUs",
        Devices::OneOfAKind => "GPUs, or CPUs alone",
        Devices::Gpus => "GPUs",
        Devices::GroupedGpus => "GPUs, alone or several as one",
    };
    let states = match states {
        KeptStates::Any => "any",
        KeptStates::Mixed => "mixed for 16 bits",
        KeptStates::Adam => "Adam, not in fp16",
    };
    format!(
        "| `{region}` | {cuts} | {staffing} | {again} | {chunks} | {mode} | {devices} | {states} | {shared} |\n"
    )
}

#[test]
fn the_table_of_targets_is_what_the_code_says() {
    let head = "| target | cuts | a stage runs on | computes again | virtual stages | mode | devices | states | replicas share out |\n|---|---|---|---|---|---|---|---|---|\n";
    let current: String = head.to_owned() + &Region::ALL.map(row).concat();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/frameworks.md");
    let page = std::fs::read_to_string(path).expect("a page");
    let begin = "<!-- regions: written by `make regions` -->\n";
    let (before, rest) = page.split_once(begin).expect("a place for the table");
    let (shown, after) = rest.split_once("<!-- end -->").expect("an end of the table");
    if std::env::var_os("WRITE_TABLES").is_some() {
        std::fs::write(path, format!("{before}{begin}{current}<!-- end -->{after}")).expect("written");
        return;
    }
    assert_eq!(shown, current, "run `make regions`");
}

/// Whoever can be exported to can be planned for, but for the format that takes every plan.
#[test]
fn every_target_has_a_region() {
    let named: Vec<String> = Region::ALL.iter().map(Region::to_string).collect();
    for target in TARGETS.iter().filter(|target| target.name != "json") {
        assert!(named.iter().any(|name| name == target.name), "{}", target.name);
    }
    assert_eq!(named.len() + 1, TARGETS.len());
}

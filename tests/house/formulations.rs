//! The programs and their pages: names, sizes, and one program worked by hand.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::mixed::random_mixed;
use crate::common::modal::{add_hosts, random_modal_links};
use crate::common::{problem_of, random_problem, separate_problem};
use stagecut::exact::bounds;
use stagecut::exact::heterogeneous::program::{Form, Kind};
use stagecut::formulations::Program;
use stagecut::formulations::calibration;
use stagecut::formulations::chunk_times;
use stagecut::formulations::cyclic;
use stagecut::formulations::modal_program::{Asked, Excluded, ModalProgram};
use stagecut::formulations::partition::{Interest, Partition, item_labels};
use stagecut::formulations::staging::Windows;
use stagecut::formulations::virtual_stages::ChunkProgram;
use stagecut::instance::Instance;
use stagecut::modes::StageMode;
use stagecut::options::Objective;
use stagecut::problem::Problem;
use stagecut::schedule::{Chunk, Chunks, Placement};

/// The program of a problem without windows, with a cut-off and a solution left out so that their rows appear as well.
fn program(instance: &Instance, problem: &Problem) -> Program {
    let limit_ns = bounds::all_in_one_ns(problem);
    let labels = item_labels(instance, problem);
    let interest = Interest {
        bottleneck_from_ns: 1,
        bottleneck_to_ns: limit_ns,
        objective_to_ns: Some(limit_ns),
        quantum_ns: 1,
    };
    let Partition { mut program, columns } =
        Partition::build(problem, &Windows::all(problem), interest, &labels);
    columns.exclude(&mut program, 0, &vec![0; problem.items.len()]);
    program
}

/// Families named in the first column of a page's constraint tables.
fn families_on(page: &str) -> BTreeSet<String> {
    let mut families = BTreeSet::new();
    let mut in_table = false;
    for line in page.lines() {
        if line.starts_with("| family |") {
            in_table = line.contains("constraint");
        } else if !line.starts_with('|') {
            in_table = false;
        } else if in_table && !line.starts_with("|---") {
            let names = line.split('|').nth(1).unwrap_or("");
            families.extend(names.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    families
}

/// The page of the partition program, and those that its first table names.
fn pages_of_the_partition() -> Vec<String> {
    let read = |stem: &str| {
        let path = format!("{}/formulations/{stem}.md", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let partition = read("partition");
    let table = partition
        .lines()
        .skip_while(|line| *line != "| family | page |")
        .skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    let stems = rows
        .filter_map(|row| row.split('|').nth(2))
        .map(str::trim)
        .filter(|stem| *stem != "below");
    let mut pages: Vec<String> = stems.map(read).collect();
    pages.push(partition);
    pages
}

#[test]
fn pages_and_code_name_the_same_families() {
    let on_pages: BTreeSet<String> = pages_of_the_partition()
        .iter()
        .flat_map(|page| families_on(page))
        .collect();
    let problems = (0..2000).filter_map(random_problem);
    let in_code: BTreeSet<String> = problems
        .chain((0..500).filter_map(separate_problem))
        .flat_map(|(instance, problem)| program(&instance, &problem).families())
        .collect();
    assert_eq!(on_pages, in_code);
}

/// Both programs of a problem of workers that differ, as far as they can express it.
fn mixed_programs(seed: u64) -> Vec<Program> {
    let Some((instance, problem)) = random_mixed(seed) else {
        return Vec::new();
    };
    let workers = problem.workers.as_ref().expect("a mixed problem");
    let labels = item_labels(&instance, &problem);
    let kinds = [Kind::Devices, Kind::Groups].into_iter();
    kinds
        .filter_map(|kind| Form::of_kind(kind, &problem, workers).ok())
        .map(|form| form.program(&labels))
        .collect()
}

#[test]
fn pages_and_code_of_mixed_workers_name_the_same_families() {
    let pages = [
        include_str!("../../formulations/staging.md"),
        include_str!("../../formulations/communication.md"),
        include_str!("../../formulations/splits.md"),
        include_str!("../../formulations/devices.md"),
        include_str!("../../formulations/groups.md"),
    ];
    let on_pages: BTreeSet<String> = pages.iter().flat_map(|page| families_on(page)).collect();
    let in_code: BTreeSet<String> = (0..2000)
        .flat_map(mixed_programs)
        .flat_map(|program| program.families())
        .collect();
    assert_eq!(on_pages, in_code);
}

/// The program of a problem with modes, with a stage left out so that its rows appear as well.
fn modal_program(seed: u64) -> Option<(Problem, Program)> {
    let mut spec = random_modal_links(seed);
    if seed.is_multiple_of(3) {
        add_hosts(&mut spec, seed);
    }
    let (instance, problem) = problem_of(&spec)?;
    let modes = problem.modes.as_ref()?;
    let first = modes.replicas.first()?;
    let excluded = Excluded {
        items: vec![0],
        mode: StageMode {
            degree: 0,
            replicas: *first,
        },
        in_flight: 0,
        without: Vec::new(),
        pinned: None,
    };
    let asked = Asked {
        excluded: &[excluded],
        ..Asked::anything(modes)
    };
    let labels = item_labels(&instance, &problem);
    let program = ModalProgram::build(&problem, modes, asked, &labels).program;
    Some((problem, program))
}

#[test]
fn pages_and_code_of_modes_name_the_same_families() {
    let pages = [
        include_str!("../../formulations/staging.md"),
        include_str!("../../formulations/modal_program.md"),
    ];
    let on_pages: BTreeSet<String> = pages.iter().flat_map(|page| families_on(page)).collect();
    let in_code: BTreeSet<String> = (0..2000)
        .filter_map(modal_program)
        .flat_map(|(_, program)| program.families())
        .collect();
    assert_eq!(on_pages, in_code);
}

/// The size that the page states: choices are at most degrees times numbers of replicas times numbers in flight, and two levels of rings.
#[test]
fn the_program_of_modes_is_as_large_as_its_page_says() {
    for (problem, program) in (0..500).filter_map(modal_program) {
        let modes = problem.modes.as_ref().expect("modes");
        let (n, q) = (problem.items.len(), problem.stages());
        let ways = modes.items.iter().flatten().flatten();
        let ways = ways.flat_map(|item| item.layers.iter().map(|layer| layer.ways.len()));
        let choices = modes.degrees.len() * modes.replicas.len() * (modes.devices + 1) * 2;
        let binaries = (q - 1) * n + q * choices * (1 + ways.sum::<usize>());
        assert!(program.binaries() <= binaries, "{} binaries", program.binaries());
    }
}

/// The cyclic programs of some pipelines, with either goal.
fn cyclic_programs() -> Vec<Program> {
    let chunk = Chunk {
        forward_ns: 1,
        input_ns: 1,
        weight_ns: 1,
        forward_transfer_ns: 2,
        stash: 2,
        kept: 1,
        ..Chunk::default()
    };
    let mut programs = Vec::new();
    for (devices, may_split) in [(2, true), (3, false)] {
        let mut chunks = Chunks::even(devices, 2, Placement::V, chunk);
        chunks.may_split = may_split;
        chunks.room[0] = Some(5);
        for goal in [cyclic::Goal::Peak, cyclic::Goal::Excess] {
            let asked = cyclic::Asked {
                chunks: &chunks,
                slot_ns: 1,
                period: 6,
                goal,
            };
            programs.push(cyclic::Cyclic::build(&asked).program);
        }
    }
    programs
}

/// The programs of times of chunks, with all that they may know.
fn chunk_times_programs() -> Vec<Program> {
    let told = chunk_times::Weights::Told {
        work_ns: 8,
        uneven_ns: [-1.0, 1.0],
    };
    let asked = |weights, room| chunk_times::Asked {
        devices: 2,
        virtual_stages: 2,
        placement: Placement::V,
        micro_batches: 3,
        weights,
        room,
        work_ns: [10, 20],
        uneven_ns: [-1.0, 1.0],
    };
    vec![
        chunk_times::build(&asked(chunk_times::Weights::Whole, None)),
        chunk_times::build(&asked(chunk_times::Weights::Share(0.5), Some(4))),
        chunk_times::build(&asked(told, None)),
    ]
}

#[test]
fn page_and_code_of_times_of_chunks_name_the_same_families() {
    let on_page = families_on(include_str!("../../formulations/chunk_times.md"));
    let programs = chunk_times_programs();
    let in_code: BTreeSet<String> = programs.iter().flat_map(Program::families).collect();
    assert_eq!(on_page, in_code);
}

#[test]
fn page_and_code_of_the_cyclic_program_name_the_same_families() {
    let on_page = families_on(include_str!("../../formulations/cyclic.md"));
    let programs = cyclic_programs();
    let in_code: BTreeSet<String> = programs.iter().flat_map(Program::families).collect();
    assert_eq!(on_page, in_code);
    // The size that the page states: 12 operations in 6 slots, 3 + 3 + 4 + 4 pairs that wait, rows of two devices.
    let first = &programs[0];
    assert_eq!(first.binaries(), 12 * 6 + 12 + 1);
    assert!(
        first.rows.len() <= 2 * 12 + 14 * 6 + 2 * 2 * 6,
        "{}",
        first.rows.len()
    );
}

#[test]
fn page_and_code_of_calibration_name_the_same_families() {
    let on_page = families_on(include_str!("../../formulations/calibration.md"));
    let row = |peak: f64| calibration::Row {
        terms: vec![(0, peak), (1, 1.0)],
        target: 3.0,
        measured: 3.0,
    };
    let rows: Vec<calibration::Row> = [1.0, 2.0, 3.0].map(row).into();
    let program = calibration::Calibration::build(&rows, &[(1.0, 1e6), (0.0, f64::INFINITY)]).program;
    assert_eq!(on_page, program.families().into_iter().collect());
    // The size that the page states.
    assert_eq!(
        (
            program.variable_names().len(),
            program.rows.len(),
            program.binaries()
        ),
        (3 + 2, 6, 0)
    );
}

/// The programs of small problems with virtual stages, with a solution left out.
fn chunk_programs() -> Vec<(Problem, Program)> {
    let mut programs = Vec::new();
    for seed in 0..200 {
        let mut spec = crate::common::random_spec(seed, seed % 2 == 0);
        spec.pipeline.objective = Some(Objective::Period);
        spec.pipeline.virtual_stages = Some(2.into());
        spec.pipeline.schedule = None;
        spec.pipeline.micro_batches = None;
        let Some((instance, problem)) = problem_of(&spec) else {
            continue;
        };
        let of = problem.virtual_stages.as_ref().expect("virtual stages");
        let labels = item_labels(&instance, &problem);
        let most_ns = bounds::all_in_one_ns(&problem) as f64;
        let program = ChunkProgram::build(&problem, of, most_ns, &labels).program;
        programs.push((problem, program));
    }
    programs
}

#[test]
fn page_and_code_of_virtual_stages_name_the_same_families() {
    let on_page = families_on(include_str!("../../formulations/virtual_stages.md"));
    let programs = chunk_programs();
    let in_code: BTreeSet<String> = programs
        .iter()
        .flat_map(|(_, program)| program.families())
        .collect();
    assert_eq!(on_page, in_code);
    for (problem, program) in &programs {
        let of = problem.virtual_stages.as_ref().expect("virtual stages");
        let (n, c, q) = (problem.items.len(), problem.stages(), of.devices);
        assert!(program.binaries() <= (c - 1) * n);
        let ends: usize = problem.transfers.iter().map(|t| t.consumers.len()).sum();
        let counts: usize = of.in_flight.iter().map(Vec::len).sum();
        let staging = (c - 2) * n + (c - 1) * problem.order.edge_count() + c;
        assert!(program.rows.len() <= staging + 2 * q * ends + 3 * q + counts);
    }
}

#[test]
fn every_row_and_column_has_a_name_of_its_own() {
    let alike = (0..200).filter_map(random_problem);
    let alike = alike.map(|(instance, problem)| program(&instance, &problem));
    let modal = (0..200).filter_map(modal_program).map(|(_, program)| program);
    let others = (0..200)
        .flat_map(mixed_programs)
        .chain(cyclic_programs())
        .chain(chunk_times_programs());
    let chunks = chunk_programs().into_iter().map(|(_, program)| program);
    for program in alike.chain(others).chain(modal).chain(chunks) {
        let rows: Vec<&str> = program
            .rows
            .iter()
            .map(|row| row.name().expect("a name"))
            .collect();
        let columns = program.variable_names();
        let distinct: BTreeSet<&str> = rows
            .iter()
            .copied()
            .chain(columns.iter().map(String::as_str))
            .collect();
        assert_eq!(distinct.len(), rows.len() + columns.len());
        assert!(
            distinct.iter().all(|name| !name.contains(' ')),
            "LP files split names at blanks"
        );
    }
}

/// The size that the page states.
#[test]
fn the_program_is_as_large_as_its_page_says() {
    for (instance, problem) in (0..500).filter_map(random_problem) {
        let program = program(&instance, &problem);
        let (n, q) = (problem.items.len(), problem.stages());
        assert!(program.binaries() <= (q - 1) * n);
        let consumers: usize = problem.transfers.iter().map(|t| t.consumers.len()).sum();
        let rows = q.saturating_sub(2) * n + (q - 1) * problem.order.edge_count() + 2 * q * consumers;
        let others = q + 6 * q + q + 3;
        assert!(program.rows.len() <= rows + others, "{} rows", program.rows.len());
    }
}

/// The index lists every page, and beside it a file or folder that is there.
#[test]
fn the_index_lists_every_page() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let index = include_str!("../../formulations/README.md");
    let rows = index.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split('`');
        Some((cells.next()?.strip_suffix(".md")?, cells.nth(1)?))
    });
    let rows: std::collections::BTreeMap<&str, &str> = rows.collect();
    let pages = std::fs::read_dir(root.join("formulations"))
        .expect("a folder")
        .flatten();
    let names = pages.map(|page| {
        page.path()
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    });
    let pages: BTreeSet<String> = names.filter(|name| name != "README").collect();
    let listed: BTreeSet<String> = rows.keys().map(|&page| page.to_owned()).collect();
    assert_eq!(listed, pages);
    for (page, module) in rows {
        let file = root.join("src").join(module.replace("::", "/"));
        assert!(
            file.is_dir() || file.with_extension("rs").is_file(),
            "{page}: no `{module}`"
        );
    }
}

/// The last row of every part in benches/ABLATION.md: the cells behind its name.
fn last_ablation() -> BTreeMap<String, Vec<String>> {
    let page = include_str!("../../benches/ABLATION.md");
    let row = |line: &str| {
        let mut cells = line.split('|').map(|cell| cell.trim().to_owned());
        let name = cells.nth(1)?.strip_prefix('`')?.strip_suffix('`')?.to_owned();
        Some((name, cells.collect()))
    };
    let tables = page.split("| without |").skip(1);
    let rows = tables.flat_map(|table| {
        table
            .lines()
            .take_while(|line| line.starts_with('|') || line.starts_with(" proved"))
            .filter_map(row)
    });
    // Later rows replace those before.
    rows.collect()
}

#[test]
fn pages_say_of_their_parts_what_the_last_ablation_measured() {
    let rows = last_ablation();
    let mut said = 0;
    for page in
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/formulations")).expect("the folder is there")
    {
        let path = page.expect("it can be read").path();
        let text = std::fs::read_to_string(&path).expect("pages are text");
        let Some((_, worth)) = text.split_once("**In the suite**") else {
            continue;
        };
        for clause in worth.split("without `").skip(1) {
            let (part, rest) = clause.split_once('`').expect("a part has two ticks");
            let number = |after: &str| {
                let from = rest
                    .split(after)
                    .nth(1)
                    .expect("it is written by benches/ablation");
                let digits = |c: char| c.is_ascii_digit() || c == '.';
                let text: String = from.chars().take_while(|&c| digits(c)).collect();
                text.trim_end_matches('.').parse::<f64>().expect("a number")
            };
            let cell = |at: usize| rows[part][at].parse().unwrap_or(0.0);
            let lost: f64 = rest
                .split_whitespace()
                .next()
                .and_then(|word| word.parse().ok())
                .expect("a number");
            let found = [lost, number("time x "), number("at worst x ")];
            assert_eq!(found, [cell(1), cell(3), cell(4)], "{}: `{part}`", path.display());
            said += 1;
        }
    }
    assert!(said >= 15, "{said} parts");
}

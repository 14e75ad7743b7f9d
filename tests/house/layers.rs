//! The house: which rooms `src` has, who may use whom, and how large each may grow. `cargo test --release --locked --test layers -- --nocapture`
//! prints the structure in figures.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of `src`: it may use the rooms before it.
struct Room {
    name: &'static str,
    /// Its modules, from the bottom up: each line may use the lines above it, and nothing of its own line or below. [`OWN`] stands for
    /// files and modules of the room that are named nowhere else.
    floors: &'static [&'static [&'static str]],
    /// The most lines it may have. Whoever raises it says why, in the line's comment.
    lines: usize,
    /// The most files, likewise.
    files: usize,
}

/// What belongs to the room itself.
const OWN: &str = "";

const ROOMS: &[Room] = &[
    // What may be asked and said.
    Room {
        name: "model",
        floors: &[
            &["words"],
            &["setting"],
            &["fault", "named_values", "quantity", "units"],
            &[
                "chunk_sizes",
                "communication",
                "constraint",
                "degrees",
                "efficiency",
                "precision",
                "prompt",
                "recompute",
                "region",
            ],
            &["schedule", "states"],
            &["objective"],
            &["options"],
            &["spec"],
            &["cluster", "network", "roofline"],
            &["instance"],
            &["settings"],
        ],
        // 400 and two files more for what is said of options in pieces (`words`, `setting`): it was taken apart in `app` before.
        // 30 more for the latency.
        // 50 more for the order of iterations of chunks.
        // 100 more for what frameworks can run.
        // 620 and two files more for what all of them can: their table, what a network's layers are to them, and what each refuses; 100 came
        // down from `export`.
        // 180 more for the number of chunks as a choice, and for chunks of stages in modes.
        // 210 and two files more for constraints of one's own.
        // 100 and a file more for frozen layers, and for multi-token prediction.
        // 100 more for efficiencies by operator, launches, and what an iteration takes beside its plan.
        // 470 and three files more for tables that layers share, and for experts.
        // 10 more for towers that see, which are no blocks.
        // 350 and a file more for room for requests: bytes of tokens and sequences, how room is asked for, and what is refused beside it.
        // 80 more for what replicas share out, and for sequences that devices do.
        // 490 and two files more for prompts in chunks: what a chunk is, of which parts a layer's time is made, and what is refused beside one.
        // 10 more for the sequences of a micro-batch.
        // 180 and a file more for parts of work that take turns, and for parts of peaks that were measured.
        // 190 and a file more for sizes of chunks to choose from, as they are written.
        // 200 and a file more for what layers lay at hosts.
        // 120 and a file more for links of kinds. 20 more for constraints that make stages have modes.
        // 180 and a file more for prompts in modes, and for the order of kinds. 60 more for micro-batches of several passes, 30 for faults that are told once.
        // 80 and a file more for states of optimisers at hosts.
        // 20 more for chunks of devices that differ, and for what runs both phases at once.
        // 20 more for the first micro-batch of an order. 5 more for frozen weights of layers that stand in modes alone, as they are written.
        // 10 more for which iterations have the schedule's own number in flight.
        // 110 more for groups of devices in modes, and the reasons why other work that is shared knows none.
        // 50 more for shares of stages in modes, and which no search of these knows.
        // 50 more, and two files, for what is refused of shares and of degrees apart from other modes, and for halving, of which six stood elsewhere.
        lines: 11_800,
        files: 71,
    },
    // From files, and to them.
    Room {
        name: "input",
        floors: &[
            &["csv_text", "intake", "program", "sealed"],
            &["source", "transformer", "whole"],
            &["import"],
            &["generate", "read"],
        ],
        // 100 more for the same.
        // 180 and a file more for Sailor's layers.
        // 3_500 and 13 files more for configurations of published models: a table of thirty kinds of model, what reads their fields, and
        // operators of latent attention, state spaces, experts and vision towers, which generated networks are built of too.
        // 1_350 and seven files more for profiles: Galvatron, torch, Nsight, DeepSpeed, Vidur, aiconfigurator, and what traces share.
        // 30 more for configurations that are read on a cluster. 100 more for tables and experts.
        // 1_620 and six files more for ONNX models of language models: functions and bodies in one list, what runs them, fused operators, lengths
        // that are said.
        // 100 more for what is kept of tokens and sequences, and for phases of serving.
        // 120 more for the same.
        // 100 more for layers that predict further tokens.
        // 160 and a file more for whole requests, prompt and answer.
        lines: 15_210,
        files: 72,
    },
    // What is to be cut, what a plan costs, and what it is.
    Room {
        name: "problem",
        floors: &[
            &[
                "bound_source",
                "hybrid",
                "memory",
                "pipeline",
                "placement",
                "shares",
                "switches",
                "tables",
            ],
            &["passes", "virtual_stages", "workers"],
            &["modes"],
            &[OWN],
            &["cost"],
            &["plan"],
            &["control"],
        ],
        // 20 more for steps that are left, which five searches counted by themselves. 90 more for the price of a byte, without which the
        // ways of layers that all differ double with each.
        // 50 more for what is said of options in pieces.
        // 50 more for the runs of workers that differ.
        // 150 more for iterations of stages in modes, and stages that are alike.
        // 370 and two files more for chunks and their operations, whose run is a cost now; a third of it came down from `schedule`.
        // 40 more, and a file, for how plans run, which no period says.
        // 180 more for stages that are alike, and what frameworks can be told of them.
        // 30 more for what each framework can be told.
        // 300 and a file more for chunks of stages in modes: how they lie, what they cost and hold.
        // 110 more, and a file, for what stages may hold beside their memory. 120 more for rows of devices of several kinds.
        // 450 and a file more for machines that serve together.
        // 20 more for gradients that do not move: nothing before them is trained.
        // 610 and four files more for copies of tables and experts that replicas share out.
        // 150 and a file more for what devices hold part by part, and for what two searches of a problem have found.
        // 80 and a file more for the tokens that a plan has room for. A file more: what a stage of a plan is.
        // 190 and two files more for gradients and weights that replicas share out, and sequences that devices do. 20 more for what they hold of experts.
        // 220 and a file more for what chunks of a prompt take.
        // 80 and a file more for where times come from.
        // 110 and a file more for what is known of sizes of chunks.
        // 140 more for what layers lay at hosts.
        // 120 and a file more for links of kinds.
        // 90 more for prompts in modes, the order of kinds, and gradients of weights apart.
        // 175 and two files more for states of optimisers at hosts, and what a stage may be but for its replicas as one list.
        // 10 more for experts and gradients that the devices of a sequence share out. 50 more for links of replicas beside their work.
        // 40 more for weights in versions, and iterations by the formula.
        // 30 more for chunks of devices that differ, and iterations of separate cuts. 60 more for what either of two cuts keeps to, and for frozen layers there.
        // 30 more for what plans of no region take, and for what a stage pays over links that are told apart.
        // 80 more for prompts whose transfers are beside the work.
        // 550 and a file more for layers in modes whose passes are items of their own, and for groups there.
        // 460 and a file more for shares of stages in modes, and prices of what they add up; three files more: tensors, rings and ways of modes.
        // 20 more for ways that differ in both passes there.
        // 370 and a file more for forward passes that have a table for a pass that is not their own.
        lines: 14_680,
        files: 74,
    },
    // How it runs.
    Room {
        name: "schedule",
        floors: &[&["simulate"], &[OWN]],
        // 30 more for chunks of a prompt.
        // 10 more for exchanges where nothing is flushed.
        // 20 more for chunks of a prompt on links.
        lines: 2_480,
        files: 15,
    },
    Room {
        name: "formulations",
        floors: &[&[OWN], &["solver"]],
        // 140 and one file more for the program of critical paths, which bounds what runs.
        // 30 more for programs that are solved without restarts.
        // 50 more for what devices may hold in it, and do once. 30 more for rows of devices of several kinds.
        // 290 and a file more for the programs of placements.
        // 90 and a file more for the program of calibration.
        // 10 more for what the program of modes knows nothing of.
        // 130 more for prices of what goes over links.
        // 120 and a file more for linear programs that gain rows, and for what chunks hold at least.
        // 120 for columns of whole items to branch on.
        // 40 more for what layers lay at hosts.
        // 10 more for models that threads hand on to each other.
        // 10 more for what the program of modes knows nothing of.
        // 10 more for what an item takes where it is done soonest.
        // 50 more for ways to run an item of a chunk, and for all whole counts but one.
        // 20 more for totals of kinds that take as long.
        // 10 more for what the program of modes knows nothing of.
        // 180 more, half of it a test, for what devices have time and memory for beside what each chunk must hold.
        // 15 more for the ends of a row, on which programs of chunks branch first.
        lines: 7_070,
        files: 31,
    },
    // What is accepted, and what it is written as.
    Room {
        name: "check",
        floors: &[&[OWN]],
        // 50 more for iterations of stages in modes.
        // 60 more for how plans run, chunks among them.
        // 30 more for how plans run.
        // 40 more for the same.
        // 190 more, and a file, for what each framework can run.
        // 110 more for chunks of stages in modes.
        // 110 more, and a file, for constraints of one's own. 20 more for devices of several kinds in modes.
        // 150 and a file more for placements. 20 more for gradients that do not move.
        // 270 and a file more for copies of tables and for experts.
        // 100 and a file more for the same.
        // 150 and a file more for what devices with the same weights exchange in every pass.
        // 90 and a file more for chunks of a prompt.
        // 20 more for where times come from.
        // 50 more for what plans say of sizes of chunks.
        // 40 more for what layers lay at hosts.
        // 10 more for links of kinds.
        // 80 more for prompts in modes, and for the order of kinds.
        // 120 and a file more for states of optimisers at hosts.
        // 100 more for links of replicas beside their work; a file more for devices apart from what their stages cost.
        // 40 more for weights in versions, and iterations by the formula.
        // 50 more for chunks of devices that differ, the first micro-batch of chunks, and iterations of what runs both phases at once.
        // 40 more for constraints of either cut, and frozen layers there.
        // 60 more for the same.
        // 230 and two files more for layers in modes whose passes lie apart, in parts.
        // 20 more for groups in modes.
        // 130 more for shares of stages in modes.
        // 10 more for both ways of passes that lie apart.
        // 40 more for forward passes that have a table for a pass that is not their own.
        lines: 5_670,
        files: 23,
    },
    Room {
        name: "export",
        floors: &[&[OWN]],
        // 200 more for the same; a template has 250 fewer.
        // 370 and two files more for layouts of Megatron: the grammar, and stages of them.
        // 30 more for copies of tables, which not every framework keeps equal, and for degrees of experts.
        // 10 more for layouts of plans for whatever framework.
        // 70 more for layouts as lists of lists.
        // 110 and a file more for llama.cpp, and for the room that servers report.
        // 20 more for what replicas share out, and for context degrees.
        // 20 more for sizes of chunks of a prompt.
        // 20 more for what layers lay at hosts.
        // 20 more for groups in modes. 10 more for shares of stages in modes.
        lines: 3_020,
        files: 19,
    },
    // How one is found.
    Room {
        name: "search",
        floors: &[&["ideals", "labels", "limits"], &["device_levels"], &["in_time"]],
        // 300 more for the search over limits, whose loops stood in the room of the exact methods.
        lines: 2_350,
        files: 15,
    },
    Room {
        name: "heuristics",
        floors: &[&[OWN]],
        // 100 more for stages of one mode filled within memory: no plan of a wide graph before its proof without them.
        // 30 more for reasons in pieces.
        lines: 7_410,
        files: 42,
    },
    Room {
        name: "exact",
        floors: &[&["best_schedule"], &[OWN], &["joint", "tied_cuts"]],
        // 200 more for unordered items in groups and with memory: BERT's training graph, open by 38 % before. 100 more for them on devices
        // of several kinds: ResNet-50's with its CPU, open by half before.
        // 1_250 more for latencies, and for iterations of workers that differ, which no method answered.
        // 650 more for iterations of stages in modes, and stages that are alike. 700 more for those of devices of several chunks.
        // 50 more for the same.
        // 700 and two files more for chunks of stages in modes, of which there are families to look through.
        // 30 more for constraints of one's own. 30 more for plans of one stage a device before those of chunks.
        // 450 more, and a file, for devices of several kinds in modes, in place of their refusal.
        // 1_140 and six files more for placements: covers, the sweep, flows.
        // 50 more for stages of modes that hold both ends of a table, or one.
        // 20 more for plans that are to be beaten.
        // 570 and two files more for placements over slow links: bounds that know them, and a local search.
        // 140 and a file more for chunks: what the program of paths is asked stands by itself.
        // 400 and two files less without windows from single boundaries.
        // 330 and two files more for branch and cut over the chunks of modes, which a program anew for each solution was for, and for sums of families.
        // 300 and two files more for places in a row of devices: 2,048 of them were 49 % open after a minute, and are 8 %.
        // 40 more for kinds of devices that share a node, whose periods had a bound alone.
        // 440 and a file more for prompts in chunks: labels of when chunks get through, and their bound.
        // 480 more, and a file, for ranges of whole counts: Llama-3 405B's iteration, open by 4.7 % after a minute, is open by 0.5 %.
        // 200 and a file more for the way of one micro-batch over rows of devices.
        // 510 and three files more for prompts in modes, whose stages lie where links have several levels, and for the order of kinds. 40 more for
        // chunks of restricted recomputation, which others begin with.
        // 310 and a file more for totals of devices, and families of plans side by side: DeepSeek-V3 on 256 and 2,048 devices, open by 4.4 and 8.4 % after
        // a minute, is proved.
        // 30 more for what both passes of a stage take together, and for when stages have done what they do once.
        // 50 more for what groups, concurrent workers and chunks may hold. 90 more for links of replicas beside their work.
        // 130 more for sums of stages in modes.
        // 400 and a file more for chunks of devices that differ, in whatever order, and for iterations of separate cuts and of workers that run both
        // phases at once, which are the searches of others with what these may hold and do.
        // 480 and a file more for ways to run items of chunks: what each holds and takes, which a device has memory for when, how many that leaves room
        // for, and plans that run so, each known to the ns.
        // 310 and a file more for what whole devices hold in ranges, for parts of branch and cut that these narrow, for workspaces, and for
        // chunks that fit memory where even ones do not.
        // 510 and two files more for free degrees: replicas in all, where nodes end, and several ways to go on; Llama-3 70B and GPT-3, open by a fifth
        // and a tenth, are proved.
        // 130 fewer: iterations have the schedule's own number in flight on links, too, as everywhere.
        // 340 and two files more for iterations of networks with too many ideals: cells of these, and loose items.
        // 40 more for prompts on links. 140 more for replicas in the run of the first stages, a third of it tests, and for threads that share its table.
        // 100 more for plans with tied cuts as a start of separate ones in modes.
        // 120 more for chunks that are as long as the others of their round, and what families of chunks take at least before they are laid out.
        // 30 more for iterations whose devices run both phases at once.
        // 160 more for what the first blocks of each chunk compute again, and the kinds that it can hold; and for rounds that leave chunks out at either end.
        // 20 more for the ends of a row, on which programs of chunks branch first.
        // 80 fewer without moves of iterations that no answer depends on, and without families that were looked at before those that promise most.
        // 200 and a file more for problems that are told apart: forward passes that have a table for a pass that is not their own.
        lines: 40_290,
        files: 212,
    },
    Room {
        name: "online",
        floors: &[&[OWN]],
        lines: 2_680,
        files: 20,
    },
    // What is made of it.
    Room {
        name: "solve",
        floors: &[
            &["methods", "narrower"],
            &["error"],
            &["posed"],
            &[
                "confirmation",
                "evaluate",
                "formulate",
                "global_batch",
                "least_memory",
                "what_if",
            ],
            &["calibrate", "planning", "remedies", "unrestricted"],
        ],
        // The one way from options to a checked plan came down from `app`.
        // 100 more for the same, and 100 for `what_if` with the options of `solve`.
        // 30 more for constraints that could be left out.
        // 1_110 and six files more for calibration: its files, layers, links and runs.
        // 560 and a file more for sizes of micro-batches, and what choices are worth.
        // 320 and two files more for the most tokens.
        // 100 more for tokens as what is varied, which run the other way.
        // 230 and a file more for the size of chunks as a choice.
        // 10 more for the order of kinds, which programs do not know.
        // 60 more for a plan with another choice that takes less than the one that there was time for.
        // 40 more for sizes of micro-batches side by side.
        // 60 and a file more for what regions cost.
        // 70 more for shares of stages in modes that nobody states.
        // 20 more for hints at what comes near an iteration, which name a formula only where there is one.
        // 20 more for problems that are told apart, of which there is no single program.
        lines: 6_540,
        files: 30,
    },
    Room {
        name: "app",
        floors: &[&["flags", "report"], &["study"], &["cli"], &["embedded"]],
        // One file more: how options are written on the command line.
        // 200 and a file more for layouts of Megatron.
        // 250 and a file more for what a model has, and how one is run.
        // 280 and a file more for `place`.
        // 20 more for what kind of times a report is made of.
        // 240 and a file more for `calibrate`.
        // 90 and a file more for what a report says of copies and experts.
        // 880 and four files more for `plan`: its arguments, its screen and document, and the same for the package.
        // 90 and a file more for what a report says of copies and experts. 40 more for lengths that are said.
        // 40 more for room in reports.
        // A file more for what reports say of times.
        // 110 more for sizes of chunks that are chosen, and for the plan that `schedule` chooses one for.
        // 60 more for what layers lay at hosts.
        // 10 more for whole requests.
        // 10 more for states of optimisers at hosts.
        // 40 more for what regions cost.
        // 20 more for groups in modes. 80 more for what copies and recomputation take on shares.
        // 30 more for stages that hold the weights of a table alone.
        lines: 22_380,
        files: 123,
    },
];

/// Rooms that see less than their place allows.
const SEES_ONLY: &[(&str, &[&str])] = &[
    // What accepts plans recomputes them from layers and tensors alone: of problems it takes the plan.
    (
        "check",
        &[
            "model::cluster",
            "model::fault",
            "model::instance",
            "model::network",
            "model::options",
            "model::setting",
            "model::settings",
            "model::units",
            "model::words",
            "problem::placement",
            "problem::plan",
            "schedule::simulate",
        ],
    ),
    (
        "export",
        &[
            "model::cluster",
            "model::fault",
            "model::instance",
            "model::network",
            "model::options",
            "model::precision",
            "model::setting",
            "model::units",
            "model::words",
            "problem::plan",
            "schedule",
        ],
    ),
    ("problem::hybrid", &[]),
    (
        "input::import",
        &[
            "input::intake",
            "input::program",
            "input::source",
            "input::transformer",
            "model::fault",
            "model::options",
            "model::precision",
            "model::roofline",
            "model::setting",
            "model::spec",
            "model::units",
            "model::words",
        ],
    ),
];

/// Dependencies that stay behind one wall each, and the room inside it.
const WALLS: &[(&str, &str)] = &[
    ("good_lp", "formulations"),
    ("highs", "formulations"),
    ("highs_sys", "formulations"),
    ("clap_complete", "app::cli"),
    ("miette", "app::cli"),
];

/// A path in a source file: `line` uses `module`.
struct Use {
    file: PathBuf,
    line: usize,
    from: Module,
    module: Module,
}

/// A module of a room, [`OWN`] for what is the room's.
#[derive(Clone, PartialEq, Eq)]
struct Module {
    room: String,
    name: String,
}

impl Module {
    /// The module that a path of names leads to: of `exact::joint::Cut` that is `joint` of `exact`.
    fn new(path: &[&str]) -> Self {
        let room = path.first().copied().unwrap_or_default();
        let name = path.get(1).copied().unwrap_or_default();
        let known = ROOMS
            .iter()
            .filter(|known| known.name == room)
            .any(|known| known.floors.iter().any(|floor| floor.contains(&name)));
        Self {
            room: room.to_owned(),
            name: if known { name } else { OWN }.to_owned(),
        }
    }

    /// Its room and its floor there.
    fn place(&self) -> Option<(usize, usize)> {
        let room = ROOMS.iter().position(|room| room.name == self.room)?;
        let floors = ROOMS[room].floors.iter();
        let floor = floors
            .clone()
            .position(|floor| floor.contains(&self.name.as_str()))?;
        Some((room, floor))
    }

    fn path(&self) -> String {
        match self.name.as_str() {
            OWN => self.room.clone(),
            name => format!("{}::{name}", self.room),
        }
    }

    /// Whether it is what a path names, or within.
    fn is_within(&self, path: &str) -> bool {
        self.room == path || self.path() == path
    }
}

#[test]
fn a_dozen_rooms_and_nothing_beside_them() {
    assert!(ROOMS.len() <= 13, "{} rooms", ROOMS.len());
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let found: BTreeSet<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let rooms = ROOMS.iter().map(|room| room.name);
    let expected: BTreeSet<String> = rooms.chain(["lib.rs", "main.rs"]).map(str::to_owned).collect();
    assert_eq!(found, expected, "a feature adds to the rooms that are there");
}

#[test]
fn dependencies_point_one_way() {
    let mut wrong = Vec::new();
    for used in uses() {
        let Use {
            file,
            line,
            from,
            module,
        } = &used;
        let place = format!("{}:{line}", file.display());
        let (Some(above), Some(below)) = (from.place(), module.place()) else {
            let (from, module) = (from.path(), module.path());
            wrong.push(format!(
                "{place}: `{from}` or `{module}` has no place in ROOMS of tests/layers.rs"
            ));
            continue;
        };
        let is_below = below.0 < above.0 || below.0 == above.0 && below.1 < above.1;
        if !is_below {
            let (from, module) = (from.path(), module.path());
            wrong.push(format!(
                "{place}: `{from}` uses `{module}`, which is not below it in ROOMS of tests/layers.rs"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn some_modules_see_less_than_they_might() {
    let mut wrong = Vec::new();
    for used in uses() {
        for (_, allowed) in SEES_ONLY.iter().filter(|(from, _)| used.from.is_within(from)) {
            let own = used.module.room == used.from.room && used.module.name == used.from.name;
            if !own && !allowed.iter().any(|allowed| used.module.is_within(allowed)) {
                let (place, from, module) = (used.file.display(), used.from.path(), used.module.path());
                let allowed = allowed.join(", ");
                wrong.push(format!(
                    "{place}:{}: `{from}` uses `{module}`, and may use {allowed} alone",
                    used.line
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn some_dependencies_stay_in_their_rooms() {
    let mut wrong = Vec::new();
    for (file, from) in files() {
        for (line, text) in code(&file) {
            for (dependency, inside) in WALLS {
                let names = text.split(|c: char| !c.is_alphanumeric() && c != '_');
                let is_named =
                    text.contains(&format!("{dependency}::")) && names.into_iter().any(|n| n == *dependency);
                if is_named && !from.is_within(inside) {
                    wrong.push(format!(
                        "{}:{line}: `{}` names `{dependency}`, which belongs to {inside}",
                        file.display(),
                        from.path()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Prints what the house is, in figures, and holds the rooms to their budgets.
#[test]
fn rooms_stay_within_their_budgets() {
    let mut sizes: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (file, from) in files() {
        let size = sizes.entry(from.room).or_default();
        size.0 += fs::read_to_string(&file).unwrap().lines().count();
        size.1 += 1;
    }
    let arrows: BTreeSet<(usize, usize)> = uses()
        .into_iter()
        .filter_map(|used| Some((used.from.place()?.0, used.module.place()?.0)))
        .filter(|(from, to)| from != to)
        .collect();
    let mut floors = vec![1; ROOMS.len()];
    for room in 0..ROOMS.len() {
        let below = arrows.iter().filter(|(from, _)| *from == room);
        floors[room] = 1 + below.map(|&(_, to)| floors[to]).max().unwrap_or(0);
    }
    println!("{:<14}{:>8}{:>7}{:>7}", "room", "lines", "files", "floor");
    let mut wrong = Vec::new();
    for (room, floor) in ROOMS.iter().zip(&floors) {
        let (lines, files) = sizes.get(room.name).copied().unwrap_or_default();
        println!("{:<14}{lines:>8}{files:>7}{floor:>7}", room.name);
        if lines > room.lines || files > room.files {
            wrong.push(format!(
                "`{}` has {lines} lines in {files} files; its budget is {} and {}",
                room.name, room.lines, room.files
            ));
        }
    }
    let (lines, files) = sizes
        .values()
        .fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
    let highest = floors.iter().max().unwrap();
    let circles = arrows
        .iter()
        .filter(|(from, to)| arrows.contains(&(*to, *from)))
        .count()
        / 2;
    println!("{:<14}{lines:>8}{files:>7}{highest:>7}", "all");
    println!(
        "{} rooms, 2 files at the root, {} arrows between rooms, {circles} circles",
        ROOMS.len(),
        arrows.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What reads a file, however long it is.
const READS: &[&str] = &["fs::read(", "fs::read_to_string(", "File::open("];

/// Where that is right: in the reader of all inputs, where a file of ours is moved to its place, in the text that HiGHS has written, and
/// where the system tells of itself.
const READERS: &[&str] = &[
    "src/input/intake.rs",
    "src/input/whole.rs",
    "src/solve/formulate.rs",
    "src/input/import/onnx/isolated.rs",
    "src/app/study/outside/supervisor.rs",
];

#[test]
fn inputs_are_read_in_one_place() {
    let mut wrong = Vec::new();
    for (file, _) in files() {
        let place = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
        let reads = code(&file)
            .into_iter()
            .filter(|(_, text)| READS.iter().any(|reads| text.contains(reads)));
        if !READERS.iter().any(|reader| Path::new(reader) == place) {
            wrong.extend(reads.map(|(line, _)| {
                let place = place.display();
                format!("{place}:{line}: it reads a file past `intake`, which limits how much")
            }));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What `cargo doc` opens on; `scripts/doc-items` counts what is in it.
#[test]
fn the_front_page_shows_few_modules() {
    let lines = code(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"));
    let text: String = lines.into_iter().map(|(_, line)| line + " ").collect();
    // Functions of the root are the only other names in small letters.
    let items = text.split(';').filter(|item| {
        let is_shown = item.contains("pub ") && !item.contains("doc(hidden)");
        is_shown && !item.contains("planning::")
    });
    let names = items.flat_map(|item| item.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')));
    let names = names.filter_map(|path| path.rsplit("::").next());
    let words = ["pub", "use", "mod", "crate", "cfg", "feature", "cli", ""];
    let is_module = |name: &&str| !words.contains(name) && name.starts_with(|c: char| c.is_lowercase());
    let shown: BTreeSet<&str> = names.filter(is_module).collect();
    println!("{} modules shown: {shown:?}", shown.len());
    assert!(shown.contains("plan") && shown.len() <= 10, "{shown:?}");
}

/// Files below the doors that write flags of other programs.
const OTHER_PROGRAMS: &[&str] = &[
    // Megatron-LM's, vLLM's and SGLang's.
    "src/export/megatron.rs",
    "src/export/megatron_modes.rs",
    "src/export/megatron_states.rs",
    "src/export/mod.rs",
    "src/export/served.rs",
    // Where Megatron-LM has the method.
    "src/heuristics/block_counts.rs",
    "src/heuristics/recomputed.rs",
    "src/export/llama_cpp.rs",
];

/// The core speaks of options by their field, in pieces that whoever shows them writes: flags on the command line, keywords in Python.
#[test]
fn options_are_written_at_the_doors() {
    let mut wrong = Vec::new();
    for (file, _) in files() {
        let place = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
        let is_door = place.starts_with("src/app") && !place.starts_with("src/app/embedded");
        if is_door || OTHER_PROGRAMS.iter().any(|other| Path::new(other) == place) {
            continue;
        }
        for (line, text) in code(&file) {
            // What a shell would run is the same at every door.
            let own: String = text
                .split('`')
                .filter(|part| !part.starts_with("stagecut "))
                .collect();
            let flags = own.match_indices("--").map(|(at, _)| &own[at + 2..]);
            if flags
                .clone()
                .any(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
            {
                wrong.push(format!("{}:{line}: it writes a flag", place.display()));
            }
            // What the Python package says is made of pieces, not of a text for others.
            let takes_apart = [".replace(", ".split(", "split_once(", ".strip_", "Regex"];
            if place.starts_with("src/app/embedded") && takes_apart.iter().any(|call| text.contains(call)) {
                wrong.push(format!("{}:{line}: it takes a text apart", place.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every use of one module at the top of `src` by another.
fn uses() -> Vec<Use> {
    let mut uses = Vec::new();
    for (file, from) in files() {
        let lines = code(&file);
        for (at, (line, text)) in lines.iter().enumerate() {
            for (start, _) in text.match_indices("crate::") {
                let path = &text[start + "crate::".len()..];
                // `pub(crate)` names no path, and a name in capitals is one of the root's own.
                let others = paths(path, &lines[at + 1..])
                    .into_iter()
                    .filter(|path| path.starts_with(|c: char| c.is_lowercase()))
                    .map(|path| Module::new(&path.split("::").collect::<Vec<_>>()))
                    .filter(|module| *module != from);
                uses.extend(others.map(|module| Use {
                    file: file.clone(),
                    line: *line,
                    from: from.clone(),
                    module,
                }));
            }
        }
    }
    assert!(uses.len() > 500, "only {} paths found", uses.len());
    uses
}

/// The paths that stand behind `crate::`, up to two names each: one, or a list of them, which may go on over the next lines.
fn paths(path: &str, next: &[(usize, String)]) -> Vec<String> {
    let end = path.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let start = &path[..end.unwrap_or(path.len())];
    let mut names: Vec<&str> = start
        .split("::")
        .filter(|name| !name.is_empty())
        .take(2)
        .collect();
    let list = match end {
        Some(end) if names.len() < 2 && path[end..].starts_with('{') => &path[end + 1..],
        _ => return vec![names.join("::")],
    };
    // Only names at the top of a list are modules.
    let rest = next.iter().map(|(_, text)| text.as_str());
    let list = [list].into_iter().chain(rest).collect::<Vec<_>>().join(" ");
    let room = names.pop().unwrap_or_default();
    let in_room = |name: String| match room {
        "" => name,
        room => format!("{room}::{name}"),
    };
    names_at_top(&list).into_iter().map(in_room).collect()
}

/// The names that a list of paths starts with, up to its closing brace.
fn names_at_top(list: &str) -> Vec<String> {
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(first_name(list[start..at].trim()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn first_name(path: &str) -> String {
    path.chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// Lines of a file without comments, from 1.
fn code(file: &Path) -> Vec<(usize, String)> {
    let text = fs::read_to_string(file).unwrap();
    let lines = (1..).zip(text.lines());
    lines
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(at, line)| (at, line.to_owned()))
        .collect()
}

/// Every source file in a room of `src`, and the module that it belongs to.
fn files() -> Vec<(PathBuf, Module)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut files, mut open) = (Vec::new(), vec![root.clone()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let within = path.strip_prefix(&root).unwrap().with_extension("");
            let names: Vec<&str> = within.iter().map(|name| name.to_str().unwrap()).collect();
            if path.extension().is_some_and(|found| found == "rs") && names.len() > 1 {
                files.push((path.clone(), Module::new(&names)));
            }
        }
    }
    files.sort_by(|one, other| one.0.cmp(&other.0));
    files
}

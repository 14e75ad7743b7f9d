//! The formats that are mutated: what is mutated, what lies beside it, and which commands read it.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use super::mutate::{self, below};
use super::onnx;

/// How a file is written.
#[derive(Clone, Copy, PartialEq)]
enum Syntax {
    Json,
    /// A tree of JSON a line.
    JsonLines,
    Toml,
    Text,
    Onnx,
}

/// A format.
pub struct Format {
    /// Its name.
    pub name: &'static str,
    /// The file that is mutated.
    pub file: &'static str,
    /// Files beside it, as they are.
    pub companions: &'static [(&'static str, &'static str)],
    /// Commands that read the file; inputs take turns.
    pub commands: &'static [&'static [&'static str]],
    syntax: Syntax,
    seeds: &'static [&'static str],
}

const NET: &str = include_str!("seeds/net.json");
const CHAIN: &str = include_str!("seeds/chain.json");
const PLAIN: &str = include_str!("seeds/plain.json");
const CLUSTER: &str = include_str!("seeds/cluster.toml");
const CHUNKS: &str = include_str!("seeds/chunks.json");
const MODES: &str = include_str!("seeds/modes.json");
const PLAN: &str = include_str!("seeds/plan.json");
const SEPARATE: &str = include_str!("seeds/plan-separate.json");

const SOLVE: &[&[&str]] = &[
    &[
        "solve", "net.json", "--stages", "2", "--method", "slicing", "--quiet", "--format", "json",
    ],
    &["import", "net.json", "--quiet"],
    &["solve", "net.json", "--method", "lpt", "--quiet"],
    &[
        "solve",
        "net.json",
        "--stages",
        "3",
        "--method",
        "equal-layers",
        "--objective",
        "iteration",
        "--micro-batches",
        "4",
        "--schedule",
        "gpipe",
        "--quiet",
    ],
    &[
        "solve",
        "net.json",
        "--stages",
        "2",
        "--method",
        "duan-wu",
        "--worker",
        "concurrent",
        "--groups",
        "assign",
        "--quiet",
    ],
];

/// Methods that choose degrees and recomputation, and what costs a choice.
const MODAL: &[&[&str]] = &[
    &["solve", "net.json", "--method", "recompute-block", "--quiet"],
    &["import", "net.json", "--quiet"],
    &[
        "solve",
        "net.json",
        "--method",
        "recompute-block",
        "--quiet",
        "--format",
        "json",
    ],
    &["solve", "net.json", "--method", "recompute-none", "--quiet"],
    &["solve", "net.json", "--method", "recompute-all", "--quiet"],
];

const SOLVE_TOML: &[&[&str]] = &[
    &[
        "solve", "net.toml", "--method", "slicing", "--quiet", "--format", "json",
    ],
    &["import", "net.toml", "--quiet"],
    &[
        "solve",
        "net.toml",
        "--stages",
        "2",
        "--cuts",
        "separate",
        "--method",
        "bi-partition",
        "--quiet",
    ],
];

/// The plain commands for a file of another planner.
macro_rules! reads {
    ($file:literal) => {
        &[
            &[
                "solve",
                $file,
                "--stages",
                "2",
                "--method",
                "equal-layers",
                "--quiet",
            ],
            &["import", $file, "--quiet"],
            &["solve", $file, "--stages", "2", "--method", "lpt", "--quiet"],
        ]
    };
}

/// A file that needs no other.
const ALONE: Format = Format {
    name: "",
    file: "",
    companions: &[],
    commands: &[],
    syntax: Syntax::Text,
    seeds: &[],
};

/// Every format.
pub const FORMATS: &[Format] = &[
    Format {
        name: "instance-json",
        file: "net.json",
        commands: SOLVE,
        syntax: Syntax::Json,
        seeds: &[NET, CHAIN, PLAIN],
        ..ALONE
    },
    Format {
        name: "instance-toml",
        file: "net.toml",
        commands: SOLVE_TOML,
        syntax: Syntax::Toml,
        seeds: &[NET, CHAIN, PLAIN],
        ..ALONE
    },
    Format {
        name: "cluster",
        file: "cluster.toml",
        companions: &[("net.json", NET)],
        commands: &[
            &[
                "solve",
                "net.json",
                "--cluster",
                "cluster.toml",
                "--stages",
                "2",
                "--method",
                "lpt",
                "--quiet",
            ],
            &[
                "solve",
                "net.json",
                "--cluster",
                "cluster.toml",
                "--stages",
                "2",
                "--method",
                "duan-wu",
                "--groups",
                "assign",
                "--quiet",
            ],
        ],
        syntax: Syntax::Toml,
        seeds: &[CLUSTER],
    },
    Format {
        name: "plan",
        file: "plan.json",
        companions: &[("net.json", PLAIN)],
        commands: &[
            &["check", "net.json", "plan.json", "--quiet"],
            &["simulate", "plan.json", "--format", "json"],
            &["check", "net.json", "plan.json", "--quiet"],
            &["show", "net.json", "--plan", "plan.json", "--format", "svg"],
            &["check", "net.json", "plan.json", "--quiet"],
            &["export", "net.json", "plan.json", "--to", "json", "--quiet"],
        ],
        syntax: Syntax::Json,
        seeds: &[PLAN, SEPARATE],
    },
    Format {
        name: "stages",
        file: "stages.csv",
        companions: &[("net.json", PLAIN), ("chunks.json", CHUNKS)],
        commands: &[
            &["check", "--evaluate", "chunks.json", "stages.csv", "--quiet"],
            &["check", "--evaluate", "net.json", "stages.csv", "--quiet"],
            &[
                "check",
                "--evaluate",
                "net.json",
                "stages.csv",
                "--cuts",
                "separate",
                "--quiet",
            ],
        ],
        syntax: Syntax::Text,
        seeds: &[
            include_str!("seeds/stages.csv"),
            include_str!("seeds/stages-split.csv"),
        ],
    },
    Format {
        name: "stages-json",
        file: "stages.json",
        companions: &[("chunks.json", CHUNKS), ("modes.json", MODES)],
        commands: &[
            &["check", "--evaluate", "chunks.json", "stages.json", "--quiet"],
            &["check", "--evaluate", "modes.json", "stages.json", "--quiet"],
        ],
        syntax: Syntax::Json,
        seeds: &[
            include_str!("seeds/stages.json"),
            include_str!("seeds/stages-modes.json"),
        ],
    },
    Format {
        name: "order",
        file: "order.csv",
        companions: &[("plan.json", PLAN), ("net.json", PLAIN)],
        commands: &[
            &[
                "schedule",
                "plan.json",
                "--devices",
                "2",
                "--order",
                "order.csv",
                "--weight-share",
                "0.5",
            ],
            &[
                "schedule",
                "plan.json",
                "--devices",
                "1",
                "--order",
                "order.csv",
                "--placement",
                "v",
            ],
            &[
                "export",
                "net.json",
                "plan.json",
                "--to",
                "torch",
                "--order",
                "order.csv",
                "--quiet",
            ],
        ],
        syntax: Syntax::Text,
        seeds: &[
            include_str!("seeds/order.csv"),
            include_str!("seeds/order-v.csv"),
            include_str!("seeds/order-split.csv"),
        ],
    },
    Format {
        name: "chunks",
        file: "net.json",
        commands: &[
            &["solve", "net.json", "--method", "chunk-even", "--quiet"],
            &["import", "net.json", "--quiet"],
            // Its steps take tenths of a second, and those after the first do what the first did.
            &[
                "solve",
                "net.json",
                "--method",
                "chunk-exchange",
                "--time-limit",
                "0.02",
                "--quiet",
            ],
        ],
        syntax: Syntax::Json,
        seeds: &[CHUNKS],
        ..ALONE
    },
    Format {
        name: "modes",
        file: "net.json",
        commands: MODAL,
        syntax: Syntax::Json,
        seeds: &[MODES],
        ..ALONE
    },
    Format {
        name: "modes-cluster",
        file: "cluster.toml",
        companions: &[("net.json", MODES)],
        commands: &[
            &[
                "solve",
                "net.json",
                "--cluster",
                "cluster.toml",
                "--method",
                "recompute-none",
                "--quiet",
            ],
            &[
                "solve",
                "net.json",
                "--cluster",
                "cluster.toml",
                "--method",
                "recompute-all",
                "--quiet",
            ],
        ],
        syntax: Syntax::Toml,
        seeds: &[include_str!("seeds/modes-cluster.toml")],
    },
    Format {
        name: "simulation-trace",
        file: "trace.csv",
        companions: &[("plan.json", PLAN)],
        commands: &[&["simulate", "plan.json", "--trace", "trace.csv"]],
        syntax: Syntax::Text,
        seeds: &[include_str!("seeds/trace.csv")],
    },
    Format {
        name: "scenario",
        file: "scenario.toml",
        companions: ONLINE,
        commands: &[&["online", "scenario.toml", "--slots", "2", "--quiet"]],
        syntax: Syntax::Toml,
        seeds: &[SCENARIO, include_str!("seeds/groups.toml")],
    },
    Format {
        name: "states",
        file: "states.csv",
        companions: ONLINE,
        commands: &[&[
            "online",
            "scenario.toml",
            "--slots",
            "3",
            "--policies",
            "tentative,myopic",
            "--quiet",
        ]],
        syntax: Syntax::Text,
        seeds: &[STATES],
    },
    Format {
        name: "study",
        file: "study.toml",
        companions: &[("net.json", NET), ("cluster.toml", CLUSTER)],
        commands: &[&["study", "tasks", "study.toml"]],
        syntax: Syntax::Toml,
        seeds: &[include_str!("seeds/study.json")],
    },
    Format {
        name: "run-lines",
        file: "run.jsonl",
        companions: ONLINE,
        commands: &[&[
            "online",
            "scenario.toml",
            "--slots",
            "3",
            "--policies",
            "tentative,myopic",
            "--output",
            "run.jsonl",
            "--resume",
            "--quiet",
        ]],
        syntax: Syntax::JsonLines,
        seeds: &[include_str!("seeds/run.jsonl")],
    },
    Format {
        name: "study-rows",
        file: "rows.jsonl",
        companions: &[("old.jsonl", ROWS)],
        commands: &[
            &["study", "report", "rows.jsonl"],
            &["study", "diff", "old.jsonl", "rows.jsonl"],
            &["study", "collect", "rows.jsonl", "old.jsonl", "--format", "csv"],
        ],
        syntax: Syntax::JsonLines,
        seeds: &[ROWS],
    },
    Format {
        name: "onnx",
        file: "net.onnx",
        commands: reads!("net.onnx"),
        syntax: Syntax::Onnx,
        seeds: &[],
        ..ALONE
    },
    Format {
        name: "dnn-partitioning",
        file: "net.json",
        commands: reads!("net.json"),
        syntax: Syntax::Json,
        seeds: &[include_str!("seeds/dnn-partitioning.json")],
        ..ALONE
    },
    Format {
        name: "piper",
        file: "net.json",
        commands: &[
            &[
                "solve",
                "net.json",
                "--stages",
                "2",
                "--method",
                "equal-layers",
                "--quiet",
            ],
            &[
                "solve", "net.json", "--stages", "2", "--method", "duan-wu", "--groups", "assign", "--quiet",
            ],
            &["import", "net.json", "--quiet"],
        ],
        syntax: Syntax::Json,
        seeds: &[include_str!("seeds/piper.json")],
        ..ALONE
    },
    Format {
        name: "sailor",
        file: "net.json",
        commands: reads!("net.json"),
        syntax: Syntax::Json,
        seeds: &[include_str!("seeds/sailor.json")],
        ..ALONE
    },
    Format {
        name: "galvatron",
        file: "computation_profiling_net.json",
        companions: &[(
            "memory_profiling_net.json",
            include_str!("seeds/galvatron-memory.json"),
        )],
        commands: reads!("computation_profiling_net.json"),
        syntax: Syntax::Json,
        seeds: &[include_str!("seeds/galvatron.json")],
    },
    Format {
        name: "galvatron-memory",
        file: "memory_profiling_net.json",
        companions: &[(
            "computation_profiling_net.json",
            include_str!("seeds/galvatron.json"),
        )],
        commands: reads!("computation_profiling_net.json"),
        syntax: Syntax::Json,
        seeds: &[include_str!("seeds/galvatron-memory.json")],
    },
    Format {
        name: "torch-trace",
        file: "net.json",
        commands: reads!("net.json"),
        syntax: Syntax::Json,
        seeds: &[
            include_str!("seeds/trace.json"),
            include_str!("seeds/torch-trace.json"),
        ],
        ..ALONE
    },
    Format {
        name: "deepspeed-flops",
        file: "profile.txt",
        commands: reads!("profile.txt"),
        syntax: Syntax::Text,
        seeds: &[include_str!("seeds/deepspeed.txt")],
        ..ALONE
    },
    Format {
        name: "nsight",
        file: "ranges.csv",
        commands: reads!("ranges.csv"),
        syntax: Syntax::Text,
        seeds: &[include_str!("seeds/nsight.csv")],
        ..ALONE
    },
    Format {
        name: "vidur",
        file: "mlp.csv",
        commands: reads!("mlp.csv"),
        syntax: Syntax::Text,
        seeds: &[include_str!("seeds/vidur.csv")],
        ..ALONE
    },
    Format {
        name: "aiconfigurator",
        file: "gemm_perf.txt",
        commands: reads!("gemm_perf.txt"),
        syntax: Syntax::Text,
        seeds: &[include_str!("seeds/aiconfigurator.csv")],
        ..ALONE
    },
    Format {
        name: "measured",
        file: "measured.csv",
        companions: &[
            ("net.toml", include_str!("seeds/calibrated.toml")),
            ("stages.csv", "layer,stage\na,1\nb,1\nc,2\nd,2\n"),
        ],
        commands: &[&[
            "calibrate",
            "net.toml",
            "--measured",
            "measured.csv",
            "--micro-batches",
            "4",
            "--quiet",
        ]],
        syntax: Syntax::Text,
        seeds: &[
            include_str!("seeds/measured-layers.csv"),
            include_str!("seeds/measured-transfers.csv"),
            include_str!("seeds/measured-runs.csv"),
        ],
    },
    Format {
        name: "pipedream",
        file: "graph.txt",
        commands: reads!("graph.txt"),
        syntax: Syntax::Text,
        seeds: &[include_str!("seeds/graph.txt")],
        ..ALONE
    },
    Format {
        name: "moirai",
        file: "table.csv",
        commands: reads!("table.csv"),
        syntax: Syntax::Text,
        seeds: &[include_str!("seeds/table.csv")],
        ..ALONE
    },
    Format {
        name: "cost-graph",
        file: "graph.pbtxt",
        commands: reads!("graph.pbtxt"),
        syntax: Syntax::Text,
        seeds: &[include_str!("seeds/graph.pbtxt")],
        ..ALONE
    },
    Format {
        name: "assembly-line",
        file: "line.IN2",
        commands: reads!("line.IN2"),
        syntax: Syntax::Text,
        seeds: &[include_str!("seeds/line.IN2")],
        ..ALONE
    },
    Format {
        name: "assembly-line-workers",
        file: "workers",
        commands: &[
            &["solve", "workers", "--method", "duan-wu", "--quiet"],
            &["import", "workers", "--quiet"],
        ],
        syntax: Syntax::Text,
        seeds: &[include_str!("seeds/workers")],
        ..ALONE
    },
    Format {
        name: "hugging-face",
        file: "config.json",
        commands: &[
            &["import", "config.json", "--quiet"],
            &["import", "config.json", "--summary", "--quiet"],
            &[
                "import",
                "config.json",
                "--sequence",
                "16",
                "--granularity",
                "operator",
                "--quiet",
            ],
        ],
        syntax: Syntax::Json,
        seeds: &[
            include_str!("seeds/config-experts.json"),
            include_str!("seeds/config-pattern.json"),
            include_str!("seeds/config-vision.json"),
        ],
        ..ALONE
    },
    Format {
        name: "csv",
        file: "net.csv",
        companions: &[("net.edges.csv", EDGES)],
        commands: reads!("net.csv"),
        syntax: Syntax::Text,
        seeds: &[LAYERS],
    },
    Format {
        name: "csv-edges",
        file: "net.edges.csv",
        companions: &[("net.csv", LAYERS)],
        commands: reads!("net.csv"),
        syntax: Syntax::Text,
        seeds: &[EDGES],
    },
];

const SCENARIO: &str = include_str!("seeds/scenario.toml");
const STATES: &str = include_str!("seeds/states.csv");
/// What a run of a scenario needs; the file that is mutated takes the place of its own.
const ONLINE: &[(&str, &str)] = &[
    ("net.json", CHAIN),
    ("cluster.toml", CLUSTER),
    ("states.csv", STATES),
    ("scenario.toml", SCENARIO),
];

const ROWS: &str = include_str!("seeds/rows.jsonl");
const LAYERS: &str = include_str!("seeds/net.csv");
const EDGES: &str = include_str!("seeds/net.edges.csv");

/// Models that are changed; others are made at random.
const MODELS: &[&[u8]] = &[
    include_bytes!("../../instances/alexnet.onnx"),
    include_bytes!("../../instances/zfnet.onnx"),
];

/// The format of that name.
pub fn find(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

impl Format {
    /// The input of that number: the same whenever and wherever it is asked.
    pub fn input(&self, number: u64) -> Vec<u8> {
        let mut rng = ChaCha8Rng::seed_from_u64(number);
        let rng = &mut rng;
        if self.syntax == Syntax::Onnx {
            let seed = MODELS[below(rng, MODELS.len())];
            return match below(rng, 8) {
                0 => onnx::changed(rng, seed),
                _ => onnx::model(rng),
            };
        }
        let seed = self.seeds[below(rng, self.seeds.len())];
        if self.syntax == Syntax::JsonLines && below(rng, 4) > 0 {
            let mut lines: Vec<String> = seed.lines().map(str::to_owned).collect();
            let at = below(rng, lines.len());
            lines[at] = mutate::tree(rng, &tree(&lines[at]).unwrap_or_default()).to_string();
            return lines.join("\n").into_bytes();
        }
        let tree = match self.syntax {
            Syntax::Text | Syntax::JsonLines | Syntax::Onnx => None,
            Syntax::Json | Syntax::Toml => tree(seed),
        };
        let Some(tree) = tree else {
            return mutate::text(rng, seed);
        };
        // Most changes keep the syntax, which readers refuse early.
        let (tree, is_text) = match below(rng, 5) {
            0 => (tree, true),
            _ => (mutate::tree(rng, &tree), false),
        };
        let written = match self.syntax {
            // Some trees, such as lists of mixed types, have no TOML.
            Syntax::Toml => toml::to_string(&tree).unwrap_or_else(|_| seed.to_owned()),
            _ => tree.to_string(),
        };
        match is_text {
            true => mutate::text(rng, &written),
            false => written.into_bytes(),
        }
    }
}

/// A seed as a tree, whichever of both syntaxes it has.
fn tree(seed: &str) -> Option<Value> {
    serde_json::from_str(seed)
        .ok()
        .or_else(|| toml::from_str(seed).ok())
}

//! stagecut finds provably optimal pipeline plans for deep neural networks, and measures how far published heuristics are
//! from them.
//!
//! A network is a directed acyclic graph of layers and tensors. A plan cuts it into stages, each run by a device of its own,
//! such that data flow from stage to stage; the best plan has the smallest busiest stage ([`options::Objective::Period`])
//! or the shortest iteration ([`options::Objective::Iteration`]). That is a mixed-integer program, and this crate proves
//! its answers.
//!
//! # Build, solve, read
//!
//! ```
//! use stagecut::{Instance, Options, PipelineOptions, Status};
//!
//! // Times in ms, sizes in bytes, a bandwidth in bytes per second; all faults come in one error.
//! let instance = Instance::builder("three layers")
//!     .layer("conv1", 3.0, 6.0)
//!     .layer("conv2", 1.0, 2.0)
//!     .layer("dense", 2.0, 4.0)
//!     .tensor("conv1", ["conv2"], 8e6)
//!     .tensor("conv2", ["dense"], 2e6)
//!     .devices("gpu", 4, 16e9)
//!     .link(100e9, 0.0)
//!     .build()?;
//!
//! let pipeline = PipelineOptions { stages: Some(2), ..Default::default() };
//! let options = Options { pipeline, ..Options::default() };
//! let plan = stagecut::solve(&instance, &options)?;
//!
//! assert_eq!(plan.status, Status::Optimal);
//! for stage in &plan.stages {
//!     println!("{:?}: {} in {} ms", stage.devices, stage.forward.join(", "), stage.load_ms);
//! }
//! # Ok::<(), stagecut::Error>(())
//! ```
//!
//! | to | call |
//! |---|---|
//! | build an instance | [`Instance::builder`], or [`Instance::read`] for a file: native TOML and JSON, ONNX, published profiles |
//! | say what is asked | [`Options`], with the problem in [`PipelineOptions`] and a [`Method`] |
//! | find a plan | [`fn@solve`], or [`fn@compare`] for those of all methods; every plan has passed the checker |
//! | look at a search, or end it | [`solve_watched`], with a [`Watch`] |
//! | read a plan | [`plan`]; from a file [`plan::read`] |
//! | check a plan of whatever origin | [`fn@check`] |
//! | cost stages that somebody else chose | [`fn@evaluate`], from [`plan::bare`] |
//! | give the program to another solver | [`fn@formulate`], as LP or MPS |
//! | run a plan event by event | [`simulate::simulate`] |
//! | write it for a framework | [`export`] |
//!
//! # Features
//!
//! `cli` (on by default) is the program `stagecut`: commands, studies, reports and what they depend on. `onnx` (on by default) reads
//! ONNX models. A library that plans networks of its own needs neither.
//!
//! # What is promised
//!
//! The items of this page and of its modules. Modules that the documentation hides are the inside of the crate, public for its own
//! program and tests: they change without notice. The rest of this page is the map of that inside.
//!
//! # From a file to a proved plan
//!
//! ```text
//! file --import--> InstanceSpec --instance--> Instance --settings--> Settings --problem--> Problem
//!                  (what it says)             (validated)            (all decided)         (items, order, transfers)
//!
//! Problem --heuristics--> incumbents --exact--> Outcome --plan--> Plan --check--> accepted --report--> text, JSON, SVG
//! ```
//!
//! | to change or add | look in |
//! |---|---|
//! | what a program that uses the library calls | [`planning`]; its items stand in the root |
//! | an instance that is built in code | [`instance`], `builder` |
//! | a file format | [`import`]: one file and one row of [`import::FORMATS`] |
//! | what a file may say | [`spec`]; `make schema` writes its JSON Schema |
//! | what an input may get wrong | [`fault`] |
//! | units that people write | `quantity` |
//! | names that a spreadsheet would run | `csv_text` |
//! | lines that say whether they are whole | `sealed` |
//! | an option | [`options`] (instance file and command line at once), then [`settings`] (its default) |
//! | a schedule, an objective, a communication mode | [`schedule`], [`objective`], [`communication`]: see below |
//! | how work becomes time, and which bytes an operator moves | `roofline` |
//! | what a plan costs | [`cost`], and on its own path [`mod@check`] |
//! | stages that say no more than their layers | [`plan::bare`] (their files), [`mod@evaluate`] (their cost) |
//! | which devices may form a worker | [`workers`] |
//! | devices of several chunks | [`virtual_stages`], and the files of that name: costs, program, search, checker |
//! | what lies between the passes of a layer | [`settings`] (counts), [`plan::split`] (layers whose passes lie apart) |
//! | a constraint family | [`formulations`]: its label on the page and its row prefix are one name |
//! | a bound, a reduction | [`exact`], and its name in [`switches`] |
//! | HiGHS: options, limits, what its answers mean | [`solver`] |
//! | what is said where there is no plan | `least_memory`, `remedies`; reasons that options alone give: [`settings`] |
//! | how the optimum changes with bandwidth, memory, stages or devices | [`what_if`] |
//! | a heuristic | [`heuristics`]: one file and one row of [`heuristics::METHODS`] |
//! | how a plan runs: schedules, traces, jitter | [`simulate`], on the lanes and orders of `pipeline` |
//! | the best order of operations, proved | [`best_schedule`] |
//! | cut and order chosen together | [`joint`] |
//! | a published order of operations: interleaved, zero bubble, V | [`schedule::rules`]: one file and one row of [`schedule::rules::RULES`] |
//! | an order of somebody else | [`schedules::read_order`] reads it, [`export::Ordered`] holds it against a plan |
//! | data and model parallelism of one slot | [`hybrid`] |
//! | the same over time: scenarios, policies, yardsticks | [`online`] |
//! | a report | `report`; the page of a plan in its `page`, script and style as files beside it |
//! | a framework that runs plans | [`export`]: one file and one row of [`export::TARGETS`] |
//! | studies of many instances and methods | `study`; commands of somebody else as methods in its `outside`, and what ends them |
//! | what may be read, and how much of it | `intake`; `whole` writes |
//! | time limits and interrupts | [`control`] (asked in every loop), `in_time` (where nobody asks) |
//! | a command | `cli` |
//! | what the Python package calls | `embedded`: commands as functions of documents; the package itself is in `python/` |
//! | how a copy of the program is started | [`program`] |
//!
//! # Four changes
//!
//! Each is one file, and what the compiler and the tests then point at.
//!
//! * **A schedule**: a variant of [`schedule::Schedule`] with its name. The matches of that file ask for its micro-batches in
//!   flight, weight versions, flush, bottlenecks and workers; then [`mod@check`] asks for the same on its own path.
//! * **An objective**: a variant of [`objective::Objective`] with its [`objective::Formula`]: what counts once, and how often
//!   which bottlenecks count. Bounds, programs and dynamic programs ask the formula; [`mod@check`] and [`report`] ask for the
//!   variant. An objective that has no such formula is another problem, as iterations are that are simulated: `exact::iteration`.
//! * **A communication mode**: a variant of [`communication::Communication`]. The matches of that file ask what it keeps busy,
//!   [`cost::StageCost::add_transfer`] what a transfer adds to a stage and [`cost::allocation`] what a ring adds, [`exact`]
//!   what it costs to cross a boundary, and [`mod@check`] all of it on its own path.
//! * **A constraint family**: a function of [`formulations`] with its page, called by the programs that have it and named in the first
//!   table of `formulations/partition.md`. `tests/formulations.rs` fails until code, pages, their index and the size of the program agree.
//!   Dynamic programs do not know it: the steps of [`exact`] leave them out in one place for homogeneous workers and one for others.
//!
//! All but the last change what files may say: `make schema` writes that down, and the snapshots of `--help` show it.
//!
//! # Invariants
//!
//! * Dependencies point one way. `tests/layers.rs` states the order of the modules and holds it, and that [`mod@check`],
//!   [`export`], [`hybrid`], [`import`] and [`instance`] see still less than their place allows.
//! * [`mod@check`] sees neither the solver nor [`cost`]: it recomputes a plan from layers and tensors alone. Every plan that
//!   [`solve`] and the commands return has passed it. Of [`simulate`] it takes how many micro-batches hide overlapped transfers, and
//!   the time of iterations.
//! * good_lp and highs are named in [`formulations`] and [`solver`] alone (`tests/layers.rs`). `unsafe` is in one file, HiGHS's C
//!   interface; everywhere else the compiler denies it.
//! * Times are whole nanoseconds inside, or parts of one where micro-batches share out what happens once an iteration
//!   ([`settings::Settings::ticks_per_ns`]); milliseconds outside ([`units`]). A validated network's totals are exact in a double; what a
//!   problem adds up is looked at before it is added up, in one place (`settings::totals`).
//! * Layers are known by their position in the network, items by their position in the problem. Positions never change.
//! * Why a search stopped and what it found are two facts ([`plan::StoppedBy`], [`plan::Status`]); `optimal` means that the
//!   objective, computed again, meets the bound.
//! * Costs belong to tensors, not to edges.

#[doc(hidden)]
pub mod best_schedule;
pub mod bound_source;
#[doc(hidden)]
pub mod check;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
pub mod cluster;
pub mod communication;
#[doc(hidden)]
pub mod control;
#[doc(hidden)]
pub mod cost;
mod csv_text;
pub mod degrees;
#[doc(hidden)]
pub mod device_levels;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod embedded;
mod error;
pub mod evaluate;
#[doc(hidden)]
pub mod exact;
pub mod export;
pub mod fault;
mod formulate;
#[doc(hidden)]
pub mod formulations;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod generate;
#[doc(hidden)]
pub mod heuristics;
#[doc(hidden)]
pub mod hybrid;
#[doc(hidden)]
pub mod ideals;
#[doc(hidden)]
pub mod import;
mod in_time;
pub mod instance;
mod intake;
#[doc(hidden)]
pub mod joint;
#[doc(hidden)]
pub mod labels;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod least_memory;
mod memory;
pub mod methods;
#[doc(hidden)]
pub mod modes;
mod named_values;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod narrower;
pub mod network;
pub mod objective;
#[doc(hidden)]
pub mod online;
pub mod options;
mod passes;
#[doc(hidden)]
pub mod pipeline;
pub mod plan;
#[doc(hidden)]
pub mod planning;
mod precision;
#[doc(hidden)]
pub mod problem;
#[doc(hidden)]
pub mod program;
mod quantity;
mod read;
pub mod recompute;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod remedies;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod report;
mod roofline;
pub mod schedule;
#[doc(hidden)]
pub mod schedules;
#[cfg(feature = "cli")]
mod sealed;
#[doc(hidden)]
pub mod settings;
#[doc(hidden)]
pub mod shares;
pub mod simulate;
#[doc(hidden)]
pub mod solver;
#[doc(hidden)]
pub mod source;
pub mod spec;
mod states;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod study;
#[doc(hidden)]
pub mod switches;
mod tied_cuts;
#[doc(hidden)]
pub mod units;
#[doc(hidden)]
pub mod virtual_stages;
pub mod what_if;
mod whole;
#[doc(hidden)]
pub mod workers;

pub use crate::check::Violation;
pub use crate::cluster::Cluster;
pub use crate::fault::InputError;
pub use crate::formulate::Formulated;
pub use crate::instance::{Instance, InstanceBuilder};
pub use crate::methods::Method;
pub use crate::network::Network;
pub use crate::options::PipelineOptions;
pub use crate::plan::{Plan, Status};
pub use crate::planning::{
    Error, Options, Progress, Watch, bound, check, compare, evaluate, formulate, solve, solve_watched,
};
pub use crate::precision::Precision;
pub use crate::solver::SolverError;

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
//! | follow the optimum over a range | [`fn@what_if`], with a [`what_if::Question`] |
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
//! # The rooms
//!
//! A folder of `src` each, in this order: a room uses the rooms before it. `tests/house/layers.rs` holds the order, and how large each may be.
//!
//! | room | holds |
//! |---|---|
//! | `model` | what may be asked and said: networks, clusters, instances, options, settings, schedules with their rules, faults |
//! | `input` | from files and to them: formats, generated networks, how much is read, the isolated child, files written whole |
//! | [`problem`] | what is cut, what a plan costs, and what it is; how pipelines run, since iterations are a cost; what ends a search |
//! | [`schedule`] | orders as data, what becomes of one that is run, and the simulator |
//! | [`formulations`] | the mathematics as programs, and HiGHS behind its [`solver`] |
//! | [`mod@check`] | what accepts a plan |
//! | [`export`] | frameworks that run plans |
//! | `search` | what heuristics and exact methods share: ideals, labels, levels of sets of tasks, the search over limits |
//! | [`heuristics`] | one file each |
//! | [`exact`] | the exact methods, among them the best order of operations and cut and order together |
//! | [`online`] | the same over time |
//! | `solve` | the one path from options to a checked plan, and what is asked around it |
//! | `app` | command line, studies, reports, and what the Python package calls |
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
//! | a kind of published model | [`import::config`]: a row of its table, and `input::transformer` where it computes what no other does |
//! | what a file may say | [`spec`]; `make schema` writes its JSON Schema |
//! | what an input may get wrong | [`fault`] |
//! | units that people write | `model::quantity` |
//! | names that a spreadsheet would run | `input::csv_text` |
//! | lines that say whether they are whole | `input::sealed` |
//! | an option | [`options`] (instance file and command line at once), then [`settings`] (its default), and its name in `model::setting` |
//! | what is said of options | `model::words`: by their field, in pieces; `app::flags` writes these for the command line |
//! | a schedule, an objective, a communication mode | [`schedule`], [`objective`], [`communication`]: see below |
//! | how work becomes time, and which bytes an operator moves | `model::roofline` |
//! | what a plan costs | [`cost`], and on its own path [`mod@check`] |
//! | stages that say no more than their layers | [`plan::bare`] (their files), [`mod@evaluate`] (their cost) |
//! | which devices may form a worker | [`workers`] |
//! | devices of several chunks | [`virtual_stages`], and the files of that name: costs, program, search, checker |
//! | what lies between the passes of a layer | [`settings`] (counts), [`plan::split`] (layers whose passes lie apart) |
//! | a constraint family | [`formulations`]: its label on the page and its row prefix are one name |
//! | a bound, a reduction | [`exact`], and its name in [`switches`] |
//! | HiGHS: options, limits, what its answers mean | [`solver`] |
//! | the size of micro-batches, and what choices are worth | `solve::global_batch`, on the screen `report::global_batch` |
//! | what is said where there is no plan | `solve::least_memory`, `solve::remedies`; reasons that options alone give: [`settings`] |
//! | what a framework's region costs against plans of any | `solve::unrestricted` |
//! | how the optimum changes with bandwidth, memory, stages, devices or tokens | [`mod@what_if`] |
//! | a heuristic | [`heuristics`]: one file and one row of [`heuristics::METHODS`] |
//! | how a plan runs: schedules, traces, jitter | [`simulate`], on the lanes and orders of [`pipeline`] |
//! | the best order of operations, proved | [`best_schedule`] |
//! | cut and order chosen together | [`joint`] |
//! | a published order of operations: interleaved, zero bubble, V | [`schedule::rules`]: one file and one row of [`schedule::rules::RULES`] |
//! | an order of somebody else | [`schedule::read_order`] reads it, [`export::Ordered`] holds it against a plan |
//! | data and model parallelism of one slot | [`hybrid`] |
//! | the same over time: scenarios, policies, yardsticks | [`online`] |
//! | machines that serve together: files, placements, their flow | [`problem::placement`], `exact::placement`, `check::placement` |
//! | a report | `report`; the page of a plan in its `page`, script and style as files beside it |
//! | a framework that runs plans | [`export`]: one file and one row of [`export::TARGETS`] |
//! | studies of many instances and methods | `study`; commands of somebody else as methods in its `outside`, and what ends them |
//! | what may be read, and how much of it | `input::intake`; `input::whole` writes |
//! | time limits and interrupts | [`control`] (asked in every loop), `search::in_time` (where nobody asks) |
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
//!   table of `formulations/partition.md`. `tests/house/formulations.rs` fails until code, pages, their index and the size of the program agree.
//!   Dynamic programs do not know it: the steps of [`exact`] leave them out in one place for homogeneous workers and one for others.
//!
//! All but the last change what files may say: `make schema` writes that down, and the snapshots of `--help` show it.
//!
//! # Invariants
//!
//! * Dependencies point one way. `tests/house/layers.rs` states the order of the rooms and, within them, of the modules, and holds it, and that
//!   [`mod@check`], [`export`], [`hybrid`] and [`import`] see still less than their place allows.
//! * [`mod@check`] sees neither the solver nor [`cost`]: it recomputes a plan from layers and tensors alone. Every plan that
//!   [`solve`] and the commands return has passed it. Of [`simulate`] it takes how many micro-batches hide overlapped transfers, and
//!   the time of iterations.
//! * good_lp and highs are named in [`formulations`] alone (`tests/house/layers.rs`). `unsafe` is in one file, HiGHS's C
//!   interface; everywhere else the compiler denies it.
//! * Times are whole nanoseconds inside, or parts of one where micro-batches share out what happens once an iteration
//!   ([`settings::Settings::ticks_per_ns`]); milliseconds outside ([`units`]). A validated network's totals are exact in a double; what a
//!   problem adds up is looked at before it is added up, in one place (`settings::totals`).
//! * Layers are known by their position in the network, items by their position in the problem. Positions never change.
//! * Why a search stopped and what it found are two facts ([`plan::StoppedBy`], [`plan::Status`]); `optimal` means that the
//!   objective, computed again, meets the bound.
//! * Costs belong to tensors, not to edges.

#[cfg(feature = "cli")]
mod app;
#[doc(hidden)]
pub mod check;
#[doc(hidden)]
pub mod exact;
pub mod export;
#[doc(hidden)]
pub mod formulations;
#[doc(hidden)]
pub mod heuristics;
mod input;
mod model;
#[doc(hidden)]
pub mod online;
#[doc(hidden)]
pub mod problem;
#[doc(hidden)]
pub mod schedule;
mod search;
mod solve;

#[cfg(feature = "cli")]
#[doc(hidden)]
pub use crate::app::{cli, embedded, report, study};
#[doc(hidden)]
pub use crate::exact::{best_schedule, joint};
#[doc(hidden)]
pub use crate::formulations::solver;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use crate::input::generate;
#[doc(hidden)]
pub use crate::input::{import, program, source};
pub use crate::model::{cluster, fault, network, options, spec};
#[doc(hidden)]
pub use crate::model::{communication, degrees, instance, objective, recompute, settings, units};
pub use crate::problem::plan;
#[doc(hidden)]
pub use crate::problem::{
    bound_source, control, cost, hybrid, modes, pipeline, placement, shares, switches, virtual_stages,
    workers,
};
pub use crate::schedule::simulate;
#[doc(hidden)]
pub use crate::search::{device_levels, ideals, labels, limits};
#[doc(hidden)]
pub use crate::solve::{evaluate, planning, posed};
#[cfg(feature = "cli")]
#[doc(hidden)]
pub use crate::solve::{least_memory, narrower, remedies};
pub use crate::solve::{methods, what_if};

pub use crate::check::Violation;
pub use crate::cluster::Cluster;
pub use crate::fault::InputError;
pub use crate::instance::{Instance, InstanceBuilder};
pub use crate::methods::Method;
pub use crate::model::efficiency::Efficiency;
pub use crate::model::precision::Precision;
pub use crate::network::Network;
pub use crate::options::PipelineOptions;
pub use crate::plan::{Plan, Status};
pub use crate::planning::{
    Error, Options, Progress, Watch, bound, check, compare, evaluate, formulate, solve, solve_watched,
    what_if,
};
pub use crate::solve::evaluate::Evaluation;
pub use crate::solve::formulate::Formulated;
pub use crate::solver::SolverError;

//! The native half of the Python package `stagecut`: its functions take and give documents in JSON, and `python/stagecut` makes
//! objects of them. What they do is [`stagecut::embedded`].
//!
//! Searches run without the GIL on a thread of their own, while the caller's thread hands on what they tell and looks for signals.

mod network;
mod study;
mod watch;

use std::path::PathBuf;
use std::time::Instant;

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use stagecut::embedded::{self, Failure};
use stagecut::{Options, Watch};

use network::Network;
use watch::{Told, Watched, watched, watched_by};

pyo3::create_exception!(
    _stagecut,
    Error,
    PyException,
    "Why there is no answer: one argument, a document in JSON."
);

/// What is wrong, as the exception that the package turns into one of its own.
fn error(failure: Failure) -> PyErr {
    // Its fields are texts and lists, which JSON can say.
    Error::new_err(serde_json::to_string(&failure).unwrap_or(failure.message))
}

fn options(text: &str) -> PyResult<Options> {
    embedded::options(text).map_err(error)
}

/// Runs a search of a network under options.
fn searched(
    py: Python<'_>,
    (network, asked): (&Network, &str),
    progress: Option<&Bound<'_, PyAny>>,
    search: impl FnOnce(&stagecut::Instance, &Options, Watch) -> Result<String, Failure> + Send,
) -> PyResult<Watched> {
    let options = options(asked)?;
    let instance = network.instance();
    watched(py, progress, |watch| {
        search(instance, &options, watch).map_err(Box::new)
    })
}

#[pyfunction]
fn solve(
    py: Python<'_>,
    network: &Network,
    asked: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Watched> {
    searched(py, (network, asked), progress, embedded::solve)
}

#[pyfunction]
fn confirm(
    py: Python<'_>,
    network: &Network,
    asked: &str,
    plan: String,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Watched> {
    searched(py, (network, asked), progress, |instance, options, watch| {
        embedded::confirm(instance, options, &plan, watch)
    })
}

#[pyfunction]
fn what_if(
    py: Python<'_>,
    network: &Network,
    asked: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Watched> {
    let instance = network.instance();
    watched_by(py, progress, |interrupt, told| {
        let show = |text| told(Told::InJson(text));
        embedded::what_if(instance, asked, interrupt, &show).map_err(Box::new)
    })
}

#[pyfunction]
fn plan(
    py: Python<'_>,
    path: PathBuf,
    asked: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Watched> {
    watched_by(py, progress, |interrupt, told| {
        let show = |text| told(Told::InJson(text));
        embedded::plan(&path, asked, interrupt, &show).map_err(Box::new)
    })
}

#[pyfunction]
fn bound(
    py: Python<'_>,
    network: &Network,
    asked: &str,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Watched> {
    searched(py, (network, asked), progress, embedded::bound)
}

#[pyfunction]
fn compare(
    py: Python<'_>,
    network: &Network,
    asked: &str,
    methods: (Option<Vec<String>>, String),
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Watched> {
    searched(py, (network, asked), progress, |instance, options, watch| {
        let (methods, others) = (methods.0.as_deref(), methods.1.as_str());
        embedded::compare(instance, options, (methods, others), watch)
    })
}

#[pyfunction]
fn evaluate(
    py: Python<'_>,
    network: &Network,
    asked: &str,
    stages: (String, bool),
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Watched> {
    searched(py, (network, asked), progress, |instance, options, watch| {
        embedded::evaluate(instance, options, (&stages.0, stages.1), watch)
    })
}

#[pyfunction]
fn check(py: Python<'_>, network: &Network, asked: Option<&str>, plan: &str) -> PyResult<String> {
    let options = asked.map(options).transpose()?;
    py.detach(|| embedded::check(network.whole(), options.as_ref(), plan))
        .map_err(error)
}

#[pyfunction]
fn question(network: &Network, asked: &str, method: &str) -> PyResult<String> {
    embedded::question(network.instance(), &options(asked)?, method).map_err(error)
}

#[pyfunction]
fn simulate(py: Python<'_>, plan: &str, asked: &str) -> PyResult<String> {
    py.detach(|| embedded::simulate(plan, asked)).map_err(error)
}

#[pyfunction]
fn timeline(py: Python<'_>, plan: &str, asked: &str) -> PyResult<String> {
    py.detach(|| embedded::timeline(plan, asked)).map_err(error)
}

#[pyfunction]
fn show(py: Python<'_>, network: &Network, plan: Option<&str>, format: &str) -> PyResult<String> {
    py.detach(|| embedded::show(network.whole(), plan, format))
        .map_err(error)
}

#[pyfunction]
#[pyo3(signature = (network, plan, target, order=None))]
fn export(
    py: Python<'_>,
    network: &Network,
    plan: &str,
    target: &str,
    order: Option<PathBuf>,
) -> PyResult<String> {
    py.detach(|| embedded::export(network.whole(), plan, target, order.as_deref()))
        .map_err(error)
}

#[pyfunction]
fn formulate(py: Python<'_>, network: &Network, asked: &str, path: PathBuf) -> PyResult<String> {
    let options = options(asked)?;
    py.detach(|| embedded::formulate(network.instance(), &options, &path))
        .map_err(error)
}

/// Seconds that the library's own call takes: what `benches/python` holds the package against.
#[pyfunction]
fn seconds_of_library(py: Python<'_>, network: &Network, asked: &str) -> PyResult<f64> {
    let options = options(asked)?;
    let started = Instant::now();
    let solved = py.detach(|| stagecut::solve(network.instance(), &options));
    let seconds = started.elapsed().as_secs_f64();
    solved.map(|_| seconds).map_err(|failure| error(failure.into()))
}

/// Every keyword with its JSON Schema.
#[pyfunction]
fn names() -> String {
    embedded::names()
}

/// A study in JSON as TOML.
#[pyfunction]
fn toml_of(text: &str) -> PyResult<String> {
    embedded::toml_of(text).map_err(error)
}

/// Runs the command line and returns its exit code.
#[pyfunction]
fn program(py: Python<'_>, arguments: Vec<String>) -> u8 {
    py.detach(|| embedded::program(arguments))
}

/// Says with which words another copy of `stagecut` is started.
#[pyfunction]
fn started_by(words: Vec<String>) {
    stagecut::program::is(words.into_iter().map(Into::into).collect());
}

#[pymodule]
fn _stagecut(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<Network>()?;
    module.add_class::<study::Study>()?;
    module.add_class::<watch::Progress>()?;
    let functions = [
        wrap_pyfunction!(solve, module)?,
        wrap_pyfunction!(confirm, module)?,
        wrap_pyfunction!(what_if, module)?,
        wrap_pyfunction!(plan, module)?,
        wrap_pyfunction!(bound, module)?,
        wrap_pyfunction!(compare, module)?,
        wrap_pyfunction!(evaluate, module)?,
        wrap_pyfunction!(check, module)?,
        wrap_pyfunction!(question, module)?,
        wrap_pyfunction!(simulate, module)?,
        wrap_pyfunction!(timeline, module)?,
        wrap_pyfunction!(show, module)?,
        wrap_pyfunction!(export, module)?,
        wrap_pyfunction!(formulate, module)?,
        wrap_pyfunction!(seconds_of_library, module)?,
        wrap_pyfunction!(names, module)?,
        wrap_pyfunction!(toml_of, module)?,
        wrap_pyfunction!(program, module)?,
        wrap_pyfunction!(started_by, module)?,
    ];
    functions
        .into_iter()
        .try_for_each(|function| module.add_function(function))
}

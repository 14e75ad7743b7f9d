//! Searches on a thread of their own, and the caller's thread that watches them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use stagecut::Watch;
use stagecut::embedded::Failure;

use crate::error;

/// How often signals are looked for: nobody notices that Ctrl-C waits so long.
const LOOK: Duration = Duration::from_millis(20);

/// Stack of the thread: what a process has by default.
const STACK_BYTES: usize = 8 << 20;

/// What a search gives back: the answer, and the exception that ended it early, if one did.
pub(crate) type Watched = (String, Option<Py<PyAny>>);

/// The answer of a search, on its thread.
pub(crate) type Answer = Result<String, Box<Failure>>;

/// How far a search has come.
#[pyclass(frozen, get_all, module = "stagecut")]
pub struct Progress {
    /// Wall-clock seconds since the start.
    seconds: f64,
    /// Objective of the best plan in ms; `None` before the first.
    objective_ms: Option<f64>,
    /// The best bound in ms: no plan takes less.
    bound_ms: f64,
}

#[pymethods]
impl Progress {
    /// (objective - bound) / objective; `None` before the first plan.
    #[getter]
    fn gap(&self) -> Option<f64> {
        let objective_ms = self.objective_ms?;
        Some(match objective_ms > 0.0 {
            true => ((objective_ms - self.bound_ms) / objective_ms).max(0.0),
            false => 0.0,
        })
    }

    fn __repr__(&self) -> String {
        let Self {
            seconds,
            objective_ms,
            bound_ms,
        } = self;
        let objective_ms = objective_ms.map_or("None".into(), |ms| ms.to_string());
        format!("Progress(seconds={seconds:.3}, objective_ms={objective_ms}, bound_ms={bound_ms})")
    }
}

/// What a running search tells.
pub(crate) enum Told {
    /// How far it has come.
    OfSearch(Progress),
    /// How far anything else has come, in JSON.
    InJson(String),
}

impl Told {
    fn call(self, py: Python<'_>, progress: &Bound<'_, PyAny>) -> PyResult<()> {
        match self {
            Self::OfSearch(told) => progress.call1((Py::new(py, told)?,)),
            Self::InJson(text) => progress.call1((text,)),
        }
        .map(drop)
    }
}

/// Runs a search and watches it: see [`watched_by`].
pub(crate) fn watched(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    search: impl FnOnce(Watch) -> Answer + Send,
) -> PyResult<Watched> {
    watched_by(py, progress, |interrupt, told| {
        let show = |progress: &stagecut::Progress| {
            told(Told::OfSearch(Progress {
                seconds: progress.seconds,
                objective_ms: progress.objective_ms,
                bound_ms: progress.bound_ms,
            }));
        };
        search(Watch {
            interrupt: Some(interrupt),
            progress: Some(&show),
        })
    })
}

/// Runs `work` on a thread of its own, without the GIL. What it tells goes to `progress`, called by this thread; what that raises,
/// and what a handler of signals raises, sets the flag and is given back beside the answer.
pub(crate) fn watched_by(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(&AtomicBool, &(dyn Fn(Told) + Sync)) -> Answer + Send,
) -> PyResult<Watched> {
    let interrupt = AtomicBool::new(false);
    let flag = &interrupt;
    let listens = progress.is_some();
    let (sender, mut told) = mpsc::channel();
    thread::scope(|scope| {
        let on_thread = move || {
            // The channel closes when the work is done, which wakes the other thread.
            let tell = move |what: Told| {
                if listens {
                    let _ = sender.send(what);
                }
            };
            work(flag, &tell)
        };
        let builder = thread::Builder::new()
            .name("stagecut".into())
            .stack_size(STACK_BYTES);
        let thread = builder.spawn_scoped(scope, on_thread)?;
        let mut ended_by: Option<PyErr> = None;
        loop {
            // Moved, as no two threads may share the receiver itself.
            let heard = &mut told;
            let what = py.detach(move || heard.recv_timeout(LOOK));
            let went = match (what, progress, &ended_by) {
                (Err(RecvTimeoutError::Disconnected), ..) => break,
                (_, _, Some(_)) => continue,
                (Ok(what), Some(progress), None) => what.call(py, progress),
                _ => Ok(()),
            };
            if let Err(raised) = went.and_then(|()| py.check_signals()) {
                flag.store(true, Ordering::Relaxed);
                ended_by = Some(raised);
            }
        }
        let answer = match py.detach(|| thread.join()) {
            Ok(answer) => answer,
            Err(panic) => return Err(PyRuntimeError::new_err(words_of(panic.as_ref()))),
        };
        let ended_by = ended_by.map(|raised| raised.into_value(py).into_any());
        Ok((answer.map_err(|failure| error(*failure))?, ended_by))
    })
}

/// What a panic said.
fn words_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("a fault of stagecut: {}", text.unwrap_or_default())
}

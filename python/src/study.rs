//! Studies that Python holds.

use std::path::PathBuf;

use pyo3::prelude::*;
use stagecut::embedded;

use crate::error;
use crate::watch::{Told, Watched, watched_by};

/// A study and the folder of its results.
#[pyclass(frozen, module = "stagecut._stagecut")]
pub struct Study(embedded::Study);

#[pymethods]
impl Study {
    /// A study in TOML.
    #[staticmethod]
    fn read(path: PathBuf, results: Option<PathBuf>) -> PyResult<Self> {
        embedded::Study::read(&path, results.as_deref())
            .map(Self)
            .map_err(error)
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    #[getter]
    fn results(&self) -> PathBuf {
        self.0.results().to_owned()
    }

    fn tasks(&self) -> String {
        self.0.tasks()
    }

    fn rows(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.rows())
    }

    fn run(
        &self,
        py: Python<'_>,
        jobs: Option<usize>,
        retry_failed: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Watched> {
        watched_by(py, progress, |stop, told| {
            let show = |text| told(Told::InJson(text));
            let ran = self.0.run((jobs, retry_failed), stop, &show);
            ran.map(|()| String::new()).map_err(Box::new)
        })
    }

    fn report(&self, py: Python<'_>, folder: Option<PathBuf>) -> PyResult<String> {
        py.detach(|| self.0.report(folder.as_deref())).map_err(error)
    }
}

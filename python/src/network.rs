//! Networks that Python holds.

use std::path::PathBuf;

use pyo3::prelude::*;
use stagecut::Instance;
use stagecut::embedded::{self, Cluster};

use crate::error;

/// A validated network with its cluster and options.
#[pyclass(frozen, module = "stagecut._stagecut")]
pub struct Network(embedded::Network);

impl Network {
    pub(crate) fn instance(&self) -> &Instance {
        self.0.instance()
    }

    /// With what it was made from.
    pub(crate) fn whole(&self) -> &embedded::Network {
        &self.0
    }
}

#[pymethods]
impl Network {
    /// Any importable file.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf, outside_files: bool) -> PyResult<Self> {
        py.detach(|| embedded::Network::read(&path, outside_files))
            .map(Self)
            .map_err(error)
    }

    /// A native instance in JSON.
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str, name: &str) -> PyResult<Self> {
        py.detach(|| embedded::Network::parse(text, name))
            .map(Self)
            .map_err(error)
    }

    /// What a generator makes of parameters in JSON.
    #[staticmethod]
    fn generate(py: Python<'_>, family: &str, parameters: &str) -> PyResult<Self> {
        py.detach(|| embedded::Network::generate(family, parameters))
            .map(Self)
            .map_err(error)
    }

    /// The same on another cluster: a preset's name or a file, or a document in JSON.
    fn on(&self, cluster: &str, is_document: bool) -> PyResult<Self> {
        let cluster = match is_document {
            true => Cluster::Document(cluster),
            false => Cluster::Named(cluster),
        };
        self.0.on_cluster(cluster).map(Self).map_err(error)
    }

    /// The same where devices reach that part of their peak rates: a number, or `measured`.
    fn at(&self, efficiency: &str) -> PyResult<Self> {
        self.0.at_efficiency(efficiency).map(Self).map_err(error)
    }

    /// The native instance in JSON.
    fn json(&self) -> String {
        self.0.json()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.instance().name
    }

    #[getter]
    fn layers(&self) -> Vec<&str> {
        let layers = self.instance().network.layers.iter();
        layers.map(|layer| layer.id.as_str()).collect()
    }

    #[getter]
    fn notes(&self) -> Vec<String> {
        self.instance().notes.iter().map(ToString::to_string).collect()
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.instance().warnings.clone()
    }
}

//! The instances of a study: files by name and glob, and generators with their parameters.

use std::collections::BTreeMap;
use std::path::Path;

use toml::Spanned;

use super::content;
use super::faults::Text;
use super::globs;
use super::spec::InstancesSpec;
use super::task::{Source, json};
use super::values::{expand, product};
use crate::input::generate;
use crate::input::import::{CLUSTER_PRESETS, read_cluster};
use crate::model::fault::{Fault, FaultKind, InputError};
use crate::model::options::PipelineOptions;

/// An instance under a cluster, before options and methods.
pub(crate) struct Place {
    /// Its name, for people.
    pub name: String,
    /// What it belongs to.
    pub family: String,
    /// Where it comes from.
    pub source: Source,
    /// Hash of both.
    pub content: String,
    /// The cluster that replaces its own.
    pub cluster: Option<String>,
    /// Options that hold where the grid is silent.
    pub options: PipelineOptions,
}

/// The instances of one entry, each under each of its clusters.
pub(crate) fn places(spec: &InstancesSpec, text: &Text, base: &Path) -> Result<Vec<Place>, Vec<Fault>> {
    let mut faults = Vec::new();
    let (default_family, sources) = match &spec.generator {
        Some(generator) => (generator.get_ref().as_str(), generated(spec, generator, text)?),
        None => ("files", files(&spec.files, text, base)?),
    };
    let family = spec.family.as_deref().unwrap_or(default_family);
    let mut clusters: Vec<Option<&Spanned<String>>> = spec.clusters.iter().map(Some).collect();
    if clusters.is_empty() {
        clusters.push(None);
    }
    let mut places = Vec::new();
    for cluster in clusters {
        let cluster = match cluster.map(|name| checked_cluster(name, text, base)).transpose() {
            Ok(cluster) => cluster,
            Err(fault) => {
                faults.push(fault);
                continue;
            }
        };
        for (name, source, hash) in &sources {
            let (cluster_name, cluster_hash) = cluster.clone().unzip();
            places.push(Place {
                name: name.clone(),
                family: family.to_owned(),
                source: source.clone(),
                content: content::digest(&[hash, &cluster_hash.unwrap_or_default()]),
                cluster: cluster_name,
                options: spec.options.clone(),
            });
        }
    }
    match faults.is_empty() {
        true => Ok(places),
        false => Err(faults),
    }
}

/// A name, where it comes from, and its hash.
type Sourced = (String, Source, String);

/// Files by name and glob, sorted.
fn files(patterns: &[Spanned<String>], text: &Text, base: &Path) -> Result<Vec<Sourced>, Vec<Fault>> {
    let mut sources = Vec::new();
    let mut faults = Vec::new();
    for pattern in patterns {
        let found = match globs::files(base, pattern.get_ref()) {
            Ok(found) => found,
            Err(error) => {
                faults.push(text.fault(pattern.span(), error.into()));
                continue;
            }
        };
        if found.is_empty() {
            let reason = "no file matches".into();
            let kind = FaultKind::Unreadable {
                reason,
                similar: None,
            };
            faults.push(text.fault(pattern.span(), kind));
        }
        for path in found {
            let relative = path.strip_prefix(base).unwrap_or(&path);
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            match content::of_file(&path) {
                Ok(hash) => sources.push((
                    stem.into_owned(),
                    Source::File(relative.to_string_lossy().into_owned()),
                    hash,
                )),
                Err(error) => faults.extend(error.faults),
            }
        }
    }
    match faults.is_empty() {
        true => Ok(sources),
        false => Err(faults),
    }
}

/// The instances of a generator. None is made here: only its parameters are checked.
fn generated(
    spec: &InstancesSpec,
    generator: &Spanned<String>,
    text: &Text,
) -> Result<Vec<Sourced>, Vec<Fault>> {
    let name = generator.get_ref();
    let Some(family) = generate::find(name) else {
        let known: Vec<String> = generate::FAMILIES.iter().map(|f| f.name.to_owned()).collect();
        return Err(vec![text.unknown(generator.span(), name, &known)]);
    };
    for (axis, value) in &spec.parameters {
        for one in expand(text, value).map_err(|fault| vec![fault])? {
            let alone = toml::Table::from_iter([(axis.clone(), one)]);
            (family.check)(alone).map_err(|error| vec![text.serde_fault(value.span(), error.message())])?;
        }
    }
    let mut sources = Vec::new();
    for point in product(text, &spec.parameters)? {
        let parameters: BTreeMap<String, serde_json::Value> = point
            .iter()
            .map(|(name, value)| (name.clone(), serde_json::to_value(value).unwrap_or_default()))
            .collect();
        let said = point.iter().map(|(name, value)| format!("{name}={value}"));
        let label = std::iter::once(name.clone())
            .chain(said)
            .collect::<Vec<_>>()
            .join(" ");
        let hash = content::digest(&[name, &json(&parameters)]);
        sources.push((label, Source::Generator(name.clone(), parameters), hash));
    }
    Ok(sources)
}

/// A cluster's name and hash, once it is known to be one.
fn checked_cluster(name: &Spanned<String>, text: &Text, base: &Path) -> Result<(String, String), Fault> {
    let path = base.join(name.get_ref());
    let at_its_line = |error: InputError| {
        let first = error.faults.into_iter().next();
        let reason = first.map_or_else(String::new, |fault| match fault.kind {
            FaultKind::Unreadable { reason, .. } => reason,
            _ => fault.to_string(),
        });
        let kind = FaultKind::Unreadable {
            reason,
            similar: None,
        };
        text.fault(name.span(), kind)
    };
    let hash = content::of_cluster(name.get_ref(), &path).map_err(at_its_line)?;
    read_cluster(&resolved_cluster(name.get_ref(), base)).map_err(at_its_line)?;
    Ok((name.get_ref().clone(), hash))
}

/// A cluster of a study as [`read_cluster`] takes it: presets by name, files from the study's folder.
pub(crate) fn resolved_cluster(name: &str, base: &Path) -> String {
    let is_preset = CLUSTER_PRESETS.iter().any(|(preset, _)| *preset == name);
    match is_preset {
        true => name.to_owned(),
        false => base.join(name).to_string_lossy().into_owned(),
    }
}

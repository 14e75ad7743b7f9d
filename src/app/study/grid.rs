//! From a study file to its tasks.

use std::collections::BTreeSet;
use std::path::Path;

use toml::Spanned;

use super::faults::Text;
use super::outside;
use super::places::{Place, places};
use super::size;
use super::spec::{FAMILIES, MethodsSpec, OptionsSpec, StudySpec};
use super::task::{Outside, Task};
use super::values::{self, expand, product};
use crate::heuristics;
use crate::model::fault::{Fault, FaultKind};
use crate::model::options::PipelineOptions;
use crate::solve::methods;

/// The word that stands for every heuristic of the registry.
pub(crate) const HEURISTICS: &str = "heuristics";

/// A method with one seed and one limit.
pub(super) struct Entry {
    pub(super) families: BTreeSet<String>,
    method: String,
    outside: Option<Outside>,
    seed: u64,
    time_limit_s: f64,
}

/// All tasks of a study, those of an instance together, each once; at most `most`, before those that are listed twice are told
/// apart.
///
/// # Errors
///
/// Every fault of the file.
pub(crate) fn tasks(spec: &StudySpec, text: &Text, base: &Path, most: u64) -> Result<Vec<Task>, Vec<Fault>> {
    size::check(size::least(spec), most)?;
    let mut faults = Vec::new();
    let places = gathered(
        spec.instances.iter().map(|one| places(one, text, base)),
        &mut faults,
    );
    let grids = gathered(spec.options.iter().map(|one| grid(one, text)), &mut faults);
    let limits = &spec.limits;
    let default_s = limits.time_limit_s;
    let entries = gathered(
        spec.methods
            .iter()
            .map(|one| entries(one, default_s, (text, base))),
        &mut faults,
    );
    faults.extend(named_twice(spec, text));
    faults.extend(bad_limits(spec));
    let families: BTreeSet<&str> = places.iter().map(|place| place.family.as_str()).collect();
    if faults.is_empty() {
        faults.extend(unknown_families(spec, text, &families));
    }
    if !faults.is_empty() {
        return Err(faults);
    }
    size::check(size::count(&places, &grids, &entries), most)?;
    let mut seen = BTreeSet::new();
    let mut tasks = Vec::new();
    for place in &places {
        let own = [PipelineOptions::default()];
        let mut options: Vec<&PipelineOptions> = grids
            .iter()
            .filter(|(families, _)| is_for(families, place))
            .map(|(_, options)| options)
            .collect();
        if options.is_empty() {
            options.extend(&own);
        }
        for options in options {
            for entry in entries.iter().filter(|entry| is_for(&entry.families, place)) {
                let task = Task {
                    id: String::new(),
                    instance: place.name.clone(),
                    family: place.family.clone(),
                    source: place.source.clone(),
                    content: place.content.clone(),
                    cluster: place.cluster.clone(),
                    options: options.clone().or(&place.options),
                    method: entry.method.clone(),
                    outside: entry.outside.clone(),
                    seed: entry.seed,
                    time_limit_s: entry.time_limit_s,
                    grace_s: limits.grace_s,
                    memory_limit_bytes: limits.memory_limit_bytes.map(|bytes| bytes as u64),
                    program: String::new(),
                };
                let task = task.identified();
                if seen.insert(task.id.clone()) {
                    tasks.push(task);
                }
            }
        }
    }
    Ok(tasks)
}

pub(super) fn is_for(families: &BTreeSet<String>, place: &Place) -> bool {
    families.is_empty() || families.contains(&place.family)
}

/// What all parts yield, and the faults of those that fail.
fn gathered<T>(parts: impl Iterator<Item = Result<Vec<T>, Vec<Fault>>>, faults: &mut Vec<Fault>) -> Vec<T> {
    let mut all = Vec::new();
    for part in parts {
        match part {
            Ok(part) => all.extend(part),
            Err(more) => faults.extend(more),
        }
    }
    all
}

/// The products of one entry of options, with the families they are for.
fn grid(spec: &OptionsSpec, text: &Text) -> Result<Vec<(BTreeSet<String>, PipelineOptions)>, Vec<Fault>> {
    let mut axes = spec.clone();
    let families = axes
        .remove(FAMILIES)
        .map(|families| families_of(&families, text))
        .transpose();
    let families = families.map_err(|fault| vec![fault])?.unwrap_or_default();
    let points = product(text, &axes)?;
    let read = |point| values::read(text, &axes, point).map_err(|fault| vec![fault]);
    points
        .iter()
        .map(|point| Ok((families.clone(), read(point)?)))
        .collect()
}

/// The families that an entry of options names.
fn families_of(families: &Spanned<toml::Value>, text: &Text) -> Result<BTreeSet<String>, Fault> {
    let word = |value: &toml::Value| value.as_str().map(str::to_owned);
    let names = families
        .get_ref()
        .as_array()
        .map(|names| names.iter().map(word).collect::<Option<_>>());
    names.flatten().ok_or_else(|| {
        let kind = FaultKind::WrongType {
            found: "something else".into(),
            expected: "a list of families in quotes".into(),
        };
        text.fault(families.span(), kind)
    })
}

fn words(spanned: &[Spanned<String>]) -> BTreeSet<String> {
    spanned.iter().map(|word| word.get_ref().clone()).collect()
}

/// The methods of one entry with each seed and limit.
fn entries(
    spec: &MethodsSpec,
    default_s: f64,
    (text, base): (&Text, &Path),
) -> Result<Vec<Entry>, Vec<Fault>> {
    let named = match outside::asked(spec, text, base)? {
        Some((name, outside)) => vec![(name, Some(outside))],
        None => (registered(spec, text)?.into_iter())
            .map(|name| (name.to_owned(), None))
            .collect(),
    };
    let seeds = match &spec.seeds {
        None => vec![0],
        Some(seeds) => seeds_of(seeds, text).map_err(|fault| vec![fault])?,
    };
    let limits = match spec.time_limits_s.as_slice() {
        [] => vec![default_s],
        limits => limits.to_vec(),
    };
    let mut entries = Vec::new();
    for (method, outside) in named {
        for &seed in &seeds {
            for &time_limit_s in &limits {
                entries.push(Entry {
                    families: words(&spec.families),
                    method: method.clone(),
                    outside: outside.clone(),
                    seed,
                    time_limit_s,
                });
            }
        }
    }
    Ok(entries)
}

/// The methods of the registry that an entry names.
fn registered(spec: &MethodsSpec, text: &Text) -> Result<Vec<&'static str>, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut names: Vec<&'static str> = Vec::new();
    for name in &spec.names {
        match (name.get_ref().as_str(), methods::find(name.get_ref())) {
            (HEURISTICS, _) => names.extend(heuristics::METHODS.iter().map(|method| method.name)),
            (_, Some(method)) => names.push(method.name()),
            (other, None) => faults.push(unknown_method(name, other, text)),
        }
    }
    for name in &spec.except {
        match methods::find(name.get_ref()) {
            Some(method) => names.retain(|other| *other != method.name()),
            None => faults.push(unknown_method(name, name.get_ref(), text)),
        }
    }
    match faults.is_empty() {
        true => Ok(names),
        false => Err(faults),
    }
}

/// Commands of one name: their rows could not be told apart.
fn named_twice(spec: &StudySpec, text: &Text) -> Vec<Fault> {
    let mut seen = BTreeSet::new();
    let names = spec.methods.iter().filter_map(|methods| methods.name.as_ref());
    let again = names.filter(|name| !seen.insert(name.get_ref()));
    let fault = |name: &Spanned<String>| {
        let kind = FaultKind::DuplicateName {
            what: "method",
            name: name.get_ref().clone(),
        };
        text.fault(name.span(), kind)
    };
    again.map(fault).collect()
}

fn seeds_of(seeds: &Spanned<toml::Value>, text: &Text) -> Result<Vec<u64>, Fault> {
    let whole = |value: toml::Value| value.as_integer().and_then(|seed| u64::try_from(seed).ok());
    let seeds_read: Option<Vec<u64>> = expand(text, seeds)?.into_iter().map(whole).collect();
    seeds_read.ok_or_else(|| {
        let kind = FaultKind::WrongType {
            found: "something else".into(),
            expected: "whole numbers from 0".into(),
        };
        text.fault(seeds.span(), kind)
    })
}

fn unknown_method(name: &Spanned<String>, found: &str, text: &Text) -> Fault {
    let known = methods::all().into_iter().map(|method| method.name().to_owned());
    let known: Vec<String> = known.chain([HEURISTICS.to_owned()]).collect();
    text.unknown(name.span(), found, &known)
}

/// Limits that no task could run under.
fn bad_limits(spec: &StudySpec) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut check = |at: &str, value: f64, from: f64, expected: &'static str| {
        if !(value.is_finite() && value >= from && value < 1e18) {
            faults.push(Fault::new(
                at,
                FaultKind::BadNumber {
                    found: value,
                    expected,
                },
            ));
        }
    };
    let seconds = "seconds from 0";
    check("limits.time_limit_s", spec.limits.time_limit_s, 0.0, seconds);
    check("limits.grace_s", spec.limits.grace_s, 0.0, seconds);
    if let Some(bytes) = spec.limits.memory_limit_bytes {
        check(
            "limits.memory_limit_bytes",
            bytes,
            1.0,
            "a number of bytes from 1",
        );
    }
    for (at, methods) in spec.methods.iter().enumerate() {
        for &limit in &methods.time_limits_s {
            check(&format!("methods[{at}].time_limits_s"), limit, 0.0, seconds);
        }
    }
    faults
}

/// Families that no entry of `instances` has.
fn unknown_families(spec: &StudySpec, text: &Text, known: &BTreeSet<&str>) -> Vec<Fault> {
    let named: Vec<String> = known.iter().map(|family| (*family).to_owned()).collect();
    let of_methods = spec.methods.iter().flat_map(|methods| &methods.families);
    let mut asked: Vec<(&str, std::ops::Range<usize>)> = of_methods
        .map(|family| (family.get_ref().as_str(), family.span()))
        .collect();
    for families in spec.options.iter().filter_map(|options| options.get(FAMILIES)) {
        let names = families.get_ref().as_array().into_iter().flatten();
        asked.extend(names.filter_map(|name| Some((name.as_str()?, families.span()))));
    }
    let unknown = asked.into_iter().filter(|(family, _)| !known.contains(family));
    unknown
        .map(|(family, span)| text.unknown(span, family, &named))
        .collect()
}

//! Galvatron's profiles: X. Miao et al., *Galvatron: Efficient transformer training over multiple GPUs using automatic parallelism*, PVLDB,
//! 2023; PKU-DAIR/Hetu-Galvatron, whose model profiler writes `configs/computation_profiling_*.json` and, beside it, `memory_profiling_*.json`.
//!
//! | field | says |
//! |---|---|
//! | `layertype_T_bszB_seqS` | ms forward of a layer of type T for one of B sequences of S tokens |
//! | `layertype_other_bszB_seqS` | the same of embedding and head together |
//! | `layernum[N]_bszB_seqS` | what was measured: a model of N layers, from which the others come |
//! | `n_layers`, `bsz`, `seq` | not Galvatron's, and only where the file is to say them: layers of each type, and which of the sizes is meant |
//!
//! Of the memory profile `layertype_T` or `layertype_T_sp` are read: bytes of parameters and activations in MiB, by tensor degree.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::text::from_json;
use super::{Imported, Source};
use crate::input::intake;
use crate::model::fault::{Fault, FaultKind};
use crate::model::precision::Precision;
use crate::model::spec::{InstanceSpec, LayerSpec, NetworkSpec, TensorSpec};
use crate::model::words::{Words, words};

const MIB: f64 = 1_048_576.0;

/// Backward over forward, Galvatron's `bct_fct_coe`.
const BACKWARD: f64 = 2.0;

/// More layers than that are a slip.
const MOST_LAYERS: usize = 100_000;

/// A key that says a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    /// A type of layer, or `other`.
    kind: &'a str,
    size: usize,
    sequence: usize,
}

fn parse(key: &str) -> Option<Key<'_>> {
    let (kind, rest) = key.strip_prefix("layertype_")?.split_once("_bsz")?;
    let (size, sequence) = rest.split_once("_seq")?;
    Some(Key {
        kind,
        size: size.parse().ok()?,
        sequence: sequence.parse().ok()?,
    })
}

/// Whether the top level says times of types of layers.
pub(super) fn detect(source: &Source) -> bool {
    let top: Option<Map<String, Value>> = match super::is_object(source) {
        true => serde_json::from_slice(source.bytes).ok(),
        false => None,
    };
    top.is_some_and(|top| {
        top.keys()
            .any(|key| parse(key).is_some() || key.starts_with("layernum["))
    })
}

/// Reads a profile, with that of memory beside it where there is one.
pub(super) fn read(source: &Source) -> Imported {
    let top: Map<String, Value> = from_json(source.text()?)?;
    let times = times(&top)?;
    let (size, sequence) = (number(&top, "bsz")?, number(&top, "seq")?);
    let fits = |key: &&Key| {
        key.kind != "other"
            && size.is_none_or(|size| key.size == size)
            && sequence.is_none_or(|tokens| key.sequence == tokens)
    };
    let sizes: BTreeSet<(usize, usize)> = times
        .keys()
        .filter(fits)
        .map(|key| (key.sequence, key.size))
        .collect();
    let Some(&(sequence, size)) = sizes.first() else {
        let kind = FaultKind::Missing {
            what: "time of a type of layer".into(),
            expected: "`layertype_0_bsz8_seq4096` and the like, of the size that is meant".into(),
            remedy: "let Galvatron's profiler process its data, or choose another `bsz` and `seq`".into(),
        };
        return Err(vec![Fault::new("the file", kind)]);
    };
    let (memory, at) = memory(source)?;
    let profile = Profile {
        top: &top,
        times: &times,
        memory: memory.as_ref(),
        sequence,
        size,
    };
    let (count, how) = profile.count(number(&top, "n_layers")?)?;
    let mut notes = vec![words!(
        "{} layers of each type, {}; micro-batches of {} sequences of {} tokens, of the {} sizes that the file has; passes back take twice as long as forward, as Galvatron has it",
        count.to_string(),
        how,
        size.to_string(),
        sequence.to_string(),
        sizes.len().to_string()
    )];
    notes.push(match at {
        Some(file) => words!("parameters and activations are those of `{}`", file),
        None => "no profile of memory lies beside it: layers have no bytes".into(),
    });
    Ok(profile.network(count, notes))
}

/// Times by what they are of.
fn times(top: &Map<String, Value>) -> Result<BTreeMap<Key<'_>, f64>, Vec<Fault>> {
    let mut times: BTreeMap<Key, f64> = BTreeMap::new();
    let mut faults = Vec::new();
    for (key, value) in top {
        let Some(of) = parse(key) else { continue };
        match value.as_f64().filter(|ms| ms.is_finite() && *ms >= 0.0) {
            Some(ms) => drop(times.insert(of, ms)),
            None => {
                let kind = FaultKind::WrongType {
                    found: value.to_string(),
                    expected: "ms, from 0".into(),
                };
                faults.push(Fault::new(key.clone(), kind));
            }
        }
    }
    match faults.is_empty() {
        true => Ok(times),
        false => Err(faults),
    }
}

/// A field that chooses, where there is one.
fn number(top: &Map<String, Value>, field: &str) -> Result<Option<usize>, Vec<Fault>> {
    let Some(value) = top.get(field) else {
        return Ok(None);
    };
    let number = value
        .as_u64()
        .filter(|number| (1..=MOST_LAYERS as u64).contains(number));
    match number {
        Some(number) => Ok(Some(number as usize)),
        None => {
            let kind = FaultKind::WrongType {
                found: value.to_string(),
                expected: "a whole number from 1 to 100000".into(),
            };
            Err(vec![Fault::new(field.to_owned(), kind)])
        }
    }
}

/// The profile of memory, and its name.
type Memory = (Option<Map<String, Value>>, Option<String>);

/// The profile of memory beside a profile of times, by its name, and that name.
fn memory(source: &Source) -> Result<Memory, Vec<Fault>> {
    let name = source.name();
    let Some(rest) = name.strip_prefix("computation_profiling_") else {
        return Ok((None, None));
    };
    let own = [rest.to_owned(), rest.replace("_all.json", ".json")];
    let names = own.map(|rest| format!("memory_profiling_{rest}"));
    for file in names {
        let path = source.path.with_file_name(&file);
        if !path.exists() {
            continue;
        }
        let in_other = |faults: Vec<Fault>| {
            faults
                .into_iter()
                .map(|fault| fault.unquoted().in_other(&file))
                .collect::<Vec<_>>()
        };
        super::reach::refuse_outside(source.path, &file, &path)
            .map_err(|kind| vec![Fault::new("the file", kind)])?;
        let bytes = intake::read(&path).map_err(|error| in_other(vec![Fault::unreadable(&path, &error)]))?;
        let beside = Source {
            path: &path,
            bytes: &bytes,
        };
        let top = beside.text().and_then(from_json).map_err(in_other)?;
        return Ok((Some(top), Some(file)));
    }
    Ok((None, None))
}

struct Profile<'a> {
    top: &'a Map<String, Value>,
    times: &'a BTreeMap<Key<'a>, f64>,
    memory: Option<&'a Map<String, Value>>,
    sequence: usize,
    size: usize,
}

impl Profile<'_> {
    /// Layers of each type, and who says so.
    fn count(&self, said: Option<usize>) -> Result<(usize, &'static str), Vec<Fault>> {
        if let Some(count) = said {
            return Ok((count, "as `n_layers` says"));
        }
        let config = self
            .memory
            .and_then(|memory| memory.get("model_config")?.get("n_layers")?.as_u64());
        if let Some(count) = config.filter(|&count| count > 0 && count <= MOST_LAYERS as u64) {
            return Ok((count as usize, "as the profile of memory says"));
        }
        let measured = self.top.keys().filter_map(|key| {
            let (count, _) = key.strip_prefix("layernum[")?.split_once([']', ','])?;
            count
                .parse()
                .ok()
                .filter(|&count| count > 0 && count <= MOST_LAYERS)
        });
        let most = measured.max();
        most.map(|count| {
            (
                count,
                "the most that were measured: `n_layers` in the file says otherwise",
            )
        })
        .ok_or_else(|| {
            let kind = FaultKind::Missing {
                what: "number of layers".into(),
                expected: "`n_layers`, or `layernum[N]_...`".into(),
                remedy: "add `\"n_layers\": 32`, say".into(),
            };
            vec![Fault::new("the file", kind)]
        })
    }

    fn time_ms(&self, kind: &str) -> Option<f64> {
        let key = Key {
            kind,
            size: self.size,
            sequence: self.sequence,
        };
        self.times.get(&key).map(|ms| ms * self.size as f64)
    }

    fn network(&self, count: usize, mut notes: Vec<Words>) -> (InstanceSpec, Vec<Words>) {
        let kinds: BTreeSet<&str> = self
            .times
            .keys()
            .filter(|key| key.kind != "other")
            .map(|key| key.kind)
            .collect();
        let kinds: Vec<&str> = kinds
            .into_iter()
            .filter(|kind| self.time_ms(kind).is_some())
            .collect();
        let mut layers = Vec::new();
        for kind in &kinds {
            let layer = self.layer(kind);
            for at in 0..count {
                let id = match kinds.len() {
                    1 => format!("layer{at}"),
                    _ => format!("type{kind}.layer{at}"),
                };
                layers.push(LayerSpec { id, ..layer.clone() });
            }
        }
        if let Some(other) = self.time_ms("other") {
            notes.push("embedding and head were measured together, and all of it is the head's".into());
            layers.push(LayerSpec {
                id: "other".into(),
                operator: Some("other".into()),
                forward_ms: Some(other),
                backward_ms: Some(BACKWARD * other),
                ..LayerSpec::default()
            });
        }
        let bytes = kinds.first().and_then(|kind| self.kept(kind, "checkpoint"));
        let tensors = layers.windows(2).map(|pair| TensorSpec {
            producer: pair[0].id.clone(),
            consumers: vec![pair[1].id.clone()],
            bytes,
            ..TensorSpec::default()
        });
        let network = NetworkSpec {
            precision: self.precision(),
            tensors: tensors.collect(),
            layers,
            ..NetworkSpec::default()
        };
        (
            InstanceSpec {
                network,
                ..InstanceSpec::default()
            },
            notes,
        )
    }

    /// Numbers that it was measured in: profiles of memory count parameters in fp32.
    fn precision(&self) -> Option<Precision> {
        self.memory.map(|_| Precision::Fp32)
    }

    fn layer(&self, kind: &str) -> LayerSpec {
        let forward = self.time_ms(kind);
        let parameters = self
            .of_memory(kind)
            .and_then(|own| own.get("parameter_size")?.as_f64());
        LayerSpec {
            operator: Some(format!("layertype_{kind}")),
            forward_ms: forward,
            backward_ms: forward.map(|ms| BACKWARD * ms),
            parameter_bytes: bytes(parameters.unwrap_or(0.0)),
            stash_bytes: self.kept(kind, "1").unwrap_or(0.0),
            ..LayerSpec::default()
        }
    }

    /// What the profile of memory says of a type of layer: by length of sequences, or at once.
    fn of_memory(&self, kind: &str) -> Option<&Map<String, Value>> {
        let memory = self.memory?;
        let own = [format!("layertype_{kind}_sp"), format!("layertype_{kind}")];
        let own = own.iter().find_map(|key| memory.get(key)?.as_object())?;
        match own.get(&self.sequence.to_string()) {
            Some(of) => of.as_object(),
            None => own.contains_key("parameter_size").then_some(own),
        }
    }

    /// Bytes that a micro-batch keeps of a layer.
    fn kept(&self, kind: &str, degree: &str) -> Option<f64> {
        let of = self
            .of_memory(kind)?
            .get("tp_activation_per_bsz_dict")?
            .get(degree)?
            .as_f64()?;
        Some(bytes(of * self.size as f64))
    }
}

/// Whole bytes of MiB.
fn bytes(mib: f64) -> f64 {
    (mib * MIB).round()
}

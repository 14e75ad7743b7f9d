//! Replicated placement: machines that hold runs of layers, and requests that pass through a chain of them.
//!
//! `formulations/placement.md` says what the problem is. Rates are whole millionths of a token a second inside, so that sums and flows
//! are exact, and tokens a second in files.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::input::intake;
use crate::input::source::{Source, from_structured};
use crate::model::fault::{Fault, FaultKind, InputError, closest};

/// Parts of a token a second in which rates are counted.
const PARTS: f64 = 1e6;

/// Tokens a second beyond which a rate is a slip, of machines and of links: flows of all machines stay exact in 64 bits.
const MOST_OF_A_MACHINE: f64 = 1e9;
const MOST_OF_A_LINK: f64 = 1e12;

/// Layers and machines beyond which the problem is not asked.
const MOST_LAYERS: usize = 1_000;
const MOST_MACHINES: usize = 1_000;

/// Names that are ends of links and no kinds.
pub const SOURCE: &str = "source";
/// The other one.
pub const SINK: &str = "sink";

/// What a file of a placement problem may say.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlacementSpec {
    /// A name for reports; by default the file's.
    pub name: Option<String>,
    /// Where the data come from, and what is assumed.
    pub provenance: Option<String>,
    /// Layers of the network, all alike.
    pub layers: usize,
    /// How many machines there are of each kind. Machines of a kind are alike, their links too.
    pub machines: BTreeMap<String, usize>,
    /// Memory of a machine in GB, by kind: for the reader, since the next field says what fits.
    pub vram_gb: Option<BTreeMap<String, f64>>,
    /// Tokens a second through a machine of a kind that holds so many layers; what it does not name does not fit.
    pub tokens_per_s_at_layers: BTreeMap<String, BTreeMap<String, f64>>,
    /// Tokens a second that a link carries where `links` says nothing; without it links carry whatever comes.
    pub smallest_link_tokens_per_s: Option<LinksSpec>,
    /// Links of their own speed, by the kinds at their ends.
    #[serde(default)]
    pub links: Vec<LinkSpec>,
    /// Tokens a second that somebody else found: for the reader.
    pub published_tokens_per_s: Option<f64>,
    /// The placement that goes with it: for the reader.
    pub published_placement: Option<Vec<PublishedSpec>>,
}

/// What links of each sort carry.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinksSpec {
    /// From a machine to another, in tokens a second, whose activations are sent.
    pub between_machines: f64,
    /// From the coordinator to a machine, in tokens a second.
    pub from_source: f64,
    /// From a machine to the coordinator, in tokens a second.
    pub to_sink: f64,
}

/// Links from every machine of a kind to every machine of a kind, one each.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// A kind, or `source`.
    pub from: String,
    /// A kind, or `sink`.
    pub to: String,
    /// What each of these links carries.
    pub tokens_per_s: f64,
}

/// A machine of a published placement.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedSpec {
    /// Its kind.
    pub kind: String,
    /// The first layer that it holds, from 0.
    pub start: usize,
    /// How many it holds.
    pub layers: usize,
}

/// A validated problem.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Name for reports.
    pub name: String,
    /// Layers to pass.
    pub layers: usize,
    /// Machines by kind.
    pub kinds: Vec<MachineKind>,
    /// What the link from a machine of the first kind to one of the second carries.
    pub between: Vec<Vec<u64>>,
}

/// Machines that are alike.
#[derive(Clone, Debug)]
pub struct MachineKind {
    /// Its name.
    pub name: String,
    /// How many there are.
    pub count: usize,
    /// What passes through one that holds 1, 2, ... layers; 0 where so many do not fit.
    pub rates: Vec<u64>,
    /// What its link from the coordinator carries.
    pub from_source: u64,
    /// What its link to the coordinator carries.
    pub to_sink: u64,
}

impl MachineKind {
    /// What passes through a machine of so many layers.
    pub fn rate(&self, layers: usize) -> u64 {
        self.rates.get(layers.wrapping_sub(1)).copied().unwrap_or(0)
    }
}

/// A machine and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// Position of its kind.
    pub kind: usize,
    /// The first layer.
    pub start: usize,
    /// How many.
    pub layers: usize,
}

impl Held {
    /// The layer behind the last.
    pub fn end(&self) -> usize {
        self.start + self.layers
    }
}

/// Where tokens go: from a machine, or the coordinator, to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Position in the placement; `None` is the coordinator.
    pub from: Option<usize>,
    /// Likewise.
    pub to: Option<usize>,
    /// How much.
    pub rate: u64,
}

/// A placement and its flow. Machines that are not named hold nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// What machines hold.
    pub held: Vec<Held>,
    /// A flow of most tokens.
    pub flows: Vec<Flow>,
    /// What it carries.
    pub rate: u64,
}

/// How good a placement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// None carries more.
    Optimal,
    /// None carries more than the bound.
    Feasible,
    /// There is none.
    Infeasible,
    /// None was found.
    Unknown,
}

/// Tokens a second of a rate.
pub fn tokens_per_s(rate: u64) -> f64 {
    rate as f64 / PARTS
}

impl Serving {
    /// Reads a problem.
    ///
    /// # Errors
    ///
    /// Every fault of the file, each with its place.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        let in_file = |faults: Vec<Fault>| InputError::in_file(path, faults);
        let bytes = intake::read(path).map_err(|error| in_file(vec![Fault::unreadable(path, &error)]))?;
        let spec: PlacementSpec = from_structured(&Source { path, bytes: &bytes }).map_err(in_file)?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        Self::new(&spec, stem.as_deref().unwrap_or("placement")).map_err(in_file)
    }

    /// Validates a problem; `name` is its name where it has none.
    ///
    /// # Errors
    ///
    /// Every fault, each with its place.
    pub fn new(spec: &PlacementSpec, name: &str) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        sizes(spec, &mut faults);
        let kinds: Vec<MachineKind> = spec
            .machines
            .iter()
            .map(|(kind, &count)| machine_kind(spec, kind, count, &mut faults))
            .collect();
        let link = spec.smallest_link_tokens_per_s;
        let between = link.map_or(u64::MAX, |link| {
            rate(
                "smallest_link_tokens_per_s.between_machines",
                link.between_machines,
                MOST_OF_A_LINK,
                &mut faults,
            )
        });
        let mut serving = Self {
            name: spec.name.clone().unwrap_or_else(|| name.into()),
            layers: spec.layers,
            between: vec![vec![between; kinds.len()]; kinds.len()],
            kinds,
        };
        for (i, link) in spec.links.iter().enumerate() {
            serving.link(&format!("links[{i}]"), link, &mut faults);
        }
        match faults.is_empty() {
            true => Ok(serving),
            false => Err(faults),
        }
    }

    /// Takes a link of its own speed.
    fn link(&mut self, at: &str, link: &LinkSpec, faults: &mut Vec<Fault>) {
        let carried = rate(
            &format!("{at}.tokens_per_s"),
            link.tokens_per_s,
            MOST_OF_A_LINK,
            faults,
        );
        let names: Vec<String> = self.kinds.iter().map(|kind| kind.name.clone()).collect();
        let mut position = |field: &str, name: &str| {
            let found = names.iter().position(|known| known == name);
            if found.is_none() {
                faults.push(unknown_kind(format!("{at}.{field}"), name, &names));
            }
            found
        };
        match (link.from.as_str(), link.to.as_str()) {
            (SOURCE, to) => {
                if let Some(to) = position("to", to) {
                    self.kinds[to].from_source = carried;
                }
            }
            (from, SINK) => {
                if let Some(from) = position("from", from) {
                    self.kinds[from].to_sink = carried;
                }
            }
            (from, to) => {
                if let (Some(from), Some(to)) = (position("from", from), position("to", to)) {
                    self.between[from][to] = carried;
                }
            }
        }
    }

    /// Machines of all kinds.
    pub fn machines(&self) -> usize {
        self.kinds.iter().map(|kind| kind.count).sum()
    }

    /// The most layers that all machines together hold, where each holds as many as lets anything pass.
    pub fn most_layers(&self) -> usize {
        let most = |kind: &MachineKind| {
            kind.rates
                .iter()
                .rposition(|&rate| rate > 0)
                .map_or(0, |at| at + 1)
        };
        self.kinds
            .iter()
            .map(|kind| kind.count * most(kind).min(self.layers))
            .sum()
    }

    /// What passes through a machine that holds layers, whatever the others hold: its own rate, its links to and from the coordinator where
    /// it stands at an end, and what all its links to other machines carry together.
    pub fn usable(&self, held: &Held) -> u64 {
        let kind = &self.kinds[held.kind];
        let others = |of: &dyn Fn(usize) -> u64| {
            let links = self.kinds.iter().enumerate().map(|(other, kind)| {
                let count = kind.count - usize::from(other == held.kind).min(kind.count);
                of(other).saturating_mul(count as u64)
            });
            links.fold(0, u64::saturating_add)
        };
        let into = match held.start {
            0 => kind.from_source,
            _ => others(&|other| self.between[other][held.kind]),
        };
        let out = match held.end() == self.layers {
            true => kind.to_sink,
            false => others(&|other| self.between[held.kind][other]),
        };
        kind.rate(held.layers).min(into).min(out)
    }

    /// Names of the machines of a placement, numbered from 1 by kind in its order.
    pub fn names(&self, held: &[Held]) -> Vec<String> {
        let mut numbers = vec![0; self.kinds.len()];
        let name = |held: &Held| {
            numbers[held.kind] += 1;
            format!("{}:{}", self.kinds[held.kind].name, numbers[held.kind])
        };
        held.iter().map(name).collect()
    }
}

/// Numbers of layers and machines that make no sense.
fn sizes(spec: &PlacementSpec, faults: &mut Vec<Fault>) {
    let mut ask = |at: &str, found: usize, most: usize, expected: &'static str| {
        if !(1..=most).contains(&found) {
            let found = found as f64;
            faults.push(Fault::new(at, FaultKind::BadNumber { found, expected }));
        }
    };
    ask("layers", spec.layers, MOST_LAYERS, "a number from 1 to 1000");
    let machines = spec
        .machines
        .values()
        .fold(0, |sum: usize, &count| sum.saturating_add(count));
    ask(
        "machines",
        machines,
        MOST_MACHINES,
        "from 1 to 1000 machines in all",
    );
    for end in [SOURCE, SINK]
        .iter()
        .filter(|end| spec.machines.contains_key(**end))
    {
        let found = format!("a kind named `{end}`").into();
        let expected = "another name, since ends of links are called so".into();
        faults.push(Fault::new(
            "machines",
            FaultKind::Contradiction { found, expected },
        ));
    }
}

/// A kind with its table and its links to the coordinator.
fn machine_kind(spec: &PlacementSpec, kind: &str, count: usize, faults: &mut Vec<Fault>) -> MachineKind {
    let at = format!("tokens_per_s_at_layers.{kind}");
    let mut rates = vec![0; spec.layers.min(MOST_LAYERS)];
    match spec.tokens_per_s_at_layers.get(kind) {
        None if count > 0 => faults.push(Fault::new(
            at,
            FaultKind::Missing {
                what: format!("tokens a second of `{kind}`"),
                expected: "what passes through a machine by the number of layers that it holds".into(),
                remedy: "add them, or take the machines away".into(),
            },
        )),
        None => {}
        Some(table) => {
            for (layers, &tokens) in table {
                let at = format!("{at}.{layers}");
                let found = rate(&at, tokens, MOST_OF_A_MACHINE, faults);
                match layers.parse::<usize>() {
                    Ok(layers) if layers > 0 => {
                        if let Some(known) = rates.get_mut(layers - 1) {
                            *known = found;
                        }
                    }
                    _ => {
                        let (found, expected) = (format!("`{layers}`"), "a number of layers from 1".into());
                        faults.push(Fault::new(at, FaultKind::WrongType { found, expected }));
                    }
                }
            }
        }
    }
    let link = |field: &str, of: fn(&LinksSpec) -> f64, faults: &mut Vec<Fault>| {
        let at = format!("smallest_link_tokens_per_s.{field}");
        let link = spec.smallest_link_tokens_per_s.as_ref();
        link.map_or(u64::MAX, |link| rate(&at, of(link), MOST_OF_A_LINK, faults))
    };
    // The two are the same for all kinds, and wrong once.
    let mut again = Vec::new();
    let is_first = spec.machines.keys().next().is_some_and(|first| first == kind);
    let faults = if is_first { faults } else { &mut again };
    MachineKind {
        name: kind.into(),
        count,
        rates,
        from_source: link("from_source", |link| link.from_source, faults),
        to_sink: link("to_sink", |link| link.to_sink, faults),
    }
}

/// Tokens a second in parts.
fn rate(at: &str, tokens: f64, most: f64, faults: &mut Vec<Fault>) -> u64 {
    if !(0.0..=most).contains(&tokens) {
        let expected = match most == MOST_OF_A_MACHINE {
            true => "tokens a second from 0 to 1e9",
            false => "tokens a second from 0 to 1e12",
        };
        faults.push(Fault::new(
            at,
            FaultKind::BadNumber {
                found: tokens,
                expected,
            },
        ));
        return 0;
    }
    (tokens * PARTS).round() as u64
}

fn unknown_kind(at: String, name: &str, names: &[String]) -> Fault {
    let similar = closest(name, names).map(str::to_owned);
    let (what, name) = ("machine kind", name.to_owned());
    Fault::new(at, FaultKind::UnknownName { what, name, similar })
}

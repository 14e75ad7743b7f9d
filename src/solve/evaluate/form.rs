//! From stages that somebody names to stages of a plan, or everything that keeps them from being one.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::model::fault::{Fault, FaultKind, Piece, closest};
use crate::model::instance::Instance;
use crate::model::options::{Groups, OptimizerOffload};
use crate::model::setting;
use crate::model::settings::Settings;
use crate::model::words::words;
use crate::problem::plan::PlanMode;
use crate::problem::plan::PlanStage;
use crate::problem::plan::bare::{BarePlan, BareStage};

/// The most faults that are looked for; a plan with more has one cause.
const MOST_FAULTS: usize = 1_000;

/// The stages of a plan, with no numbers yet.
///
/// # Errors
///
/// Every fault of the stages, at its place.
pub(super) fn stages(
    instance: &Instance,
    settings: &Settings,
    bare: &BarePlan,
) -> Result<Vec<PlanStage>, Vec<Fault>> {
    let mut form = Form {
        instance,
        settings,
        names: instance
            .network
            .layers
            .iter()
            .map(|layer| layer.id.clone())
            .collect(),
        position: (instance.network.layers.iter().enumerate())
            .map(|(at, layer)| (layer.id.as_str(), at))
            .collect(),
        faults: Vec::new(),
    };
    form.refuse_too_many(bare.stages.len())?;
    let passes = form.passes(bare);
    let devices = form.devices(bare);
    let modes: Vec<Option<PlanMode>> = (bare.stages.iter().enumerate())
        .map(|(k, stage)| form.mode(k, stage))
        .collect();
    if !form.faults.is_empty() {
        form.faults.truncate(MOST_FAULTS);
        return Err(form.faults);
    }
    let mut stages = Vec::with_capacity(passes.len());
    for (([forward, backward], devices), mode) in passes.into_iter().zip(devices).zip(modes) {
        stages.push(PlanStage {
            index: stages.len() + 1,
            forward: form.named(forward),
            backward: form.named(backward),
            devices,
            shares: BTreeMap::new(),
            load_ms: 0.0,
            forward_ms: 0.0,
            backward_ms: 0.0,
            weight_ms: None,
            communication_ms: 0.0,
            transfers: None,
            synchronization_ms: None,
            memory_bytes: 0,
            in_flight: None,
            weight_versions: None,
            mode,
            chunks_ms: Vec::new(),
            chunk_transfers: Vec::new(),
        });
    }
    Ok(stages)
}

struct Form<'a> {
    instance: &'a Instance,
    settings: &'a Settings,
    names: Vec<String>,
    position: HashMap<&'a str, usize>,
    faults: Vec<Fault>,
}

/// Layers of the forward and of the backward pass of a stage, by position.
type Passes = [Vec<usize>; 2];

impl Form<'_> {
    fn named(&self, mut layers: Vec<usize>) -> Vec<String> {
        layers.sort_unstable();
        layers.iter().map(|&at| self.names[at].clone()).collect()
    }

    fn fault(&mut self, at: impl Into<Piece>, kind: FaultKind) {
        if self.faults.len() <= MOST_FAULTS {
            self.faults.push(Fault::new(at, kind));
        }
    }

    /// Refuses a list that is longer than any plan: costing it would take memory for every one of its stages.
    fn refuse_too_many(&self, found: usize) -> Result<(), Vec<Fault>> {
        /// Chunks that may be empty without a word: there may be many devices for few layers.
        const MOST_EMPTY: usize = 4_096;
        let layers = self.names.len();
        let chunks = match self.settings.has_virtual_stages() {
            true => self.settings.chunks().min(MOST_EMPTY),
            false => 0,
        };
        let most = chunks.max(2 * layers * self.settings.virtual_stages.max(1));
        if found <= most {
            return Ok(());
        }
        let kind = FaultKind::Conflict {
            found: format!("{found} stages").into(),
            expected: format!("at most {most} for {layers} layers with two passes each").into(),
            remedy: "number the stages along the pipeline: 1, 2, 3".into(),
        };
        Err(vec![Fault::new("stages", kind)])
    }

    /// The layers of every stage, each pass of each layer once.
    fn passes(&mut self, bare: &BarePlan) -> Vec<Passes> {
        let layers = &self.instance.network.layers;
        let trains = self.settings.mode.trains();
        let is_explicit = self.instance.network.has_explicit_backward();
        let mut seen = [vec![None; layers.len()], vec![None; layers.len()]];
        let mut all = Vec::with_capacity(bare.stages.len());
        for (k, stage) in bare.stages.iter().enumerate() {
            let mut passes = Passes::default();
            let forward = self.known(k, "layers", &stage.layers);
            let backward = stage.backward.as_ref();
            let backward = backward.map(|names| self.known(k, "backward", names));
            // Chunks keep their places, empty ones too.
            let may_be_empty = self.settings.has_virtual_stages();
            if !may_be_empty && stage.layers.is_empty() && backward.as_ref().is_none_or(Vec::is_empty) {
                let kind = FaultKind::Missing {
                    what: "layer".into(),
                    expected: "at least one in every stage".into(),
                    remedy: "leave the stage out; stages are numbered from 1 without a gap".into(),
                };
                self.fault(format!("stages[{k}]"), kind);
            }
            let own = forward.iter().filter(|&&at| !layers[at].backward);
            own.for_each(|&at| self.place((k, at, 0), &mut passes, &mut seen));
            // Operators of an explicit backward graph may stand in either list; other layers have both passes.
            let operators = forward.iter().filter(|&&at| layers[at].backward).copied();
            let gradients: Vec<usize> = match (is_explicit, backward) {
                (true, backward) => {
                    let others = backward.into_iter().flatten();
                    operators
                        .chain(others.filter(|&at| layers[at].backward))
                        .collect()
                }
                (false, Some(backward)) => backward,
                // Those that are placed at all: of the others it is said already.
                (false, None) => passes[0].clone(),
            };
            if trains {
                let mut place = |at| self.place((k, at, 1), &mut passes, &mut seen);
                gradients.into_iter().for_each(&mut place);
            }
            all.push(passes);
        }
        self.left_out(&seen, is_explicit);
        all
    }

    /// Positions of layers that exist.
    fn known(&mut self, k: usize, field: &str, names: &[String]) -> Vec<usize> {
        let mut known = Vec::with_capacity(names.len());
        for name in names {
            match self.position.get(name.as_str()) {
                Some(&at) => known.push(at),
                None if self.faults.len() >= MOST_FAULTS => {}
                None => {
                    let kind = FaultKind::UnknownName {
                        what: "layer",
                        name: name.clone(),
                        similar: closest(name, &self.names).map(str::to_owned),
                    };
                    self.fault(format!("stages[{k}].{field}"), kind);
                }
            }
        }
        known
    }

    /// Places a pass of a layer in a stage, unless it has a stage already.
    fn place(
        &mut self,
        (k, at, pass): (usize, usize, usize),
        passes: &mut Passes,
        seen: &mut [Vec<Option<usize>>; 2],
    ) {
        let Some(before) = seen[pass][at] else {
            seen[pass][at] = Some(k);
            passes[pass].push(at);
            return;
        };
        let pass = ["the layer", "the backward pass of the layer"][pass];
        let kind = FaultKind::Conflict {
            found: format!("{pass} `{}` again", self.names[at]).into(),
            expected: format!("every layer once, and it lies in stages[{before}]").into(),
            remedy: "name it in one stage alone".into(),
        };
        self.fault(format!("stages[{k}]"), kind);
    }

    /// Layers without a stage.
    fn left_out(&mut self, seen: &[Vec<Option<usize>>; 2], is_explicit: bool) {
        let instance = self.instance;
        let trains = self.settings.mode.trains();
        for (at, layer) in instance.network.layers.iter().enumerate() {
            let is_missing = match (layer.backward, trains) {
                (true, false) => false,
                (true, true) => seen[1][at].is_none(),
                (false, _) => seen[0][at].is_none(),
            };
            let lacks_gradient = !is_missing && trains && !is_explicit && seen[1][at].is_none();
            let what = match (is_missing, lacks_gradient) {
                (true, _) => format!("stage for the layer `{}`", layer.id),
                (_, true) => format!("stage for the backward pass of the layer `{}`", layer.id),
                _ => continue,
            };
            let kind = FaultKind::Missing {
                what,
                expected: "one for every layer".into(),
                remedy: "name it in a stage".into(),
            };
            self.fault("stages", kind);
        }
    }

    /// What every stage runs on: what it names, or where devices are all of one kind the next ones; a chunk on the device where the
    /// placement puts it.
    fn devices(&mut self, bare: &BarePlan) -> Vec<Vec<String>> {
        let kinds = &self.instance.cluster.kinds;
        let named: BTreeSet<&String> = bare.stages.iter().flat_map(|stage| &stage.devices).collect();
        let mut used: BTreeMap<&str, usize> = BTreeMap::new();
        let mut next = |kind: &'_ str| -> Option<String> {
            let kind = kinds.iter().find(|known| known.name == kind)?;
            let number = used.entry(&kind.name).or_insert(0);
            loop {
                *number += 1;
                let device = format!("{}:{number}", kind.name);
                if !named.contains(&device) {
                    return Some(device);
                }
            }
        };
        let is_choice = self.settings.kinds.len() > 1 || !self.instance.cluster.groups.is_empty();
        let only = kinds[self.settings.kind].name.clone();
        let counted = self.settings.count(&self.instance.cluster, self.settings.kind);
        let most = counted.map_or(MOST_DEVICES, |count| count.saturating_add(1));
        let mut all = Vec::with_capacity(bare.stages.len());
        let mut faults = Vec::new();
        for (k, stage) in bare.stages.iter().enumerate() {
            let wanted = stage.mode.as_ref().map_or(1, |mode| {
                mode.tensor
                    .saturating_mul(mode.replicas)
                    .saturating_mul(mode.context)
                    .saturating_mul(mode.group)
            });
            // One more than there are is enough for the checker to tell.
            let wanted = wanted.clamp(1, most);
            let place = |k| self.settings.placement.device(k, self.settings.stages) + 1;
            let own = (self.settings.has_virtual_stages()).then(|| format!("{only}:{}", place(k)));
            let devices: Vec<String> = match (stage.devices.as_slice(), is_choice) {
                ([], _) if own.is_some() => own.into_iter().collect(),
                ([name], _) if *name == only && own.is_some() => own.into_iter().collect(),
                ([], false) => (0..wanted).filter_map(|_| next(&only)).collect(),
                ([], true) => {
                    let names: Vec<String> = (self.settings.kinds.iter())
                        .map(|&kind| format!("`{}`", kinds[kind].name))
                        .collect();
                    let kind = FaultKind::Missing {
                        what: "devices".into(),
                        expected: format!("those of the stage, of {}", names.join(", ")).into(),
                        remedy: "add them to the stage, such as `\"devices\": [\"gpu:1\"]`".into(),
                    };
                    faults.push((k, kind));
                    Vec::new()
                }
                // A kind without a number stands for its next device; what is no kind is for the checker to tell.
                (names, _) => names
                    .iter()
                    .map(|name| next(name).unwrap_or_else(|| name.clone()))
                    .collect(),
            };
            all.push(devices);
        }
        for (k, kind) in faults {
            self.fault(format!("stages[{k}]"), kind);
        }
        all
    }

    /// The mode of a stage: one device that computes nothing again, where the plan does not say, or as many as it names.
    fn mode(&mut self, k: usize, stage: &BareStage) -> Option<PlanMode> {
        if self.settings.modal {
            let devices = stage.devices.len().max(1);
            // Devices that cannot take turns share out every micro-batch, where they may.
            let is_group = self.settings.groups == Groups::Assign && !self.settings.replicas.allows(devices);
            let [group, replicas] = if is_group { [devices, 1] } else { [1, devices] };
            let plain = || PlanMode {
                tensor: 1,
                expert: 1,
                context: 1,
                group,
                replicas,
                recomputed: BTreeMap::new(),
                optimizer_offload: self.settings.optimizer_offload == OptimizerOffload::All,
                host_bytes: 0,
            };
            return Some(stage.mode.clone().unwrap_or_else(plain));
        }
        if stage.mode.is_some() {
            let kind = FaultKind::Conflict {
                found: "a mode".into(),
                expected: "none: the problem leaves none open".into(),
                remedy: words!(
                    "ask for {}, {} or {}, or leave the mode out",
                    setting::TENSOR,
                    setting::REPLICAS,
                    setting::RECOMPUTE
                ),
            };
            self.fault(format!("stages[{k}].mode"), kind);
        }
        None
    }
}

/// Devices that are listed for one stage, at most.
const MOST_DEVICES: usize = 1_000_000;

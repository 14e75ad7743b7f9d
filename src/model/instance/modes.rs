//! Validation of the modes of layers.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::build::{Checks, Rates};
use super::layers::{has_times, says_attention};
use crate::model::fault::FaultKind;
use crate::model::network::{Cache, LayerMode, Times};
use crate::model::recompute;
use crate::model::spec::{LayerSpec, ModeSpec};

/// What a layer is without modes: where its own fields give no time, its first mode of degree 1, or else its first.
pub(super) fn base(spec: &LayerSpec) -> Cow<'_, LayerSpec> {
    let alone = spec.modes.iter().find(|mode| is_of_one_device(mode));
    let Some(mode) = alone.or(spec.modes.first()) else {
        return Cow::Borrowed(spec);
    };
    if !is_of_mode(spec) {
        return Cow::Borrowed(spec);
    }
    Cow::Owned(LayerSpec {
        attention_ms: mode.attention_ms.or(spec.attention_ms),
        fixed_ms: mode.fixed_ms.or(spec.fixed_ms),
        experts: mode.experts.clone(),
        stash_bytes: mode.stash_bytes,
        resident_bytes: mode.resident_bytes,
        kv_bytes_per_token: mode.kv_bytes_per_token,
        state_bytes_per_sequence: mode.state_bytes_per_sequence,
        ..timed(spec, mode)
    })
}

/// Whether that is one of its modes.
pub(super) fn is_of_mode(spec: &LayerSpec) -> bool {
    !spec.modes.is_empty() && !tells_times(spec)
}

/// Whether modes say what fields of the layer do not, of a layer that says nothing of itself on one device.
pub(super) fn tell_more(spec: &LayerSpec) -> bool {
    let is_some = |bytes: &BTreeMap<String, f64>| bytes.values().any(|&bytes| bytes > 0.0);
    let has_more = |mode: &ModeSpec| {
        mode.workspace_bytes > 0.0 || is_some(&mode.input_bytes) || is_some(&mode.output_bytes)
    };
    let alone = spec.modes.iter().find(|mode| is_of_one_device(mode));
    !spec.modes.is_empty() && !tells_times(spec) && alone.is_none_or(has_more)
}

fn tells_times(spec: &LayerSpec) -> bool {
    has_times(spec) || spec.work.is_some() || !spec.times.is_empty()
}

fn is_of_one_device(mode: &ModeSpec) -> bool {
    mode.tensor.unwrap_or(1) == 1
}

/// A layer with the times of one of its modes.
fn timed(spec: &LayerSpec, mode: &ModeSpec) -> LayerSpec {
    // What the layer says of a measured time on one device holds for such modes.
    let is_measured = is_of_one_device(mode) && mode.forward_ms.is_some();
    let of_layer = |part_ms: Option<f64>| part_ms.filter(|_| is_measured);
    LayerSpec {
        id: spec.id.clone(),
        operator: spec.operator.clone(),
        forward_ms: mode.forward_ms,
        backward_ms: mode.backward_ms,
        weight_ms: mode.weight_ms,
        attention_ms: mode.attention_ms.or(of_layer(spec.attention_ms)),
        fixed_ms: mode.fixed_ms.or(of_layer(spec.fixed_ms)),
        times: mode.times.clone(),
        work: mode.work.clone(),
        parameter_bytes: mode.parameter_bytes,
        tie: spec.tie.clone(),
        shared: spec.shared.clone(),
        shared_bytes: mode.shared_bytes,
        frozen: spec.frozen,
        reads_input: spec.reads_input,
        backward: spec.backward,
        ..LayerSpec::default()
    }
}

impl Checks {
    /// The modes of a layer; `positions` are those of all layers.
    pub(super) fn modes(
        &mut self,
        at: &str,
        spec: &LayerSpec,
        rates: &Rates,
        positions: &HashMap<&str, usize>,
    ) -> Vec<LayerMode> {
        let mut modes: Vec<LayerMode> = Vec::with_capacity(spec.modes.len());
        for (i, mode) in spec.modes.iter().enumerate() {
            let at = format!("{at}.modes[{i}]");
            let mode = LayerMode {
                input_bytes: self.bytes_beside(&at, "input_bytes", &mode.input_bytes, positions),
                output_bytes: self.bytes_beside(&at, "output_bytes", &mode.output_bytes, positions),
                ..self.mode(&at, spec, mode, rates)
            };
            self.mode_beside(&at, &mode, &modes);
            let kept = [
                (
                    "kv_bytes_per_token",
                    spec.kv_bytes_per_token,
                    mode.cache.token_bytes,
                ),
                (
                    "state_bytes_per_sequence",
                    spec.state_bytes_per_sequence,
                    mode.cache.sequence_bytes,
                ),
            ];
            for (field, of_layer, _) in kept.into_iter().filter(|&(_, of, own)| of > 0.0 && own == 0) {
                self.add(
                    format!("{at}.{field}"),
                    FaultKind::Contradiction {
                        found: format!("none in a mode of a layer of {of_layer} bytes").into(),
                        expected: "what each device of the group keeps".into(),
                    },
                );
            }
            modes.push(mode);
        }
        modes
    }

    /// A mode without what moves beside tensors.
    fn mode(&mut self, at: &str, layer: &LayerSpec, spec: &ModeSpec, rates: &Rates) -> LayerMode {
        let tensor = spec.tensor.unwrap_or(1);
        self.count(format!("{at}.tensor"), tensor);
        let name = spec.recompute.clone().unwrap_or(recompute::NONE.to_owned());
        if name.is_empty() || name.contains(',') || name.eq_ignore_ascii_case("choose") {
            self.add(
                format!("{at}.recompute"),
                FaultKind::Contradiction {
                    found: format!("the name `{name}`").into(),
                    expected: "a name without commas that is not `choose`, such as `full`".into(),
                },
            );
        }
        let timed = timed(layer, spec);
        if let Some(work) = &spec.work {
            self.work(&format!("{at}.work"), work);
        }
        let kinds = 0..rates.profiles.len();
        let mut size = |field, value| self.size(at, field, value);
        let parameter_bytes = size("parameter_bytes", spec.parameter_bytes);
        let mode = LayerMode {
            tensor,
            recompute: name,
            times: Vec::new(),
            readings: Vec::new(),
            says_attention: says_attention(&timed),
            parameter_bytes,
            shared_bytes: 0,
            experts: None,
            gradient_bytes: spec
                .gradient_bytes
                .map_or(parameter_bytes, |bytes| size("gradient_bytes", bytes)),
            stash_bytes: size("stash_bytes", spec.stash_bytes),
            host_bytes: 0,
            resident_bytes: size("resident_bytes", spec.resident_bytes),
            cache: Cache {
                token_bytes: size("kv_bytes_per_token", spec.kv_bytes_per_token),
                sequence_bytes: size("state_bytes_per_sequence", spec.state_bytes_per_sequence),
            },
            workspace_bytes: size("workspace_bytes", spec.workspace_bytes),
            collective_bytes: size("collective_bytes", spec.collective_bytes),
            input_bytes: Vec::new(),
            output_bytes: Vec::new(),
        };
        let experts = self.experts(at, spec.experts.as_ref(), parameter_bytes);
        let own_bytes = experts.map_or(0, |experts| experts.parameter_bytes);
        if !layer.frozen && mode.gradient_bytes < own_bytes {
            self.add(
                format!("{at}.gradient_bytes"),
                FaultKind::Contradiction {
                    found: format!(
                        "{} bytes of gradients, fewer than experts have",
                        mode.gradient_bytes
                    )
                    .into(),
                    expected: format!("at least the {own_bytes} of the experts").into(),
                },
            );
        }
        let times: Vec<Option<Times>> = kinds.map(|kind| self.times(at, &timed, rates, kind)).collect();
        LayerMode {
            experts,
            shared_bytes: self.shared_size(
                at,
                (spec.shared_bytes, spec.parameter_bytes),
                layer.shared.as_deref(),
            ),
            readings: self.readings(at, &timed, rates, &times),
            times,
            ..mode
        }
    }

    /// Bytes by layer; those that are 0 say nothing.
    fn bytes_beside(
        &mut self,
        at: &str,
        field: &str,
        bytes: &BTreeMap<String, f64>,
        positions: &HashMap<&str, usize>,
    ) -> Vec<(usize, u64)> {
        let mut found = Vec::with_capacity(bytes.len());
        for (name, &bytes) in bytes {
            let bytes = self.size(at, field, bytes);
            match positions.get(name.as_str()) {
                Some(&layer) if bytes > 0 => found.push((layer, bytes)),
                Some(_) => {}
                None => self.add(
                    format!("{at}.{field}"),
                    FaultKind::UnknownName {
                        what: "layer",
                        name: name.clone(),
                        similar: None,
                    },
                ),
            }
        }
        found.sort_unstable();
        found
    }

    /// A mode against those before it: none is there twice, and recomputation changes no weights.
    fn mode_beside(&mut self, at: &str, mode: &LayerMode, before: &[LayerMode]) {
        let Some(other) = before.iter().find(|other| other.tensor == mode.tensor) else {
            return;
        };
        let of_degree = before.iter().filter(|other| other.tensor == mode.tensor);
        if of_degree.clone().any(|other| other.recompute == mode.recompute) {
            let (tensor, recompute) = (mode.tensor, &mode.recompute);
            self.add(
                at,
                FaultKind::Contradiction {
                    found: format!("a second mode of degree {tensor} with recomputation `{recompute}`")
                        .into(),
                    expected: "one of each".into(),
                },
            );
        }
        let same = [
            ("parameter_bytes", mode.parameter_bytes == other.parameter_bytes),
            ("shared_bytes", mode.shared_bytes == other.shared_bytes),
            ("experts", weights_of(mode) == weights_of(other)),
            ("gradient_bytes", mode.gradient_bytes == other.gradient_bytes),
            ("kv_bytes_per_token", mode.cache == other.cache),
            ("input_bytes", mode.input_bytes == other.input_bytes),
            ("output_bytes", mode.output_bytes == other.output_bytes),
        ];
        for (field, _) in same.into_iter().filter(|(_, is_same)| !is_same) {
            self.add(
                format!("{at}.{field}"),
                FaultKind::Contradiction {
                    found: format!("other than in the first mode of degree {}", mode.tensor).into(),
                    expected: "the same for all modes of a degree: they differ in what is computed again"
                        .into(),
                },
            );
        }
    }
}

/// How many experts a mode has, and of how many bytes.
fn weights_of(mode: &LayerMode) -> Option<(usize, u64)> {
    mode.experts
        .map(|experts| (experts.count, experts.parameter_bytes))
}

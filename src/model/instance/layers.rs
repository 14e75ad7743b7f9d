//! Validation of layers: sizes, and times on every kind of device.

use super::build::{Checks, Rates};
use super::modes;
use crate::model::fault::{FaultKind, closest};
use crate::model::network::{Cache, Layer, Times};
use crate::model::prompt::Reading;
use crate::model::roofline;
use crate::model::spec::{KernelSpec, LayerSpec, TimesSpec, WorkSpec};
use crate::model::units::{NS_PER_MS, ns_to_ms};

/// By what factor a sum of parts may exceed the whole by rounding.
const ROUNDED: f64 = 1.0 + 1e-9;

impl Checks {
    /// A layer with its times on every kind of device.
    pub(super) fn layer(&mut self, at: &str, spec: &LayerSpec, rates: &Rates) -> Layer {
        let only_in_modes = modes::tell_more(spec);
        let spec = &*modes::base(spec);
        let bytes = [
            ("parameter_bytes", spec.parameter_bytes),
            ("stash_bytes", spec.stash_bytes),
            ("resident_bytes", spec.resident_bytes),
            ("kv_bytes_per_token", spec.kv_bytes_per_token),
            ("state_bytes_per_sequence", spec.state_bytes_per_sequence),
        ]
        .map(|(field, value)| self.size(at, field, value));
        let shared_bytes = self.shared_size(
            at,
            (spec.shared_bytes, spec.parameter_bytes),
            spec.shared.as_deref(),
        );
        let experts = self.experts(at, spec.experts.as_ref(), bytes[0]);
        self.backward_fields(at, spec);
        if let Some(work) = &spec.work {
            self.work(&format!("{at}.work"), work);
        }
        self.measured_kinds(at, spec, &rates.profiles);
        let times: Vec<Option<Times>> = (0..rates.profiles.len())
            .map(|kind| self.times(at, spec, rates, kind))
            .collect();
        let readings = self.readings(at, spec, rates, &times);
        if times.iter().all(Option::is_none) && !times.is_empty() {
            self.add(
                at,
                FaultKind::FitsNoDevice {
                    reason: if spec.work.is_some() {
                        "it has work, but no device kind has `flops_per_s` and `memory_bytes_per_s`".into()
                    } else {
                        "it has a time on no device kind".to_owned()
                    },
                },
            );
        }
        Layer {
            id: spec.id.clone(),
            operator: spec.operator.clone(),
            times,
            readings,
            says_attention: says_attention(spec),
            parameter_bytes: bytes[0],
            stash_bytes: bytes[1],
            resident_bytes: bytes[2],
            cache: Cache {
                token_bytes: bytes[3],
                sequence_bytes: bytes[4],
            },
            tie: spec.tie.clone(),
            shared: spec.shared.clone(),
            shared_bytes,
            experts,
            frozen: spec.frozen,
            returns: true,
            frozen_bytes: 0,
            reads_input: spec.reads_input,
            backward: spec.backward,
            modes: Vec::new(),
            only_in_modes,
        }
    }

    /// What backward operators cannot say.
    fn backward_fields(&mut self, at: &str, spec: &LayerSpec) {
        if spec.backward && (spec.forward_ms.is_some() || spec.times.values().any(|t| t.forward_ms.is_some()))
        {
            self.add(
                format!("{at}.forward_ms"),
                FaultKind::Contradiction {
                    found: "a forward time of a backward operator".into(),
                    expected: "only `backward_ms` where `backward` is true".into(),
                },
            );
        }
        if spec.backward && spec.frozen {
            self.add(
                format!("{at}.frozen"),
                FaultKind::Contradiction {
                    found: "a frozen backward operator".into(),
                    expected: "`frozen` of layers that have weights; leave out operators that are not run"
                        .into(),
                },
            );
        }
    }

    /// Names of device kinds: wrong where a layer has only times on kinds, and none of these is known.
    fn measured_kinds(&mut self, at: &str, spec: &LayerSpec, known: &[String]) {
        let has_others = has_times(spec) || spec.work.is_some();
        if has_others || spec.times.keys().any(|kind| known.contains(kind)) {
            return;
        }
        for kind in spec.times.keys() {
            self.add(
                format!("{at}.times"),
                FaultKind::UnknownName {
                    what: "device kind",
                    name: kind.clone(),
                    similar: closest(kind, known).map(str::to_owned),
                },
            );
        }
    }

    /// Amounts of work, each on its own: of a wrong one and a right one the roofline would take the right one.
    pub(super) fn work(&mut self, at: &str, spec: &WorkSpec) {
        let parts = [
            ("weight_flops", spec.weight_flops),
            ("weight_bytes", spec.weight_bytes),
            ("attention_flops", spec.attention_flops.unwrap_or(0.0)),
        ];
        for (field, found) in spec.whole().amounts().into_iter().chain(parts) {
            self.amount(format!("{at}.{field}"), found);
        }
        let parts = [
            ("flops", spec.weight_flops, spec.backward_flops),
            ("bytes", spec.weight_bytes, spec.backward_bytes),
        ];
        for (unit, weight, backward) in parts
            .into_iter()
            .filter(|(_, weight, backward)| weight > backward)
        {
            self.more_than_backward(at, unit, [weight, backward]);
        }
        self.kernels(at, spec);
        let attention = spec.attention_flops.unwrap_or(0.0);
        let forward = spec.rest().forward_flops;
        if attention > forward * ROUNDED {
            self.more_than_forward(at, "attention_flops", [attention, forward]);
        }
    }

    /// Parts of the work that take turns: together at most all of it.
    fn kernels(&mut self, at: &str, spec: &WorkSpec) {
        for (i, kernel) in spec.kernels.iter().enumerate() {
            for (field, found) in kernel.amounts() {
                self.amount(format!("{at}.kernels[{i}].{field}"), found);
            }
        }
        for (k, (field, all)) in spec.whole().amounts().into_iter().enumerate() {
            let sum: f64 = spec.kernels.iter().map(|kernel| kernel.amounts()[k].1).sum();
            if sum > all * ROUNDED {
                let kind = FaultKind::Contradiction {
                    found: format!("{sum} of `{field}` in all, more than the {all} of the work").into(),
                    expected: "parts of the work".into(),
                };
                self.add(format!("{at}.kernels"), kind);
            }
        }
    }

    /// An amount of work.
    fn amount(&mut self, at: String, found: f64) {
        if !(found.is_finite() && found >= 0.0) {
            let expected = "a finite number from 0";
            self.add(at, FaultKind::BadNumber { found, expected });
        }
    }

    /// Parts of a forward pass that are more than all of it.
    fn more_than_forward(&mut self, at: &str, part: &str, [found, forward]: [f64; 2]) {
        let kind = FaultKind::Contradiction {
            found: format!("{found}, more than the {forward} of the forward pass").into(),
            expected: "a part of it".into(),
        };
        self.add(format!("{at}.{part}"), kind);
    }

    /// Gradients of weights that are more than the backward pass which they are a part of.
    fn more_than_backward(&mut self, at: &str, unit: &str, [weight, backward]: [f64; 2]) {
        self.add(
            format!("{at}.weight_{unit}"),
            FaultKind::Conflict {
                found: format!("{weight}, more than the {backward} of `backward_{unit}`").into(),
                expected: format!("at most `backward_{unit}`, which includes the gradients of weights")
                    .into(),
                remedy: format!("give in `backward_{unit}` both gradients together").into(),
            },
        );
    }

    /// Times on one kind: measured there, else measured for any kind, else from work and rates.
    pub(super) fn times(&mut self, at: &str, spec: &LayerSpec, rates: &Rates, kind: usize) -> Option<Times> {
        let profile = &rates.profiles[kind];
        let (place, said) = match spec.times.get(profile) {
            Some(times) => (format!("{at}.times.{profile}"), times.clone()),
            None if has_times(spec) => (at.to_owned(), own_times(spec)),
            None => {
                let work = spec.work.as_ref()?;
                let (flops_per_s, memory_bytes_per_s) =
                    (rates.flops_per_s[kind]?, rates.memory_bytes_per_s[kind]?);
                let kind = &rates.cluster.kinds[kind];
                let part = kind.efficiency_of(spec.operator.as_deref());
                let times = roofline::times(work, part * flops_per_s, part * memory_bytes_per_s);
                (
                    format!("{at}.work"),
                    roofline::launched(times, ns_to_ms(kind.launch_ns)),
                )
            }
        };
        let mut read = |field, ms: Option<f64>| ms.map_or(0, |ms| self.time(&place, field, ms));
        let times = Times {
            forward_ns: read("forward_ms", said.forward_ms),
            backward_ns: read("backward_ms", said.backward_ms),
            weight_ns: read("weight_ms", said.weight_ms),
        };
        let both = [said.weight_ms, said.backward_ms].map(Option::unwrap_or_default);
        // A backward time that is none has been told so.
        if times.weight_ns > times.backward_ns && both[1] >= 0.0 {
            self.more_than_backward(&place, "ms", both);
        }
        Some(times)
    }

    /// Of which parts forward times on all kinds are made.
    pub(super) fn readings(
        &mut self,
        at: &str,
        spec: &LayerSpec,
        rates: &Rates,
        times: &[Option<Times>],
    ) -> Vec<Option<Reading>> {
        let kinds = times.iter().enumerate();
        let readings = kinds.map(|(kind, times)| Some(self.reading(at, spec, rates, (kind, (*times)?))));
        readings.collect()
    }

    /// Of which parts the forward time on a kind is made, on the same path as [`times`](Self::times).
    fn reading(
        &mut self,
        at: &str,
        spec: &LayerSpec,
        rates: &Rates,
        (kind, times): (usize, Times),
    ) -> Reading {
        let profile = &rates.profiles[kind];
        let forward_ns = times.forward_ns as f64;
        let (place, said) = match spec.times.get(profile) {
            Some(said) => (format!("{at}.times.{profile}"), said.clone()),
            None if has_times(spec) => (at.to_owned(), own_times(spec)),
            None => return self.reading_of_work(at, spec, rates, kind),
        };
        let mut read = |field, ms: Option<f64>| ms.map_or(0, |ms| self.time(&place, field, ms));
        let attention = read("attention_ms", said.attention_ms) as f64;
        let fixed = read("fixed_ms", said.fixed_ms) as f64;
        if attention + fixed > forward_ns {
            let field = ["attention_ms", "fixed_ms"][usize::from(said.attention_ms.is_none())];
            let found = [(attention + fixed) / NS_PER_MS, forward_ns / NS_PER_MS];
            self.more_than_forward(&place, field, found);
        }
        Reading {
            fixed,
            attention,
            arithmetic: (forward_ns - attention - fixed).max(0.0),
            ..Reading::default()
        }
    }

    /// The same by a roofline: weights are read anew for each chunk, and a launch takes as long.
    fn reading_of_work(&mut self, at: &str, spec: &LayerSpec, rates: &Rates, kind: usize) -> Reading {
        let said = [spec.attention_ms, spec.fixed_ms];
        if said.iter().any(Option::is_some) {
            let kind = FaultKind::Contradiction {
                found: "a part of a time where `work` says what the layer takes".into(),
                expected: "`attention_flops` of the work, or `forward_ms`".into(),
            };
            self.add(format!("{at}.attention_ms"), kind);
        }
        let work = spec.work.as_ref();
        let peaks = rates.flops_per_s[kind].zip(rates.memory_bytes_per_s[kind]);
        let Some((work, (flops_per_s, bytes_per_s))) = work.zip(peaks) else {
            return Reading::default();
        };
        let device = &rates.cluster.kinds[kind];
        let part = device.efficiency_of(spec.operator.as_deref());
        let ns = |amount: f64, per_s: f64| 1e9 * amount / (part * per_s);
        let attention = work.attention_flops.unwrap_or(0.0);
        let [flops, bytes] = work.rest().forward();
        // What takes turns is in proportion to tokens, and longer than both.
        let kernels = work.kernels.iter().map(KernelSpec::forward);
        let in_turn: f64 = kernels
            .map(|[flops, bytes]| ns(flops, flops_per_s).max(ns(bytes, bytes_per_s)))
            .sum();
        let weights = spec.parameter_bytes.min(bytes);
        let is_idle = work.forward_flops <= 0.0 && work.forward_bytes <= 0.0;
        Reading {
            fixed: if is_idle { 0.0 } else { device.launch_ns as f64 },
            arithmetic: ns((flops - attention).max(0.0), flops_per_s) + in_turn,
            attention: ns(attention, flops_per_s),
            weights: ns(weights, bytes_per_s),
            traffic: ns(bytes - weights, bytes_per_s) + in_turn,
        }
    }
}

/// Whether a layer says what of its forward pass is attention, even if it is nothing.
pub(super) fn says_attention(spec: &LayerSpec) -> bool {
    let of_kinds = spec.times.values().any(|times| times.attention_ms.is_some());
    let of_work = spec
        .work
        .as_ref()
        .is_some_and(|work| work.attention_flops.is_some());
    spec.attention_ms.is_some() || of_kinds || of_work
}

/// Whether a layer says times of its own, for kinds that it does not name.
pub(super) fn has_times(spec: &LayerSpec) -> bool {
    let times = [spec.forward_ms, spec.backward_ms, spec.weight_ms];
    times.iter().any(Option::is_some)
}

pub(super) fn own_times(spec: &LayerSpec) -> TimesSpec {
    TimesSpec {
        forward_ms: spec.forward_ms,
        backward_ms: spec.backward_ms,
        weight_ms: spec.weight_ms,
        attention_ms: spec.attention_ms,
        fixed_ms: spec.fixed_ms,
    }
}

//! What PipeDream would plan: its program knows equal devices alone, so it is given devices of mean speed on links of mean
//! bandwidth.
//!
//! In a pipeline of groups this is PipeDream's replicated program (D. Narayanan et al., SOSP 2019, section 3.1), for every
//! number of stages. Parallel pipelines are those of PipeDream-2BW (D. Narayanan et al., *Memory-efficient pipeline-parallel
//! DNN training*, ICML 2021): straight pipelines of one depth side by side, for every depth. The program is that of
//! [`pipedream_replicated`](crate::heuristics::pipedream_replicated); memory is left to the controller, which plans afresh
//! what does not fit.

use crate::heuristics::antichains::Laid;
use crate::heuristics::pipedream_replicated::lay;
use crate::model::instance::Instance;
use crate::model::options::{
    Communication, Groups, MemoryLimit, Mode, NoLimit, PipelineOptions, Synchronization,
};
use crate::model::settings::Settings;
use crate::model::spec::{
    ClusterSpec, DeviceKindSpec, InstanceSpec, LayerSpec, LinkSpec, NetworkSpec, TensorSpec,
};
use crate::model::units::NS_PER_MS;
use crate::problem::Problem;
use crate::problem::hybrid::plan::{Layout, Stage};
use crate::problem::hybrid::{Reading, Slot};
use crate::problem::workers::Workers;

/// The layout over these devices of a slot, which take places in their order; `None` where no mean device runs some layer.
pub fn layout(slot: &Slot, devices: &[usize]) -> Option<Layout> {
    let most = devices.len().min(slot.chain.layers());
    match slot.reading {
        Reading::PipelineOfGroups => {
            let plans = (1..=most).filter_map(|stages| laid(slot, devices, devices.len(), stages));
            let best = plans.min_by_key(|laid| laid.objective_ns)?;
            Some(vec![stages_of(&best, &mut devices.iter().copied())])
        }
        Reading::ParallelPipelines => {
            let plans = (1..=most).filter_map(|depth| {
                let width = devices.len() / depth;
                let laid = laid(slot, devices, depth, depth)?;
                let all = 0..slot.chain.layers();
                let ring_ms = slot.ring_ms(&all, width, slot.backbone_bytes_per_ms);
                let time_ms = laid.objective_ns as f64 / NS_PER_MS / width as f64 + ring_ms;
                Some((time_ms, width, laid))
            });
            let (_, width, best) = plans.min_by(|a, b| a.0.total_cmp(&b.0))?;
            let mut devices = devices.iter().copied();
            Some((0..width).map(|_| stages_of(&best, &mut devices)).collect())
        }
    }
}

/// PipeDream's plan of a batch on so many devices, each the mean of `devices`, in just so many stages.
pub(crate) fn laid(slot: &Slot, devices: &[usize], count: usize, stages: usize) -> Option<Laid> {
    let instance = Instance::from_spec(&mean_instance(slot, devices, count)).ok()?;
    let asked = PipelineOptions {
        stages: Some(stages),
        all_stages: Some(true),
        mode: Some(Mode::Training),
        communication: Some(Communication::Overlapped),
        groups: Some(Groups::Assign),
        synchronization: Some(Synchronization::Ring),
        memory_limit: Some(MemoryLimit::Unlimited(NoLimit::None)),
        ..PipelineOptions::default()
    };
    let settings = Settings::resolve(&instance, &asked).ok()?;
    let workers = Workers::new(&instance.cluster, &settings).ok()?;
    lay(&Problem::new(&instance, settings).ok()?, &workers, &|| false)
}

/// A row of layers with the mean times of a batch, half forward and half backward, on equal devices.
fn mean_instance(slot: &Slot, devices: &[usize], count: usize) -> InstanceSpec {
    let samples = f64::from(slot.samples);
    let chain = slot.chain;
    let layer = |l: usize| {
        let work_ms = |&d: &usize| chain.work_ms[slot.devices[d].kind][l] * slot.devices[d].slowdown;
        let half_ms = mean(devices.iter().map(work_ms)) * samples / 2.0;
        LayerSpec {
            id: l.to_string(),
            forward_ms: Some(half_ms),
            backward_ms: Some(half_ms),
            parameter_bytes: chain.parameter_bytes[l],
            ..LayerSpec::default()
        }
    };
    let tensor = |boundary: usize| TensorSpec {
        producer: (boundary - 1).to_string(),
        consumers: vec![boundary.to_string()],
        // The gradient takes the other half.
        bytes: Some(chain.cut_bytes[boundary] * samples / 2.0),
        ..TensorSpec::default()
    };
    let links = devices.iter().map(|&d| slot.devices[d].bandwidth_bytes_per_ms);
    let bandwidth_bytes_per_ms = mean(links.map(|link| link.min(slot.backbone_bytes_per_ms)));
    InstanceSpec {
        network: NetworkSpec {
            layers: (0..chain.layers()).map(layer).collect(),
            tensors: (1..chain.layers()).map(tensor).collect(),
            ..NetworkSpec::default()
        },
        cluster: Some(ClusterSpec {
            device_kinds: vec![DeviceKindSpec {
                name: "mean".into(),
                count: Some(count),
                ..DeviceKindSpec::default()
            }],
            link: Some(LinkSpec {
                bandwidth_bytes_per_s: bandwidth_bytes_per_ms * 1e3,
                latency_ms: slot.latency_ms,
                nodes: None,
            }),
            ..ClusterSpec::default()
        }),
        ..InstanceSpec::default()
    }
}

/// The mean of the finite ones: devices that run a layer. Infinite if there is none.
fn mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let finite: Vec<f64> = numbers.filter(|number| number.is_finite()).collect();
    match finite.is_empty() {
        true => f64::INFINITY,
        false => finite.iter().sum::<f64>() / finite.len() as f64,
    }
}

/// The stages of a plan, with the next devices in each.
fn stages_of(laid: &Laid, devices: &mut impl Iterator<Item = usize>) -> Vec<Stage> {
    let mut first = 0;
    let mut stages = Vec::new();
    for (stage, &count) in laid.devices.iter().enumerate() {
        let held = laid.assignment.iter().filter(|&&of| of == stage).count();
        stages.push(Stage {
            layers: first..first + held,
            devices: devices.by_ref().take(count).collect(),
        });
        first += held;
    }
    stages
}

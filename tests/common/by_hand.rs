//! Plans of stages that a test states itself, in training.

use std::collections::BTreeMap;

use stagecut::bound_source::BoundSource;
use stagecut::options::{Mode, PipelineOptions, Schedule};
use stagecut::plan::{Plan, PlanStage, SCHEMA, Statistics, Status, StoppedBy};
use stagecut::simulate::{Request, Simulation, simulate};

/// Stage `k` from 0 on, of a layer of its own on a device of its own, that moves nothing.
pub fn stage(k: usize, forward_ms: f64, backward_ms: f64) -> PlanStage {
    PlanStage {
        index: k + 1,
        forward: vec![format!("l{k}")],
        backward: vec![format!("l{k}")],
        devices: vec![format!("gpu:{}", k + 1)],
        shares: BTreeMap::new(),
        load_ms: forward_ms + backward_ms,
        forward_ms,
        backward_ms,
        weight_ms: None,
        communication_ms: 0.0,
        synchronization_ms: None,
        transfers: None,
        memory_bytes: 0,
        in_flight: None,
        weight_versions: None,
        mode: None,
        chunks_ms: Vec::new(),
        chunk_transfers: Vec::new(),
    }
}

/// The plan of these stages.
pub fn plan(stages: Vec<PlanStage>) -> Plan {
    Plan {
        schema: SCHEMA.into(),
        instance: "hand-made".into(),
        method: "hand".into(),
        status: Status::Feasible,
        stopped_by: StoppedBy::Completed,
        objective_ms: None,
        bound_ms: Some(0.0),
        gap: None,
        bound_source: BoundSource::None,
        tokens: None,
        tokens_bound: None,
        chunk_sizes: Vec::new(),
        problem: PipelineOptions {
            mode: Some(Mode::Training),
            ..PipelineOptions::default()
        },
        cluster: None,
        stages,
        split: None,
        reasons: Vec::new(),
        remedies: Vec::new(),
        unrestricted: None,
        run: None,
        throughput: None,
        times: Vec::new(),
        least_memory: None,
        order: None,
        overruns: Vec::new(),
        statistics: Statistics::default(),
    }
}

/// A run of it by a schedule.
pub fn run(plan: &Plan, order: Schedule, micro_batches: u64) -> Simulation {
    let request = Request {
        order: Some(order),
        micro_batches: Some(micro_batches),
        ..Request::default()
    };
    simulate(plan, &request).expect("the plan can be run")
}

//! The tasks of a pipeline: streams of one task a micro-batch, and the lanes they occupy.

use serde::Serialize;

use super::{Channels, Pace, Phase, PhaseTimes, Pipeline, StageTimes};
use crate::model::schedule::{Operation, Order};

/// What a lane does during an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Activity {
    /// Takes in what the stage before (backward: after) sends.
    Receive,
    /// Works.
    Compute,
    /// Hands on.
    Send,
}

/// A resource of a stage: it does one task at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// The worker of both phases.
    Worker,
    /// The forward channel of a concurrent worker.
    Forward,
    /// The backward channel of a concurrent worker.
    Backward,
    /// The link in.
    LinkIn,
    /// The link out.
    LinkOut,
}

/// One task a micro-batch: an activity of one phase on one stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Stage, from 0.
    pub stage: usize,
    pub phase: Phase,
    /// What the task is for; a worker that waits for its transfers receives and sends during its `Compute`.
    pub activity: Activity,
    /// Its lane on the first replica, by position; those of the other replicas follow.
    pub lane: usize,
    /// ns to receive, work and send, one after the other.
    pub parts: [u64; 3],
}

impl Stream {
    pub(crate) fn total_ns(&self) -> u64 {
        self.parts.iter().sum()
    }
}

/// A resource of a replica of a stage and the streams on it: at most one a pass, and one for gradients of weights that are apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    /// Stage, from 0.
    pub stage: usize,
    /// Its replica, from 0: it has every micro-batch whose number leaves this after division by `replicas`.
    pub replica: usize,
    /// Replicas of the stage.
    pub replicas: usize,
    pub resource: Resource,
    pub forward: Option<usize>,
    pub backward: Option<usize>,
    pub weight: Option<usize>,
}

impl Lane {
    /// How many of all micro-batches run here.
    pub(crate) fn share_of(&self, micro_batches: usize) -> usize {
        micro_batches.saturating_sub(self.replica).div_ceil(self.replicas)
    }

    /// The micro-batch that runs here after so many.
    pub(crate) fn micro_batch(&self, after: usize) -> usize {
        self.replica + after * self.replicas
    }
}

/// All streams and lanes of a pipeline. A micro-batch passes *positions* one by one: the stages in order, and in training
/// the stages once more in reverse order for backward propagation.
#[derive(Clone)]
pub(crate) struct Streams {
    pub streams: Vec<Stream>,
    pub lanes: Vec<Lane>,
    /// For every position the streams that receive, work and send.
    pub positions: Vec<Position>,
}

/// The streams of one position; transfers that take no time, or the worker's own, have none, nor have gradients of weights that
/// are not apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub receive: Option<usize>,
    pub compute: usize,
    pub send: Option<usize>,
    /// Behind the gradient of the input; no other position waits for it.
    pub weight: Option<usize>,
}

impl Streams {
    pub(crate) fn new(pipeline: &Pipeline) -> Self {
        let mut all = Self {
            streams: Vec::new(),
            lanes: Vec::new(),
            positions: Vec::new(),
        };
        for (stage, times) in pipeline.stages.iter().enumerate() {
            all.position(pipeline, stage, Phase::Forward, times.forward);
        }
        if pipeline.trains {
            for (stage, times) in pipeline.stages.iter().enumerate().rev() {
                all.position(pipeline, stage, Phase::Backward, times.backward);
            }
        }
        all
    }

    /// The same in training, with the two gradients of every backward pass apart.
    pub(crate) fn split(pipeline: &Pipeline) -> Self {
        let whole = |times: &StageTimes| PhaseTimes {
            work_ns: times.backward.work_ns - times.weight_ns,
            ..times.backward
        };
        let mut all = Self::new(&Pipeline {
            trains: false,
            ..pipeline.clone()
        });
        for (stage, times) in pipeline.stages.iter().enumerate().rev() {
            all.position(pipeline, stage, Phase::InputGradient, whole(times));
            let worker = (stage, Resource::Worker, times.replicas as usize);
            let parts = [0, times.weight_ns, 0];
            let weight = all.stream(worker, Phase::WeightGradient, Activity::Compute, parts);
            if let Some(position) = all.positions.last_mut() {
                position.weight = Some(weight);
            }
        }
        all
    }

    /// What every lane does for an order of the stages' workers, of which each is a device and a chunk: streams and micro-batches.
    ///
    /// Links move things in the order in which the worker needs or makes them. So nothing waits for a link that would not wait for the
    /// worker anyway, and an order that can be run without links can be run with them.
    pub(crate) fn listed(&self, order: &Order) -> Vec<Vec<(usize, usize)>> {
        let of_lane = |lane: &Lane| {
            let stream = |phase: Phase| match phase {
                Phase::Forward => lane.forward,
                Phase::Backward | Phase::InputGradient => lane.backward,
                Phase::WeightGradient => lane.weight,
            };
            let task = |operation: &Operation| Some((stream(operation.phase)?, operation.micro_batch));
            let own = order.devices.get(lane.stage).into_iter().flatten();
            own.filter_map(task).collect()
        };
        self.lanes.iter().map(of_lane).collect()
    }

    fn position(&mut self, pipeline: &Pipeline, stage: usize, phase: Phase, times: PhaseTimes) {
        let worker = match (pipeline.channels, phase) {
            (Channels::Shared, _) => Resource::Worker,
            (Channels::Split, Phase::Forward) => Resource::Forward,
            (Channels::Split, _) => Resource::Backward,
        };
        let PhaseTimes {
            in_ns,
            work_ns,
            out_ns,
        } = times;
        let replicas = pipeline.stages[stage].replicas as usize;
        let (mut receive, mut send) = (None, None);
        let mut own = [in_ns, work_ns, out_ns];
        if pipeline.has_links {
            own = [0, work_ns, 0];
            let mut link = |activity, resource, parts: [u64; 3]| {
                (parts != [0; 3]).then(|| self.stream((stage, resource, replicas), phase, activity, parts))
            };
            receive = link(Activity::Receive, Resource::LinkIn, [in_ns, 0, 0]);
            send = link(Activity::Send, Resource::LinkOut, [0, 0, out_ns]);
        }
        let compute = self.stream((stage, worker, replicas), phase, Activity::Compute, own);
        self.positions.push(Position {
            receive,
            compute,
            send,
            weight: None,
        });
    }

    /// Adds a stream on a resource of all replicas of a stage.
    fn stream(
        &mut self,
        (stage, resource, replicas): (usize, Resource, usize),
        phase: Phase,
        activity: Activity,
        parts: [u64; 3],
    ) -> usize {
        let stream = self.streams.len();
        let lane = self.lane(stage, resource, replicas);
        for lane in &mut self.lanes[lane..lane + replicas] {
            match phase {
                Phase::Forward => lane.forward = Some(stream),
                Phase::Backward | Phase::InputGradient => lane.backward = Some(stream),
                Phase::WeightGradient => lane.weight = Some(stream),
            }
        }
        self.streams.push(Stream {
            stage,
            phase,
            activity,
            lane,
            parts,
        });
        stream
    }

    /// The first lane of a resource, new ones where it has none.
    fn lane(&mut self, stage: usize, resource: Resource, replicas: usize) -> usize {
        let is_known = |lane: &Lane| lane.stage == stage && lane.resource == resource;
        self.lanes.iter().position(is_known).unwrap_or_else(|| {
            let first = self.lanes.len();
            self.lanes.extend((0..replicas).map(|replica| Lane {
                stage,
                replica,
                replicas,
                resource,
                forward: None,
                backward: None,
                weight: None,
            }));
            first
        })
    }

    /// The busiest lane's time for a micro-batch, shared out among the replicas that take turns: no schedule keeps a shorter period.
    pub(crate) fn busiest(&self) -> Pace {
        let time = |stream: Option<usize>| stream.map_or(0, |s| self.streams[s].total_ns());
        let pace = |lane: &Lane| Pace {
            ns: (time(lane.forward) + time(lane.backward) + time(lane.weight)).into(),
            micro_batches: lane.replicas as i128,
        };
        self.lanes.iter().map(pace).max().unwrap_or_default()
    }
}

//! The tasks of a pipeline: streams of one task a micro-batch, and the lanes they occupy.

use serde::Serialize;

use super::{Channels, PhaseTimes, Pipeline};

/// Forward or backward propagation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Forward propagation.
    Forward,
    /// Backward propagation.
    Backward,
}

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
    /// Its lane, by position.
    pub lane: usize,
    /// ns to receive, work and send, one after the other.
    pub parts: [u64; 3],
}

impl Stream {
    pub(crate) fn total_ns(&self) -> u64 {
        self.parts.iter().sum()
    }
}

/// A resource of a stage and the streams on it: at most one a phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    /// Stage, from 0.
    pub stage: usize,
    pub resource: Resource,
    pub forward: Option<usize>,
    pub backward: Option<usize>,
}

/// All streams and lanes of a pipeline. A micro-batch passes *positions* one by one: the stages in order, and in training
/// the stages once more in reverse order for backward propagation.
pub(crate) struct Streams {
    pub streams: Vec<Stream>,
    pub lanes: Vec<Lane>,
    /// For every position the streams that receive, work and send.
    pub positions: Vec<Position>,
}

/// The streams of one position; transfers that take no time, or the worker's own, have none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    pub receive: Option<usize>,
    pub compute: usize,
    pub send: Option<usize>,
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

    fn position(&mut self, pipeline: &Pipeline, stage: usize, phase: Phase, times: PhaseTimes) {
        let worker = match (pipeline.channels, phase) {
            (Channels::Shared, _) => Resource::Worker,
            (Channels::Split, Phase::Forward) => Resource::Forward,
            (Channels::Split, Phase::Backward) => Resource::Backward,
        };
        let PhaseTimes {
            in_ns,
            work_ns,
            out_ns,
        } = times;
        let (mut receive, mut send) = (None, None);
        let mut own = [in_ns, work_ns, out_ns];
        if pipeline.has_links {
            own = [0, work_ns, 0];
            let mut link = |activity, resource, parts: [u64; 3]| {
                (parts != [0; 3]).then(|| self.stream((stage, resource), phase, activity, parts))
            };
            receive = link(Activity::Receive, Resource::LinkIn, [in_ns, 0, 0]);
            send = link(Activity::Send, Resource::LinkOut, [0, 0, out_ns]);
        }
        let compute = self.stream((stage, worker), phase, Activity::Compute, own);
        self.positions.push(Position {
            receive,
            compute,
            send,
        });
    }

    /// Adds a stream on a resource of a stage.
    fn stream(
        &mut self,
        (stage, resource): (usize, Resource),
        phase: Phase,
        activity: Activity,
        parts: [u64; 3],
    ) -> usize {
        let stream = self.streams.len();
        let lane = self.lane(stage, resource);
        match phase {
            Phase::Forward => self.lanes[lane].forward = Some(stream),
            Phase::Backward => self.lanes[lane].backward = Some(stream),
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

    /// The lane of a resource, a new one where it has none.
    fn lane(&mut self, stage: usize, resource: Resource) -> usize {
        let is_known = |lane: &Lane| lane.stage == stage && lane.resource == resource;
        self.lanes.iter().position(is_known).unwrap_or_else(|| {
            self.lanes.push(Lane {
                stage,
                resource,
                forward: None,
                backward: None,
            });
            self.lanes.len() - 1
        })
    }

    /// The busiest lane's time for one micro-batch, in ns: no schedule keeps a shorter period.
    pub(crate) fn period_ns(&self) -> u64 {
        let time = |stream: Option<usize>| stream.map_or(0, |s| self.streams[s].total_ns());
        let busy = |lane: &Lane| time(lane.forward) + time(lane.backward);
        self.lanes.iter().map(busy).max().unwrap_or(0)
    }
}

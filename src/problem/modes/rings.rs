//! Exchanges between devices that have the same weights.

use super::{Modes, StageMode};
use crate::model::cluster::Link;

/// What replicas pay to exchange their gradients, for one micro-batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ring {
    /// For each byte.
    pub byte_ticks: f64,
    /// For the latency of its messages, where there are bytes.
    pub start_ticks: f64,
    /// Messages that each member sends once an iteration, and of how many parts of the bytes each is one.
    messages: [f64; 2],
    link: Link,
}

impl Modes {
    /// The exchange of gradients among so many devices of a stage over links of a level; `None` where there is none.
    pub fn ring(&self, mode: &StageMode, members: usize, level: usize) -> Option<Ring> {
        let rounds = self.sharding.rounds_an_iteration();
        self.ring_of((members, self.updates_every(mode)), level, rounds)
            .filter(|_| self.synchronizes)
    }

    /// What a ring takes for so many bytes, as far as a micro-batch bears it, in ticks.
    pub(super) fn shared_out(&self, ring: Option<Ring>, bytes: f64) -> f64 {
        match ring {
            Some(ring) if bytes > 0.0 => ring.byte_ticks * bytes + ring.start_ticks,
            _ => 0.0,
        }
    }

    /// The same once an iteration, in whole ns.
    pub(super) fn once_ns(&self, ring: Option<Ring>, bytes: f64) -> u64 {
        match ring {
            // Not by way of a micro-batch's part: what that rounds would be a ns more.
            Some(ring) if bytes > 0.0 => {
                let ([messages, parts], link) = (ring.messages, ring.link);
                let message_ns = bytes / parts / link.bandwidth_bytes_per_s * 1e9 + link.latency_ns as f64;
                (messages * message_ns).ceil() as u64
            }
            _ => 0,
        }
    }

    /// A ring of so many members over links of a level: in each round each sends and receives (d - 1) / d of the bytes, once in so many micro-batches. A sum
    /// that all get takes two (P. Patarasuk, X. Yuan, JPDC 69(2), 2009).
    pub(super) fn ring_of(&self, (members, every): (usize, u64), level: usize, rounds: u64) -> Option<Ring> {
        if members < 2 || rounds == 0 {
            return None;
        }
        let link = self.links.link(level);
        let messages = rounds as f64 * (members - 1) as f64;
        let ticks = messages * self.ticks_per_ns as f64 / every as f64;
        Some(Ring {
            messages: [messages, members as f64],
            link,
            byte_ticks: ticks * 1e9 / (members as f64 * link.bandwidth_bytes_per_s),
            start_ticks: ticks * link.latency_ns as f64,
        })
    }
}

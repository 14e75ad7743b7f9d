//! Best-first search over cuts: in the order of what no order of theirs can beat, each cut with its best order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::State;
use super::relaxation::Relaxation;
use crate::exact::best_schedule::iteration;
use crate::problem::Assignment;
use crate::problem::plan::{Status, StoppedBy};

/// Nodes between two looks at the time.
const LOOK: u64 = 64;

/// What the search came to.
pub(super) struct Proof {
    /// No cut that was not looked at takes less in any order, in ns; `u64::MAX` where all were.
    pub cuts_ns: u64,
    /// Why it stopped.
    pub stopped_by: StoppedBy,
}

/// The first chunks of a cut.
#[derive(Clone, Copy)]
struct Node {
    /// The same without its last chunk; its own position where it has none.
    parent: u32,
    ideal: u32,
    devices: u32,
    /// How many chunks are to come.
    left: u32,
    /// What a micro-batch spends in its chunks at least: on its way there, and there and back, in ns.
    came: [u64; 2],
    /// No cut that begins so takes less, in ns.
    bound_ns: u64,
    /// Of a whole cut, whether its chunks have been looked at together.
    is_refined: bool,
}

struct CutSearch<'a> {
    relaxation: &'a Relaxation<'a>,
    nodes: Vec<Node>,
    /// By bound, and of equals those with fewer chunks to come.
    open: BinaryHeap<Reverse<(u64, u32, u32)>>,
}

/// Looks at cuts until all that are left are no better than the best, or a limit comes.
pub(super) fn prove(relaxation: &Relaxation, state: &mut State) -> Proof {
    let mut search = CutSearch {
        relaxation,
        nodes: Vec::new(),
        open: BinaryHeap::new(),
    };
    for (devices, bound_ns) in relaxation.counts() {
        search.push(Node {
            parent: search.nodes.len() as u32,
            ideal: 0,
            devices: devices as u32,
            left: (devices * state.question.virtual_stages) as u32,
            came: [0; 2],
            bound_ns,
            is_refined: false,
        });
    }
    let most = (state.control.room_bytes() / (4 * size_of::<Node>())).min(u32::MAX as usize);
    let mut looked = 0;
    while let Some(Reverse((bound_ns, _, at))) = search.open.pop() {
        let stopped_by = match search.nodes.len() > most {
            true => Some(StoppedBy::MemoryLimit),
            false if looked % LOOK == 0 || search.nodes[at as usize].left == 0 => state.control.must_stop(),
            false => None,
        };
        looked += 1;
        if bound_ns >= state.best_ns() {
            break;
        }
        if let Some(stopped_by) = stopped_by {
            return Proof {
                cuts_ns: bound_ns,
                stopped_by,
            };
        }
        match search.nodes[at as usize].left {
            0 => search.look_at(at, state),
            _ => search.branch(at, state),
        }
    }
    Proof {
        cuts_ns: u64::MAX,
        stopped_by: state.control.must_stop().unwrap_or(StoppedBy::SizeLimit),
    }
}

impl CutSearch<'_> {
    fn push(&mut self, node: Node) {
        let at = self.nodes.len() as u32;
        self.nodes.push(node);
        self.open.push(Reverse((node.bound_ns, node.left, at)));
    }

    /// Adds every chunk that may come next.
    fn branch(&mut self, at: u32, state: &State) {
        let node = self.nodes[at as usize];
        let (devices, left) = (node.devices as usize, node.left as usize - 1);
        for chunk in &self.relaxation.chunks[node.ideal as usize] {
            let terms = self.relaxation.terms(chunk, devices, left);
            let came = [node.came[0] + terms.there_ns, node.came[1] + terms.both_ns];
            let own_ns = (node.came[0] + terms.last_ns).max(node.came[1] + terms.back_ns);
            let next_ns = self.relaxation.least_ns(devices, left, chunk.to as usize, came);
            let bound_ns = node.bound_ns.max(own_ns).max(next_ns);
            if bound_ns < state.best_ns() {
                let at = Node {
                    parent: at,
                    ideal: chunk.to,
                    left: left as u32,
                    came,
                    bound_ns,
                    ..node
                };
                let place = self.nodes.len() as u32;
                self.nodes.push(at);
                self.open.push(Reverse((bound_ns, at.left, place)));
            }
        }
    }

    /// Holds a whole cut against the bound of its chunks together, and then looks for its best order.
    fn look_at(&mut self, at: u32, state: &mut State) {
        let cut = self.cut(at);
        let node = &mut self.nodes[at as usize];
        if !node.is_refined {
            node.is_refined = true;
            let chunks = state.question.chunks(state.problem, &cut);
            let of_cut = |chunks| iteration::bound_ns(&chunks, state.question.micro_batches);
            let bound_ns = node.bound_ns.max(chunks.map_or(u64::MAX, of_cut));
            if bound_ns < state.best_ns() {
                self.open.push(Reverse((bound_ns, 0, at)));
            }
            return;
        }
        if let Some((status, bound_ns)) = state.look_at(cut)
            && status == Status::Feasible
        {
            state.orders_ns = state.orders_ns.min(bound_ns);
        }
    }

    /// The cut whose chunks end here.
    fn cut(&self, mut at: u32) -> Assignment {
        let sets = &self.relaxation.ideals.sets;
        let mut cut = vec![0; sets[self.relaxation.all()].count_ones(..)];
        let mut stage = 0;
        let mut path = Vec::new();
        while self.nodes[at as usize].parent != at {
            path.push(self.nodes[at as usize].ideal as usize);
            at = self.nodes[at as usize].parent;
        }
        path.push(0);
        path.reverse();
        for ends in path.windows(2) {
            for item in self.relaxation.ideals.between(ends[0], ends[1]) {
                cut[item] = stage;
            }
            stage += 1;
        }
        cut
    }
}

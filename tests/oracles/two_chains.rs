//! Networks whose forward passes and backward passes are a chain each, cut at places of their own.
//!
//! A plan then is a list of cuts: after each stage, how many forward and how many backward passes lie in front. Both numbers
//! never go down. With tied cuts, or in inference, the second chain is empty.

use stagecut::problem::{Assignment, Problem};

/// Why a program for two chains does not cover a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotCovered {
    /// Some passes may be laid either way round, or some item holds both passes of a layer.
    #[error(
        "found a network that is not two chains of passes, expected a chain of layers with separate cuts"
    )]
    NoTwoChains,
    /// Workers that differ.
    #[error("found workers that differ, expected workers that are alike")]
    WorkersDiffer,
    /// Transfers that cost time.
    #[error("found transfers that cost time, expected `--communication ignored`")]
    Transfers,
    /// Memory that may bind.
    #[error("found memory that may bind, expected no limit or a higher one")]
    Memory,
    /// Memory of a stage that depends on where other stages have the other pass of its layers.
    #[error(
        "found memory that depends on several stages at once, expected bytes that a stage's own passes decide"
    )]
    JointMemory,
    /// An objective other than the period.
    #[error("found the time of an iteration as the objective, expected the period")]
    Iteration,
}

/// The items of both chains, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwoChains {
    /// Items with forward passes.
    pub forward: Vec<usize>,
    /// Items with backward passes alone.
    pub backward: Vec<usize>,
}

impl TwoChains {
    /// The chains of a problem whose workers are alike.
    ///
    /// # Errors
    ///
    /// [`NotCovered::WorkersDiffer`] and [`NotCovered::NoTwoChains`].
    pub fn of(problem: &Problem) -> Result<Self, NotCovered> {
        if problem.workers.is_some() {
            return Err(NotCovered::WorkersDiffer);
        }
        let is_forward = |&item: &usize| !problem.items[item].layers.is_empty();
        let (forward, backward) = (0..problem.items.len()).partition(is_forward);
        let chains = Self { forward, backward };
        // Items are numbered along the order.
        let is_chain = |chain: &[usize]| {
            let has_pair = |pair: &[usize]| {
                let [from, to] = [pair[0], pair[1]].map(|item| (item as u32).into());
                problem.order.contains_edge(from, to)
            };
            chain.windows(2).all(has_pair)
        };
        let crosses = problem
            .order
            .edge_indices()
            .filter_map(|edge| problem.order.edge_endpoints(edge))
            .any(|(u, v)| is_forward(&u.index()) != is_forward(&v.index()));
        match crosses || !is_chain(&chains.forward) || !is_chain(&chains.backward) {
            true => Err(NotCovered::NoTwoChains),
            false => Ok(chains),
        }
    }

    /// Everything: how many passes lie in front of the last cut.
    pub fn all(&self) -> [usize; 2] {
        [self.forward.len(), self.backward.len()]
    }

    /// The passes between two cuts.
    pub fn between(&self, from: [usize; 2], to: [usize; 2]) -> Vec<usize> {
        let forward = &self.forward[from[0]..to[0]];
        let backward = &self.backward[from[1]..to[1]];
        forward.iter().chain(backward).copied().collect()
    }

    /// The plan with these cuts, one after each stage, the last after everything.
    pub fn assignment(&self, cuts: &[[usize; 2]]) -> Assignment {
        let mut assignment = vec![0; self.forward.len() + self.backward.len()];
        let mut from = [0, 0];
        for (stage, &to) in cuts.iter().enumerate() {
            for item in self.between(from, to) {
                assignment[item] = stage;
            }
            from = to;
        }
        assignment
    }
}

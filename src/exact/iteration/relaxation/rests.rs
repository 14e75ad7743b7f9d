//! What is known of the stages behind an ideal: ways to go on, of which none beats another.

/// What lies behind an ideal, by what is left for it.
#[derive(Default)]
pub(super) struct Rests {
    /// Where the ways to go on end of each state.
    last: Vec<usize>,
    ways: Vec<Rest>,
    /// When the last stage has done at least what it does once, from when the first micro-batch gets there, in ns; `u64::MAX` where no plan goes on so.
    ends: Vec<u64>,
}

impl Rests {
    /// Takes those of the next state.
    pub(super) fn push(&mut self, ways: &[Rest], end_ns: u64) {
        self.ways.extend_from_slice(ways);
        self.last.push(self.ways.len());
        self.ends.push(end_ns);
    }

    /// The ways to go on of a state, of which none beats another, the soonest first.
    pub(super) fn of(&self, state: usize) -> &[Rest] {
        let first = state.checked_sub(1).map_or(0, |before| self.last[before]);
        &self.ways[first..self.last[state]]
    }

    /// When the last stage behind has done what it does once, at least.
    pub(super) fn end_ns(&self, state: usize) -> u64 {
        self.ends[state]
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ways.len()
    }
}

/// A way to go on behind an ideal, or the least of several.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// What a micro-batch spends there, there and back, in ns.
    pub passage_ns: u64,
    /// The least bound, in ns, counted from when a micro-batch gets there and with what comes back behind it.
    pub least_ns: u64,
}

impl Rest {
    fn is_beaten_by(&self, other: &Self) -> bool {
        other.passage_ns <= self.passage_ns && other.least_ns <= self.least_ns
    }

    /// The least of both.
    fn min(self, other: Self) -> Self {
        Self {
            passage_ns: self.passage_ns.min(other.passage_ns),
            least_ns: self.least_ns.min(other.least_ns),
        }
    }
}

/// Adds one to those of which none beats another, by how long a micro-batch passes.
pub(super) fn add(ways: &mut Vec<Rest>, rest: Rest) {
    let at = ways.partition_point(|way| way.passage_ns < rest.passage_ns);
    let same = ways[at..]
        .iter()
        .take_while(|way| way.passage_ns == rest.passage_ns);
    if ways[..at]
        .iter()
        .rev()
        .chain(same)
        .any(|way| rest.is_beaten_by(way))
    {
        return;
    }
    let mut others = ways.split_off(at);
    others.retain(|way| !way.is_beaten_by(&rest));
    ways.push(rest);
    ways.append(&mut others);
}

/// Puts those together that are nearest, until so many are left: a bound of all of them.
pub(super) fn merged(mut ways: Vec<Rest>, most: usize) -> Vec<Rest> {
    let lost_ns = |pair: &[Rest]| {
        let sooner_ns = pair[1].passage_ns - pair[0].passage_ns;
        sooner_ns.saturating_add(pair[0].least_ns.saturating_sub(pair[1].least_ns))
    };
    while ways.len() > most {
        let nearest = (1..ways.len()).min_by_key(|&at| lost_ns(&ways[at - 1..=at]));
        let Some(at) = nearest else { return ways };
        ways[at - 1] = ways[at - 1].min(ways[at]);
        ways.remove(at);
    }
    ways
}

/// What stages say of an iteration, in ns, by how often a micro-batch passes what lies behind them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ByPasses {
    pub never_ns: u64,
    pub once_ns: u64,
    pub twice_ns: Option<u64>,
}

impl ByPasses {
    /// With so much that lies behind.
    pub(super) fn ns(&self, rest_ns: u64) -> u64 {
        let twice_ns = self.twice_ns.map_or(0, |ns| ns.saturating_add(2 * rest_ns));
        self.never_ns
            .max(self.once_ns.saturating_add(rest_ns))
            .max(twice_ns)
    }

    /// Of stages behind which lies another that takes so long.
    pub(super) fn before(self, latency_ns: u64) -> Self {
        Self {
            once_ns: self.once_ns + latency_ns,
            twice_ns: self.twice_ns.map(|ns| ns + 2 * latency_ns),
            ..self
        }
    }

    /// Of a stage before which a micro-batch spends so long.
    pub(super) fn behind(self, first_ns: u64) -> Self {
        Self {
            never_ns: self.never_ns + first_ns,
            once_ns: self.once_ns + first_ns,
            twice_ns: self.twice_ns.map(|ns| ns + first_ns),
        }
    }

    pub(super) fn max(self, other: Self) -> Self {
        Self {
            never_ns: self.never_ns.max(other.never_ns),
            once_ns: self.once_ns.max(other.once_ns),
            twice_ns: self.twice_ns.max(other.twice_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn every_way_is_beaten_by_one_that_is_kept_and_none_of_these_by_another() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..2_000 {
            let mut drawn = || rng.random_range(0..12u64);
            let mut way = || {
                let [passage_ns, least_ns] = std::array::from_fn(|_| drawn());
                Rest { passage_ns, least_ns }
            };
            let all: Vec<Rest> = (0..20).map(|_| way()).collect();
            let mut kept = Vec::new();
            all.iter().for_each(|&rest| add(&mut kept, rest));
            assert!(kept.is_sorted_by_key(|way| way.passage_ns), "{kept:?}");
            let others = |at: usize| kept.iter().enumerate().filter(move |&(other, _)| other != at);
            for (at, way) in kept.iter().enumerate() {
                assert!(!others(at).any(|(_, other)| way.is_beaten_by(other)), "{kept:?}");
            }
            for most in 1..6 {
                let fewer = merged(kept.clone(), most);
                assert!(fewer.len() <= most, "{fewer:?}");
                let is_bounded = |way: &Rest| fewer.iter().any(|least| way.is_beaten_by(least));
                assert!(all.iter().all(is_bounded), "{all:?} {fewer:?}");
            }
        }
    }
}

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
    /// The least bound, counted from when a micro-batch gets there and with what comes back behind it.
    pub least: Least,
}

impl Rest {
    fn is_beaten_by(&self, other: &Self) -> bool {
        other.passage_ns <= self.passage_ns
            && other.least.own_ns <= self.least.own_ns
            && other.least.long_ns <= self.least.long_ns
            && other.least.more_ns <= self.least.more_ns
    }

    /// The least of both.
    fn min(self, other: Self) -> Self {
        Self {
            passage_ns: self.passage_ns.min(other.passage_ns),
            least: self.least.min(other.least),
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
        sooner_ns.saturating_add(pair[0].least.ns().saturating_sub(pair[1].least.ns()))
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

/// The least bounds of what begins at an ideal, in ns; `u64::MAX` where no plan goes on so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Least {
    /// No stage has more in flight than the schedule's own number, nor can one before it because of the first of them.
    pub own_ns: u64,
    /// No stage has more in flight, and the first is so long that one before it may.
    pub long_ns: u64,
    /// Some stage has more in flight.
    pub more_ns: u64,
}

impl Least {
    /// Those of plans in which some stage has more in flight, if the one before may.
    pub(super) fn exceeded_ns(self, may_have_more: bool) -> u64 {
        match may_have_more {
            true => self.long_ns.min(self.more_ns),
            false => self.more_ns,
        }
    }

    fn min(self, other: Self) -> Self {
        Self {
            own_ns: self.own_ns.min(other.own_ns),
            long_ns: self.long_ns.min(other.long_ns),
            more_ns: self.more_ns.min(other.more_ns),
        }
    }

    pub(super) fn ns(self) -> u64 {
        self.own_ns.min(self.long_ns).min(self.more_ns)
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
        for case in 0..2_000 {
            let mut drawn = || rng.random_range(0..12u64);
            let mut way = || {
                let [passage_ns, own_ns, long_ns, more_ns] = std::array::from_fn(|_| drawn());
                let [long_ns, more_ns] =
                    [long_ns, more_ns].map(|ns| if case % 2 == 0 { u64::MAX } else { ns });
                let least = Least {
                    own_ns,
                    long_ns,
                    more_ns,
                };
                Rest { passage_ns, least }
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

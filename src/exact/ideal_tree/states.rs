//! Memory of a search: every set of tasks done that was reached, with the fewest stations that it took.

use crate::exact::bits;

/// No state: the predecessor of the first.
pub(super) const NONE: u32 = u32::MAX;

/// States reached so far, each with where it came from.
///
/// A set of tasks done in `k` stations leaves the same question as any other way to do that set in `k` stations, and an easier
/// one than any way that takes more. So each set is kept once (Sewell and Jacobson 2012).
#[derive(Debug)]
pub(super) struct States {
    words: usize,
    done: Vec<u64>,
    stations: Vec<u16>,
    parents: Vec<u32>,
    /// Open addressing: numbers of states, a power of two of places, at most half of them taken.
    table: Vec<u32>,
    most: usize,
}

/// What became of a set that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    /// The set is new, or was reached with fewer stations than before.
    Kept(u32),
    /// It was reached before with as few stations.
    Known,
    /// There is no room for another state.
    Full,
}

impl States {
    /// An empty memory for sets over `count` tasks that takes about `bytes` at most, the queues of a search counted.
    pub(super) fn new(count: usize, bytes: usize) -> Self {
        let words = bits::words(count);
        // Vectors hold up to twice what is in them; the table has up to four places for a state, a queue one entry.
        let each = 2 * (8 * words + 2 + 4 + 16) + 4 * 4;
        let most = (bytes / each).clamp(1, NONE as usize - 1);
        let table = vec![NONE; 1 << 10];
        Self {
            words,
            done: Vec::new(),
            stations: Vec::new(),
            parents: Vec::new(),
            table,
            most,
        }
    }

    /// Tasks done in a state.
    pub(super) fn done(&self, state: u32) -> &[u64] {
        &self.done[state as usize * self.words..][..self.words]
    }

    /// Stations that a state takes.
    pub(super) fn stations(&self, state: u32) -> usize {
        usize::from(self.stations[state as usize])
    }

    /// Keeps a set unless it is known with as few stations.
    pub(super) fn offer(&mut self, done: &[u64], stations: usize, parent: u32) -> Offered {
        let Ok(stations) = u16::try_from(stations) else {
            return Offered::Full;
        };
        let mask = self.table.len() - 1;
        let mut place = hash(done) & mask;
        while self.table[place] != NONE {
            let state = self.table[place];
            if self.done(state) == done {
                let known = &mut self.stations[state as usize];
                if *known <= stations {
                    return Offered::Known;
                }
                *known = stations;
                self.parents[state as usize] = parent;
                return Offered::Kept(state);
            }
            place = (place + 1) & mask;
        }
        let count = self.stations.len();
        if count >= self.most {
            return Offered::Full;
        }
        let state = count as u32;
        self.table[place] = state;
        self.done.extend_from_slice(done);
        self.stations.push(stations);
        self.parents.push(parent);
        if 2 * (count + 1) > self.table.len() {
            self.grow();
        }
        Offered::Kept(state)
    }

    /// The tasks of each station on the way to a state.
    pub(super) fn path(&self, mut state: u32) -> Vec<Vec<usize>> {
        let mut stations = Vec::new();
        while self.parents[state as usize] != NONE {
            let parent = self.parents[state as usize];
            stations.push(bits::without(self.done(state), self.done(parent)).collect());
            state = parent;
        }
        stations.reverse();
        stations
    }

    fn grow(&mut self) {
        let mask = 2 * self.table.len() - 1;
        let mut table = vec![NONE; mask + 1];
        for state in 0..self.stations.len() as u32 {
            let mut place = hash(self.done(state)) & mask;
            while table[place] != NONE {
                place = (place + 1) & mask;
            }
            table[place] = state;
        }
        self.table = table;
    }
}

/// A place for a set: multiply and fold each word (the finaliser of Steele, Lea and Flood 2014).
fn hash(done: &[u64]) -> usize {
    let mut mixed = 0_u64;
    for word in done {
        mixed = (mixed ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^= mixed >> 32;
    }
    mixed as usize
}

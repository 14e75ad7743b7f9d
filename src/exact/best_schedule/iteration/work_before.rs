//! When a device can have done what must come before an operation, told for one micro-batch after the other.
//!
//! The operations that must come before have heads and durations; done by the order of heads, the last of them ends at the largest of
//! `h + W(h)` over all heads `h` among them, with `W(h)` the work of those whose heads are no earlier. From one micro-batch to the next
//! one operation of each kind joins, so that sums grow and are never made anew. **Example**: heads 0, 1, 9 and durations 4, 4, 1: the sums
//! are 9, 6 and 10; the last operation ends at 10.
//!
//! For each kind the heads are in order, since its micro-batches are. What joins with head `h` adds to the sums of all heads up to `h`:
//! it is noted at the last of these, and a sum is a head and all notes from there on. A tree over the notes holds, for runs of them, their
//! total and the largest sum within. What joins of a kind does so in order of heads, so that its places among the heads of another one are
//! found from the last ones on. Time O(k log M) for what joins, with k kinds on the device.

use super::bound::Lengths;

/// Notes of so many heads are summed up by going through them.
const RUN: usize = 16;

/// A run of notes: their total, and the largest of its heads with all notes from there on in the run.
#[derive(Clone, Copy, Debug, Default)]
struct Summed {
    total_ns: u64,
    most_ns: u64,
}

impl Summed {
    fn then(self, after: Self) -> Self {
        Self {
            total_ns: self.total_ns + after.total_ns,
            most_ns: after.most_ns.max(match self.most_ns {
                0 => 0,
                most_ns => most_ns + after.total_ns,
            }),
        }
    }
}

/// What joined at the heads of one kind.
struct Notes {
    /// By micro-batch of the kind, ns.
    notes: Vec<u64>,
    /// A binary tree, the root at 1, whose leaves are runs.
    tree: Vec<Summed>,
}

impl Notes {
    fn new(micro_batches: usize) -> Self {
        let leaves = micro_batches.div_ceil(RUN).next_power_of_two();
        Self {
            notes: Vec::with_capacity(micro_batches),
            tree: vec![Summed::default(); 2 * leaves],
        }
    }

    /// Sums up again what a note is part of.
    fn refresh(&mut self, at: usize, heads: &[u64]) {
        let (run, leaves) = (at / RUN, self.tree.len() / 2);
        let within = run * RUN..self.notes.len().min((run + 1) * RUN);
        let alone = |m: usize| Summed {
            total_ns: self.notes[m],
            most_ns: heads[m] + self.notes[m],
        };
        let summed = within.map(alone).reduce(Summed::then).unwrap_or_default();
        let mut node = leaves + run;
        self.tree[node] = summed;
        while node > 1 {
            node /= 2;
            self.tree[node] = self.tree[2 * node].then(self.tree[2 * node + 1]);
        }
    }

    /// Notes what joins behind so many heads.
    fn add(&mut self, upto: usize, duration_ns: u64, heads: &[u64]) {
        if let Some(last) = upto.checked_sub(1) {
            self.notes[last] += duration_ns;
            self.refresh(last, heads);
        }
    }
}

/// What must come before the operations of one kind, of the micro-batches so far.
pub(super) struct WorkBefore {
    /// Kinds on its device of which something must come before, with how many micro-batches before.
    kinds: Vec<(usize, usize)>,
    notes: Vec<Notes>,
    /// By what joins and kind: the heads of the kind before the last head that joined, and those no later.
    places: Vec<Vec<[usize; 2]>>,
}

/// The first place from one on whose head is not before.
fn place(from: usize, heads: &[u64], is_before: impl Fn(u64) -> bool) -> usize {
    let more = heads[from..].iter().take_while(|&&head| is_before(head));
    from + more.count()
}

impl WorkBefore {
    /// Before any micro-batch.
    pub(super) fn new(kinds: Vec<(usize, usize)>, micro_batches: usize) -> Self {
        let notes = kinds.iter().map(|_| Notes::new(micro_batches)).collect();
        let places = vec![vec![[0; 2]; kinds.len()]; kinds.len()];
        Self { kinds, notes, places }
    }

    /// When all is done that must come before the operation of the next micro-batch, whose number is this. Heads of what comes before are
    /// known; durations are by kind.
    pub(super) fn next_ns(&mut self, micro_batch: usize, heads: &Lengths, durations_ns: &[u64]) -> u64 {
        for joins in 0..self.kinds.len() {
            let (kind, shift) = self.kinds[joins];
            if let Some(m) = micro_batch.checked_sub(shift) {
                self.join(joins, heads[kind][m], heads, durations_ns);
            }
        }
        let ends = self.notes.iter().map(|notes| notes.tree[1].most_ns);
        ends.max().unwrap_or(0)
    }

    fn join(&mut self, joins: usize, head_ns: u64, heads: &Lengths, durations_ns: &[u64]) {
        // What is there with a head no earlier was noted at the last head of the kind, and counts for the new one, too.
        let mut later_ns = 0;
        let places = self.places[joins].iter_mut();
        for ([before, _], (notes, &(kind, _))) in places.zip(self.notes.iter().zip(&self.kinds)) {
            let known = &heads[kind][..notes.notes.len()];
            *before = place(*before, known, |head| head < head_ns);
            later_ns += (known.len() - *before) as u64 * durations_ns[kind];
        }
        let own = self.kinds[joins].0;
        let notes = &mut self.notes[joins];
        if let Some(last) = notes.notes.len().checked_sub(1) {
            notes.notes[last] -= later_ns;
            notes.notes.push(later_ns);
            notes.refresh(last, &heads[own]);
        } else {
            notes.notes.push(later_ns);
        }
        notes.refresh(notes.notes.len() - 1, &heads[own]);
        let places = self.places[joins].iter_mut();
        for ([_, upto], (notes, &(kind, _))) in places.zip(self.notes.iter_mut().zip(&self.kinds)) {
            *upto = place(*upto, &heads[kind][..notes.notes.len()], |head| head <= head_ns);
            notes.add(*upto, durations_ns[own], &heads[kind]);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// The same by doing all of it again, in the order of heads.
    fn anew_ns(kinds: &[(usize, usize)], m: usize, heads: &Lengths, durations_ns: &[u64]) -> u64 {
        let mut before: Vec<(u64, u64)> = Vec::new();
        for &(kind, shift) in kinds {
            if let Some(last) = m.checked_sub(shift) {
                before.extend(
                    heads[kind][..=last]
                        .iter()
                        .map(|&head| (head, durations_ns[kind])),
                );
            }
        }
        before.sort_unstable();
        let run = |now_ns: u64, &(head_ns, duration_ns): &(u64, u64)| now_ns.max(head_ns) + duration_ns;
        before.iter().fold(0, run)
    }

    #[test]
    fn sums_are_those_of_doing_it_again() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for case in 0..400 {
            let count = rng.random_range(1..=5);
            let micro_batches = rng.random_range(1..=70);
            let pace = [0, 1, 9][rng.random_range(0..3)];
            let mut heads: Lengths = Vec::new();
            for _ in 0..count {
                let mut head_ns = rng.random_range(0..=20);
                let mut next = |_| {
                    head_ns += rng.random_range(0..=pace);
                    head_ns
                };
                heads.push((0..micro_batches).map(&mut next).collect());
            }
            let durations_ns: Vec<u64> = (0..count).map(|_| rng.random_range(0..=7)).collect();
            let kinds: Vec<(usize, usize)> = (0..count).map(|kind| (kind, rng.random_range(0..=4))).collect();
            let mut work = WorkBefore::new(kinds.clone(), micro_batches);
            for m in 0..micro_batches {
                let found = work.next_ns(m, &heads, &durations_ns);
                assert_eq!(
                    found,
                    anew_ns(&kinds, m, &heads, &durations_ns),
                    "case {case} at {m}"
                );
            }
        }
    }
}

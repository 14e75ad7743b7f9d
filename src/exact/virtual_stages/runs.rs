//! How much of a chain a device can hold in few runs: the page's bound *Runs*.

use super::chain::Chain;
use crate::problem::virtual_stages::VirtualStages;
use crate::search::limits::least_left;

/// Sizes that items are counted in, items that some device must have, and steps of all tables: hundredths of a second.
const MOST_SIZES: usize = 6;
const MOST_HELD: usize = 6;
const MOST_STEPS: usize = 30_000_000;
/// Items are of another size if they are so many times as large.
const OTHER_SIZE: f64 = 1.25;

/// No plan of a chain is better than this in ns: devices that hold few runs cannot hold all items, each counted as often as its work has a
/// size in it. At least `from_ns`, which is a bound too, and at most `to_ns`, which is of no interest.
pub(super) fn bound_ns(chain: &Chain, of: &VirtualStages, [from_ns, to_ns]: [u64; 2]) -> u64 {
    let works: Vec<u64> = (0..chain.items())
        .map(|item| chain.work_ns(item, item + 1))
        .collect();
    let kinds: Vec<Kind> = (0..of.devices)
        .map(|device| Kind::of(chain, of, device))
        .collect();
    let mut best_ns = from_ns;
    let mut left = MOST_STEPS;
    for size_ns in sizes(&works) {
        let counts: Vec<usize> = works.iter().map(|work| (work / size_ns) as usize).collect();
        let most = (to_ns / size_ns) as usize + 1;
        let steps = (works.len() * of.chunks() * (MOST_HELD + 1)).saturating_mul(most);
        left = match left.checked_sub(steps) {
            Some(left) if best_ns < to_ns => left,
            _ => continue,
        };
        let rooms = Rooms::new(chain, &counts, &kinds, most, &held(&works, size_ns));
        best_ns = best_ns.max(rooms.least_ns(counts.iter().sum(), [best_ns, to_ns]));
    }
    best_ns
}

/// Where the runs of a device may lie.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    /// Items of others before each of its runs, behind the run before, at least.
    before: Vec<usize>,
    /// Items of others behind the last.
    behind: usize,
    /// Whether all runs hold an item.
    has_all: bool,
}

impl Kind {
    /// Where all chunks hold an item, those of others between two of a device hold as many as they are, and neighbours that follow each other
    /// are one run.
    fn of(chain: &Chain, of: &VirtualStages, device: usize) -> Self {
        let chunks = &of.chunks_of[device];
        if !chain.all_stages() {
            return Self {
                before: vec![0; chunks.len()],
                behind: 0,
                has_all: false,
            };
        }
        let between = chunks.windows(2).map(|pair| pair[1] - pair[0] - 1);
        Self {
            before: chunks[..1]
                .iter()
                .copied()
                .chain(between.filter(|&between| between > 0))
                .collect(),
            behind: of.chunks() - 1 - chunks[chunks.len() - 1],
            has_all: true,
        }
    }
}

/// The least of items that are alike, the sizes with most items first.
fn sizes(works: &[u64]) -> Vec<u64> {
    let mut sorted: Vec<u64> = works.iter().copied().filter(|&work| work > 0).collect();
    sorted.sort_unstable();
    let mut sizes: Vec<(usize, u64)> = Vec::new();
    for work in sorted {
        match sizes.last_mut() {
            Some((count, least)) if (work as f64) < OTHER_SIZE * *least as f64 => *count += 1,
            _ => sizes.push((1, work)),
        }
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
        .into_iter()
        .take(MOST_SIZES)
        .map(|(_, least)| least)
        .collect()
}

/// Items that leave most of their work uncounted.
fn held(works: &[u64], size_ns: u64) -> Vec<usize> {
    let mut items: Vec<usize> = (0..works.len()).collect();
    items.sort_by_key(|&item| std::cmp::Reverse(works[item] % size_ns));
    items.truncate(MOST_HELD);
    items
}

/// What devices of a kind are busy with at least if they hold so much.
struct Rooms {
    /// Devices of each kind.
    devices: Vec<u64>,
    /// For each kind: whatever they hold, and each of the items that one must.
    any: Vec<Vec<u64>>,
    held: Vec<Vec<Vec<u64>>>,
}

impl Rooms {
    fn new(chain: &Chain, counts: &[usize], kinds: &[Kind], most: usize, held: &[usize]) -> Self {
        let mut known = kinds.to_vec();
        known.sort_unstable();
        known.dedup();
        let table = |kind: &Kind, held: Option<usize>| least_loads(chain, counts, (kind, most), held);
        Self {
            devices: known
                .iter()
                .map(|kind| kinds.iter().filter(|&other| other == kind).count() as u64)
                .collect(),
            any: known.iter().map(|kind| table(kind, None)).collect(),
            held: held
                .iter()
                .map(|&item| known.iter().map(|kind| table(kind, Some(item))).collect())
                .collect(),
        }
    }

    /// The least period at which they hold all, whichever of them has an item that one must.
    fn least_ns(&self, all: usize, range_ns: [u64; 2]) -> u64 {
        least_left(range_ns, |period_ns| self.refutes(all as u64, period_ns))
    }

    fn refutes(&self, all: u64, period_ns: u64) -> bool {
        // Loads grow with what is held.
        let most = |loads: &Vec<u64>| loads.partition_point(|&load_ns| load_ns <= period_ns) as u64;
        // One more than a device has room for, or none where it cannot even hold nothing.
        let any: Vec<u64> = self.any.iter().map(most).collect();
        if any.contains(&0) {
            return true;
        }
        let room: u64 = any
            .iter()
            .zip(&self.devices)
            .map(|(most, devices)| devices * (most - 1))
            .sum();
        let without = |tables: &Vec<Vec<u64>>| {
            let kinds = tables.iter().zip(&any);
            let rooms = kinds.filter_map(|(loads, any)| {
                let own = most(loads).checked_sub(1)?;
                Some(room - (any - 1) + own)
            });
            rooms.max().is_none_or(|room| room < all)
        };
        room < all || self.held.iter().any(without)
    }
}

/// For every count up to `most`, the least load of a device of a kind that holds so much or more; with a certain item.
///
/// Item by item, with the runs so far, whether the last is open, and what is held. Time O(n r m) for n items, r runs and counts up to m.
fn least_loads(
    chain: &Chain,
    counts: &[usize],
    (kind, most): (&Kind, usize),
    held: Option<usize>,
) -> Vec<u64> {
    const NONE: u64 = u64::MAX / 2;
    let (items, runs) = (chain.items(), kind.before.len());
    let none = vec![NONE; most + 1];
    let mut open = vec![none.clone(); runs + 1];
    // Behind every item, with no run open.
    let mut closed = vec![vec![none.clone(); runs + 1]];
    closed[0][0][0] = 0;
    for item in 0..items {
        let work_ns = chain.work_ns(item, item + 1);
        let begin_ns = if item > 0 { chain.paid_ns(item)[1][0] } else { 0 };
        let end_ns = if item + 1 < items {
            chain.paid_ns(item + 1)[0][0]
        } else {
            0
        };
        let mut next = vec![none.clone(); runs + 1];
        for run in 0..=runs {
            let from = run
                .checked_sub(1)
                .and_then(|last| Some((last, item.checked_sub(kind.before[last])?)));
            let mut longer = none.clone();
            for count in 0..=most {
                let began = from.map_or(NONE, |(last, at)| closed[at][last][count] + begin_ns);
                let load_ns = began.min(open[run][count]);
                let to = &mut longer[(count + counts[item]).min(most)];
                *to = (*to).min((load_ns + work_ns).min(NONE));
            }
            open[run] = longer;
            for count in 0..=most {
                let skipped = if held == Some(item) {
                    NONE
                } else {
                    closed[item][run][count]
                };
                next[run][count] = skipped.min(open[run][count] + end_ns).min(NONE);
            }
        }
        closed.push(next);
    }
    let least = if kind.has_all { runs } else { 0 };
    let last = items.saturating_sub(kind.behind);
    let mut loads = none;
    // Others hold what lies behind.
    if held.is_some_and(|held| held >= last) {
        return loads;
    }
    for ways in &closed[last][least..] {
        loads
            .iter_mut()
            .zip(ways)
            .for_each(|(load, way)| *load = (*load).min(*way));
    }
    for count in (0..most).rev() {
        loads[count] = loads[count].min(loads[count + 1]);
    }
    loads
}

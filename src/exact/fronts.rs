//! Fronts: the pairs of ideals that can lie before each boundary between stages, where transfers are blocking.
#![doc = include_str!("../../formulations/fronts.md")]

use std::mem;
use std::sync::Arc;

use fixedbitset::FixedBitSet;

pub use super::front_ground::Ground;
pub use super::front_search::{Corridor, Within};
use super::front_search::{Known, Pairs, Search};
use super::part::{Ideal, Part};

/// Of the pairs that may be looked at, those that the first rounds look at one by one, those that closer looks do, and those that
/// these do in a corridor: one in so many.
const AT_FIRST: usize = 64;
const AT_MOST: usize = 1;
const IN_CORRIDOR: usize = 32;

/// Closer looks that tell little, after which there are no more.
const PATIENCE: usize = 2;

/// Most words of the rows of a front.
const MOST_WORDS: usize = 1 << 25;

/// Of what boundaries have room for, one part in so many: what a round must take away to be followed by another, and what makes a
/// closer look worth its time.
const WORTH_A_ROUND: u64 = 8;
const WORTH_A_LOOK: u64 = 24;

/// The pairs of ideals that may lie before a boundary.
pub struct Front {
    /// For each ideal of the first part the number of its row, if some pair has it.
    row_of: Vec<u32>,
    /// Those of the second that pair with some of the first, by rank among the second ideals of the front.
    rows: Vec<Row>,
    /// For each part, the ideals of these pairs.
    pub ideals: [FixedBitSet; 2],
    /// The least and the most work before the boundary, in ns.
    pub work_ns: [u64; 2],
}

/// Bits from some word on; all others are zero.
#[derive(Clone, Default)]
pub struct Row {
    /// The word that the first bit lies in.
    pub from: usize,
    /// The words from there.
    pub words: Box<[u64]>,
}

/// The fronts of all boundaries within a limit, as far as they are known.
pub struct Fronts {
    /// The limit.
    limit_ns: u64,
    /// See [`Search::slack_ns`].
    slack_ns: u64,
    known: Known,
    /// For each boundary its front; none where pairs are too many.
    fronts: Vec<Option<Front>>,
}

/// Fronts of plans whose stages are busy for at most `within.limit_ns`, with every item in its window; `None` if no plan keeps the
/// limit. It starts from those within a looser limit, if there are some, and stops looking when it must.
///
/// Time O(p t / 8 + I) a round for p pairs of nodes, I ideals and t transfers.
pub fn fronts(
    within: &Within,
    looser: Option<&Arc<Fronts>>,
    must_stop: &dyn Fn() -> bool,
) -> Option<Arc<Fronts>> {
    let &Within {
        parts,
        ground,
        limit_ns,
        ..
    } = within;
    let looser = looser.filter(|looser| limit_ns <= looser.limit_ns);
    if let Some(looser) = looser {
        // Each boundary loses what all stages do.
        let boundaries = within.boundaries as u64;
        let less_ns = boundaries * (boundaries + 1) * (looser.limit_ns - limit_ns);
        if less_ns < looser.slack_ns / WORTH_A_LOOK {
            return Some(looser.clone());
        }
    }
    let known = looser.map(|looser| &looser.known);
    let mut search = Search::new(within, known);
    let mut slack_ns = u64::MAX;
    let mut fruitless = 0;
    let mut most = ground.closeness(match within.corridor {
        None => AT_MOST,
        Some(_) => IN_CORRIDOR,
    });
    while !must_stop() {
        if !search.round(ground.closeness(AT_FIRST), must_stop) {
            return None;
        }
        let before_ns = mem::replace(&mut slack_ns, search.slack_ns()?);
        if slack_ns < before_ns - before_ns / WORTH_A_ROUND {
            continue;
        }
        fruitless = match slack_ns < before_ns - before_ns / WORTH_A_LOOK {
            true => 0,
            false => fruitless + 1,
        };
        if fruitless > PATIENCE {
            break;
        }
        let looked_at = search.look_closer(most)?;
        if looked_at == 0 {
            break;
        }
        most.leaves = most.leaves.saturating_sub(looked_at);
    }
    let front = |pairs: &Pairs| Front::new(parts, ground, pairs);
    Some(Arc::new(Fronts {
        limit_ns,
        slack_ns,
        fronts: search.known.pairs.iter().map(front).collect(),
        known: search.known,
    }))
}

impl Fronts {
    /// The pairs that can lie before a boundary with so many stages in front, if they are known.
    pub fn before(&self, stages: usize) -> Option<&Front> {
        self.fronts.get(stages.wrapping_sub(1))?.as_ref()
    }
}

impl Front {
    /// The front of all pairs of ideals below pairs of nodes, which come in any order; none where it would take too much room.
    fn new(parts: &[Part; 2], ground: &Ground, pairs: &Pairs) -> Option<Self> {
        let width = |p: usize| ground.trees[p].width(pairs.level);
        let below = |p: usize, node: usize| ground.trees[p].below(pairs.level, node as u32);
        let mut nodes = [0, 1].map(|p| FixedBitSet::with_capacity(width(p)));
        for pair in &pairs.nodes {
            (0..2).for_each(|p| nodes[p].insert(pair[p] as usize));
        }
        let ideals = [0, 1].map(|p: usize| {
            let mut ideals = FixedBitSet::with_capacity(parts[p].len());
            let all = nodes[p].ones().flat_map(|node| below(p, node));
            all.for_each(|&ideal| ideals.insert(ideal as usize));
            ideals
        });
        let mut ranks = vec![0; parts[1].len()];
        for (rank, ideal) in ideals[1].ones().enumerate() {
            ranks[ideal] = rank;
        }
        // For each node the least and the most work below it, and of the second part the first and the last word of a row.
        let range = |values: &mut dyn Iterator<Item = u64>| {
            values.fold([u64::MAX, 0], |[least, most], value| {
                [least.min(value), most.max(value)]
            })
        };
        let works = [0, 1].map(|p: usize| {
            let of = |node: usize| range(&mut below(p, node).iter().map(|&ideal| parts[p].work_ns(ideal, 0)));
            (0..width(p)).map(of).collect::<Vec<_>>()
        });
        let of = |node: usize| {
            range(
                &mut below(1, node)
                    .iter()
                    .map(|&ideal| ranks[ideal as usize] as u64 / 64),
            )
        };
        let words: Vec<[u64; 2]> = (0..width(1)).map(of).collect();
        let mut work_ns = [u64::MAX, 0];
        let mut ends = vec![[u64::MAX, 0]; width(0)];
        for pair in &pairs.nodes {
            let [first, second] = pair.map(|node| node as usize);
            let [[least, most], [mate_least, mate_most]] = [works[0][first], works[1][second]];
            work_ns = [
                work_ns[0].min(least + mate_least),
                work_ns[1].max(most + mate_most),
            ];
            let [from, to] = ends[first];
            ends[first] = [from.min(words[second][0]), to.max(words[second][1])];
        }
        let length = |&[from, to]: &[u64; 2]| (to + 1).saturating_sub(from) as usize;
        if ends.iter().map(length).sum::<usize>() > MOST_WORDS {
            return None;
        }
        let row = |ends: &[u64; 2]| Row {
            from: ends[0] as usize,
            words: vec![0; length(ends)].into(),
        };
        let mut rows: Vec<Row> = ends.iter().map(row).collect();
        for pair in &pairs.nodes {
            let [first, second] = pair.map(|node| node as usize);
            let row = &mut rows[first];
            for &mate in below(1, second) {
                let rank = ranks[mate as usize];
                row.words[rank / 64 - row.from] |= 1 << (rank % 64);
            }
        }
        let mut row_of = vec![0; parts[0].len()];
        for node in nodes[0].ones() {
            below(0, node)
                .iter()
                .for_each(|&ideal| row_of[ideal as usize] = node as u32);
        }
        Some(Self {
            row_of,
            rows,
            ideals,
            work_ns,
        })
    }

    /// The second ideals that pair with a first one, by rank among those of the front.
    pub fn row(&self, first: Ideal) -> &Row {
        &self.rows[self.row_of[first as usize] as usize]
    }
}

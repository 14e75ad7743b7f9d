//! Links between devices that are numbered row by row: of one level, of two where nodes have a link inside, and of their own where kinds do.

use super::Row;
use crate::model::cluster::{Cluster, Link, MOST_PAIR_LINKS};
use crate::model::settings::Settings;

/// The level of links inside a node; of all that have none of their own, where there are no nodes.
pub const INSIDE: usize = 0;
/// The level of links between nodes.
pub const BETWEEN: usize = 1;
/// Levels at most: behind the two above those of pairs of kinds.
pub const LEVELS: usize = 2 + MOST_PAIR_LINKS;

/// What something takes by level of the link, in ticks; at levels that no link has, what it takes at one that some has.
pub type ByLevel = [u64; LEVELS];

/// The link of each level, and where each lies.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// Devices of a node; `None` where there are none.
    pub node: Option<usize>,
    levels: [Link; LEVELS],
    /// How far each level goes: of two the higher goes farther.
    ranks: [usize; LEVELS],
    /// The number of the first device of each row.
    firsts: Vec<usize>,
    /// The level of links between devices that share no node, by the rows of both.
    between: Vec<Vec<usize>>,
}

impl Links {
    /// The links of rows of devices.
    pub(super) fn new(cluster: &Cluster, settings: &Settings, rows: &[Row]) -> Self {
        let node = cluster.nodes.map(|nodes| nodes.devices);
        let apart = if node.is_some() { BETWEEN } else { INSIDE };
        let mut levels = vec![cluster.nodes.map_or(settings.link, |nodes| nodes.link)];
        levels.push(settings.link);
        let mut level_of = |link: Link| {
            let known = levels[BETWEEN + 1..].iter().position(|known| *known == link);
            known.map_or_else(
                || {
                    levels.push(link);
                    levels.len() - 1
                },
                |at| BETWEEN + 1 + at,
            )
        };
        let mut between = vec![vec![apart; rows.len()]; rows.len()];
        for (one, row) in rows.iter().enumerate() {
            for (other, beside) in rows.iter().enumerate() {
                if let Some(link) = cluster.link_of(row.kind, beside.kind) {
                    between[one][other] = level_of(link);
                }
            }
        }
        if rows.len() == 1 && between[0][0] > BETWEEN {
            // Of one row all that share no node have it.
            levels[apart] = levels[between[0][0]];
            between[0][0] = apart;
        }
        let mut links = Self {
            node,
            ranks: [0; LEVELS],
            levels: [levels[INSIDE]; LEVELS],
            firsts: rows.iter().map(|row| row.first).collect(),
            between,
        };
        let known = links.of_rows(0..rows.len());
        links.levels = std::array::from_fn(|level| match known.contains(&level) {
            true => levels[level],
            false => levels[known.first().copied().unwrap_or(INSIDE)],
        });
        links.ranks = ranks(&links.levels, node.is_some());
        links
    }

    /// The link of a level.
    pub fn link(&self, level: usize) -> Link {
        self.levels[level]
    }

    /// Something by level, from the link.
    pub(super) fn by_level(&self, of: impl Fn(Link) -> u64) -> ByLevel {
        self.levels.map(of)
    }

    /// Whether some pair of rows has a link of its own.
    pub fn differ_by_rows(&self) -> bool {
        self.between.iter().flatten().any(|&level| level > BETWEEN)
    }

    /// The levels that links between devices of some rows may have, ascending.
    pub fn of_rows(&self, rows: impl Iterator<Item = usize> + Clone) -> Vec<usize> {
        let pairs = rows
            .clone()
            .flat_map(|one| rows.clone().map(move |other| [one, other]));
        let apart = pairs.map(|[one, other]| self.between[one][other]);
        let mut levels: Vec<usize> = apart.chain(self.node.map(|_| INSIDE)).collect();
        levels.sort_unstable();
        levels.dedup();
        levels
    }

    /// Of two levels the one that goes farther: out of a node, and else over the link of less bandwidth, and of more latency where that is equal.
    pub fn farther(&self, one: usize, other: usize) -> usize {
        if self.ranks[other] > self.ranks[one] {
            other
        } else {
            one
        }
    }

    /// The level of a link between two devices, numbered from 0.
    pub fn level(&self, one: usize, other: usize) -> usize {
        self.level_between(
            [one, other].map(|device| self.row(device)),
            self.share_node(one, other),
        )
    }

    /// The level of a link between devices of two rows, which may share a node.
    pub fn level_between(&self, [one, other]: [usize; 2], share_node: bool) -> usize {
        match share_node {
            true => INSIDE,
            false => self.between[one][other],
        }
    }

    /// Whether two devices share a node; `false` where there are none.
    pub fn share_node(&self, one: usize, other: usize) -> bool {
        self.node.is_some_and(|devices| one / devices == other / devices)
    }

    fn row(&self, device: usize) -> usize {
        self.firsts.partition_point(|&first| first <= device) - 1
    }

    /// Whether no group of a stage spans nodes: so many groups of so many devices from device `start` on.
    pub fn groups_fit(&self, start: usize, size: usize, groups: usize) -> bool {
        let fits = |group: usize| {
            let first = start + group * size;
            self.share_node(first, first + size - 1)
        };
        size == 1 || self.node.is_none() || (0..groups).all(fits)
    }

    /// The level at which so many devices of a row, one behind the other, exchange something in every pass: inside a node wherever a node has as many.
    pub(crate) fn level_of_group(&self, row: usize, devices: usize) -> usize {
        self.level_between([row, row], self.node.is_some_and(|node| devices <= node))
    }
}

/// How far levels go.
fn ranks(levels: &[Link; LEVELS], has_nodes: bool) -> [usize; LEVELS] {
    let mut order: Vec<usize> = (0..LEVELS).collect();
    order.sort_by(|&one, &other| {
        let is_outside = |level: usize| !has_nodes || level != INSIDE;
        let rate = |level: usize| levels[level].bandwidth_bytes_per_s;
        let latency = |level: usize| levels[level].latency_ns;
        (is_outside(one).cmp(&is_outside(other)))
            .then(rate(other).total_cmp(&rate(one)))
            .then(latency(one).cmp(&latency(other)))
    });
    let mut ranks = [0; LEVELS];
    for (rank, &level) in order.iter().enumerate() {
        ranks[level] = rank;
    }
    ranks
}

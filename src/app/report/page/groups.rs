//! Layers in groups that a reader opens and closes, so that a thousand of them stay readable.
//!
//! Layers whose names begin alike belong together, as in TensorBoard's graphs (K. Wongsuphasawat et al., *Visualizing
//! dataflow graphs of deep learning models in TensorFlow*, IEEE Transactions on Visualization and Computer Graphics 24(1),
//! 2018). What is ours: the layers are put into a topological order that keeps common beginnings together as far as it can,
//! and a group is a run of that order, so that data never flow from a group out and back, whichever groups are closed. Of
//! `a/x -> b/y -> a/z` it makes no group `a`, since `b/y` lies between. Where names say nothing, as in `node541`, and where a
//! group has more members than the eye takes in, runs end where the fewest tensors cross.

use std::ops::Range;

use serde::Serialize;

use crate::app::report::layout::Fan;

/// Members that a group has at most.
const MOST: usize = 32;
/// Members that a run has at least which is cut out of a larger group.
const LEAST: usize = MOST / 4;
/// Parts of a name that are looked at.
const DEEPEST: usize = 24;

/// A layer, by its place in [`order`], or a group.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Member {
    /// A layer.
    Layer(usize),
    /// Layers that belong together.
    Group(Group),
}

/// Members that follow each other in the order of the layers.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Group {
    /// What it is called: the common beginning of its names, or the first and the last of its members.
    pub name: String,
    /// The beginning that all its names share.
    pub prefix: String,
    /// In order, at least two but for a stage.
    pub members: Vec<Member>,
}

/// A topological order of the layers in which those of a band follow each other: of the layers whose producers are all out,
/// next comes the one whose name shares most parts with the last, then the one that is ready for the shortest time.
///
/// `bands[v]` must not fall along an edge. Time O(V R) for V layers of which at most R are ready at once.
pub(super) fn order(names: &[&str], bands: &[usize], fans: &[Fan]) -> Vec<usize> {
    let parts: Vec<Vec<&str>> = parts(names);
    let mut missing = vec![0_usize; names.len()];
    let mut below = vec![Vec::new(); names.len()];
    for (from, consumers) in fans {
        below[*from].clone_from(consumers);
        consumers.iter().for_each(|&to| missing[to] += 1);
    }
    let mut order: Vec<usize> = Vec::with_capacity(names.len());
    // A layer, and how many were out when it became ready.
    let mut ready: Vec<(usize, usize)> = (0..names.len())
        .filter(|&v| missing[v] == 0)
        .map(|v| (v, 0))
        .collect();
    while !ready.is_empty() {
        let last = order.last().map_or(&[][..], |&last: &usize| &parts[last][..]);
        let band = ready.iter().map(|&(v, _)| bands[v]).min();
        let key = |&(v, since): &(usize, usize)| (shared(last, &parts[v]), since, std::cmp::Reverse(v));
        let best = (0..ready.len())
            .filter(|&at| Some(bands[ready[at].0]) == band)
            .max_by_key(|&at| key(&ready[at]));
        let Some(best) = best else { break };
        let (v, _) = ready.swap_remove(best);
        order.push(v);
        for &to in &below[v] {
            missing[to] -= 1;
            if missing[to] == 0 {
                ready.push((to, order.len()));
            }
        }
    }
    order
}

/// Parts of every name with the separators behind them. Names are cut at `/`, `.` and `:`, or at `_` where most have none of
/// these.
fn parts<'a>(names: &[&'a str]) -> Vec<Vec<&'a str>> {
    let usual = |c: char| matches!(c, '/' | '.' | ':');
    let with_usual = names.iter().filter(|name| name.contains(usual)).count();
    let separates = |c: char| usual(c) || (c == '_' && 2 * with_usual < names.len());
    let parts = |name: &&'a str| name.split_inclusive(separates).take(DEEPEST).collect();
    names.iter().map(parts).collect()
}

/// How many parts two names share at their beginning; the last part is the layer's own.
fn shared(one: &[&str], other: &[&str]) -> usize {
    let groups = |parts: &[&str]| parts.len().saturating_sub(1);
    let most = groups(one).min(groups(other));
    (0..most).take_while(|&at| one[at] == other[at]).count()
}

/// Groups over an order of the layers.
pub(super) struct Groups<'a> {
    names: Vec<&'a str>,
    parts: Vec<Vec<&'a str>>,
    /// Producers whose tensor crosses from the layer before each place to that place.
    crossing: Vec<usize>,
}

impl<'a> Groups<'a> {
    /// `names` in order, and `fans` by place in it.
    pub(super) fn new(names: Vec<&'a str>, fans: &[Fan]) -> Self {
        let mut change = vec![0_isize; names.len() + 1];
        for (from, consumers) in fans {
            if let Some(last) = consumers.iter().max() {
                change[from + 1] += 1;
                change[last + 1] -= 1;
            }
        }
        let mut across = 0;
        let count = |change: &isize| {
            across += change;
            usize::try_from(across).unwrap_or(0)
        };
        Self {
            parts: parts(&names),
            crossing: change.iter().map(count).collect(),
            names,
        }
    }

    /// The groups of a run of layers, at most [`MOST`] and each with at most as many members.
    pub(super) fn members_of(&self, run: Range<usize>) -> Vec<Member> {
        match run.is_empty() {
            true => Vec::new(),
            false => self.members(run, 0),
        }
    }

    /// Layers whose first `depth` parts are the same, by the next part.
    fn members(&self, run: Range<usize>, depth: usize) -> Vec<Member> {
        let mut members = Vec::new();
        let mut at = run.start;
        while at < run.end {
            let is_same = |&next: &usize| shared(&self.parts[at], &self.parts[next]) > depth;
            let end = at + 1 + (at + 1..run.end).take_while(is_same).count();
            members.push(match end - at {
                1 => Member::Layer(at),
                _ => self.group(at..end, depth + 1),
            });
            at = end;
        }
        let prefix: String = self.parts[run.start][..depth].concat();
        self.bundled(members, &prefix)
    }

    /// The layers of a run, which share `depth` parts: all the parts that they share are one group, not one in another.
    fn group(&self, run: Range<usize>, depth: usize) -> Member {
        let first = &self.parts[run.start];
        let common = run.clone().map(|at| shared(first, &self.parts[at]));
        // The first shares all but its last part with itself.
        let depth = common.min().unwrap_or(depth);
        let prefix = first[..depth].concat();
        Member::Group(Group {
            name: prefix.trim_end_matches(['/', '.', ':', '_']).to_owned(),
            members: self.members(run, depth),
            prefix,
        })
    }

    /// Members in runs, and these in runs again, until there are few enough.
    fn bundled(&self, mut members: Vec<Member>, prefix: &str) -> Vec<Member> {
        while members.len() > MOST {
            let ends = self.narrow_ends(&members);
            let mut left = members.into_iter();
            let mut from = 0;
            let run = |&end: &usize| {
                let run: Vec<Member> = left.by_ref().take(end - from).collect();
                from = end;
                self.bundle(run, prefix)
            };
            members = ends.iter().map(run).collect();
        }
        members
    }

    /// Where runs end that are neither too short nor too long, with the fewest tensors across, and then with even lengths.
    fn narrow_ends(&self, members: &[Member]) -> Vec<usize> {
        let across = |at: usize| members.get(at).map_or(0, |member| self.crossing[first(member)]);
        // Fewest tensors across up to a place, the sum of squared lengths, and where the last run begins.
        let mut best: Vec<Option<(usize, usize, usize)>> = vec![None; members.len() + 1];
        best[0] = Some((0, 0, 0));
        for end in LEAST..=members.len() {
            let from = end.saturating_sub(MOST)..=end - LEAST;
            let reach = |start: usize| {
                let (tensors, squares, _) = best[start]?;
                Some((tensors + across(end), squares + (end - start).pow(2), start))
            };
            best[end] = from.filter_map(reach).min();
        }
        let mut ends = vec![members.len()];
        while let Some((_, _, start)) = best[ends[ends.len() - 1]].filter(|&(_, _, start)| start > 0) {
            ends.push(start);
        }
        ends.reverse();
        ends
    }

    fn bundle(&self, members: Vec<Member>, prefix: &str) -> Member {
        let label = |member: &Member| match member {
            Member::Layer(at) => self.names[*at].to_owned(),
            Member::Group(group) => group.name.clone(),
        };
        let own = |name: String| name.strip_prefix(prefix).map_or(name.clone(), str::to_owned);
        // Of runs of runs the outermost names are enough.
        let begin = |name: String| name.split(BETWEEN).next().map_or(name.clone(), str::to_owned);
        let end = |name: String| name.split(BETWEEN).last().map_or(name.clone(), str::to_owned);
        let ends = (members.first().map(label), members.last().map(label));
        let name = match ends {
            (Some(first), Some(last)) => {
                format!("{}{BETWEEN}{}", begin(own(first)), end(own(last)))
            }
            _ => String::new(),
        };
        Member::Group(Group {
            name,
            prefix: prefix.to_owned(),
            members,
        })
    }
}

/// Between the first and the last name of a run.
const BETWEEN: &str = " … ";

/// The first layer of a member.
fn first(member: &Member) -> usize {
    match member {
        Member::Layer(at) => *at,
        Member::Group(group) => group.members.first().map_or(0, first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(n: usize) -> Vec<Fan> {
        (1..n).map(|to| (to - 1, vec![to])).collect()
    }

    fn names(members: &[Member]) -> Vec<String> {
        let name = |member: &Member| match member {
            Member::Layer(at) => at.to_string(),
            Member::Group(group) => format!("{}[{}]", group.name, names(&group.members).join(" ")),
        };
        members.iter().map(name).collect()
    }

    #[test]
    fn common_beginnings_stay_together() {
        // Two branches side by side, listed in turn.
        let ids = ["stem", "a/x", "b/x", "a/y", "b/y", "head"];
        let fans = [
            (0, vec![1, 2]),
            (1, vec![3]),
            (2, vec![4]),
            (3, vec![5]),
            (4, vec![5]),
        ];
        let order = order(&ids, &[0; 6], &fans);
        assert_eq!(order, [0, 1, 3, 2, 4, 5]);
        let groups = Groups::new(order.iter().map(|&at| ids[at]).collect(), &chain(6));
        assert_eq!(names(&groups.members_of(0..6)), ["0", "a[1 2]", "b[3 4]", "5"]);
    }

    #[test]
    fn what_lies_between_parts_a_group() {
        let ids = vec!["a/x", "b/y", "a/z"];
        assert_eq!(
            names(&Groups::new(ids, &chain(3)).members_of(0..3)),
            ["0", "1", "2"]
        );
    }

    #[test]
    fn a_group_alone_in_a_group_is_one() {
        let ids = vec!["net.block.a/x", "net.block.a/y", "net.block.b/x", "net.block.b/y"];
        let groups = Groups::new(ids, &chain(4));
        assert_eq!(
            names(&groups.members_of(0..4)),
            ["net.block[net.block.a[0 1] net.block.b[2 3]]"]
        );
    }

    #[test]
    fn bands_come_before_names() {
        let ids = ["a/x", "a/y", "b/x"];
        assert_eq!(order(&ids, &[0, 1, 0], &[]), [0, 2, 1]);
    }

    #[test]
    fn a_long_chain_is_cut_where_it_is_narrow() {
        let ids: Vec<String> = (0..40).map(|at| format!("node{at}")).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        // A second line beside the chain, but for one place.
        let mut fans = chain(40);
        fans[0].1.push(24);
        fans[25].1.push(39);
        let groups = Groups::new(ids, &fans).members_of(0..40);
        let [Member::Group(one), Member::Group(two)] = &groups[..] else {
            panic!("{groups:?}");
        };
        assert_eq!(
            (one.members.len(), two.members.len(), one.name.as_str()),
            (25, 15, "node0 … node24")
        );
    }

    #[test]
    fn groups_of_every_size_can_be_cut() {
        for n in [33, 34, 63, 64, 65, 100, 1025, 1251] {
            let ids: Vec<String> = (0..n).map(|at| format!("n{at}")).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let members = Groups::new(ids, &chain(n)).members_of(0..n);
            assert!(members.len() <= MOST && members.len() > 1, "{n}");
        }
    }

    #[test]
    fn names_without_end_do_not_overflow() {
        let long = "a/".repeat(100_000);
        let ids = [format!("{long}x"), format!("{long}y")];
        let groups = Groups::new(ids.iter().map(String::as_str).collect(), &chain(2)).members_of(0..2);
        assert_eq!(groups.len(), 1);
    }
}

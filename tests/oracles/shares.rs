//! Shares by trying everything: knows no order of resources and no sums of levels, unlike [`stagecut::shares`].
//!
//! With every resource that has levels at one of them, the best shares of the others are a linear program, whose vertices are
//! few. So it tries every combination of levels, and every vertex for each.

use stagecut::cluster::{DeviceKind, Resource};
use stagecut::cost::allocation::StageWork;
use stagecut::options::Shares;
use stagecut::shares::Level;
use stagecut::workers::{Choice, Workers};

/// How much nearer one of two levels must be: of equally near ones the smaller share counts.
const TIE: f64 = 1e-9;

/// By how much speeds may differ that are one, relatively.
const SAME: f64 = 1e-12;

/// A resource type in all devices of a class.
struct Part {
    /// Position in [`Workers::resource_names`].
    name: usize,
    /// What it does of each phase in a ms with all of it, so that numbers lie near 1.
    speeds: [f64; 2],
    levels: Option<Vec<Level>>,
}

impl Part {
    fn at(&self, share: f64) -> Level {
        let Some(levels) = &self.levels else {
            return Level::linear(share);
        };
        let mut nearest = levels[0];
        for level in levels {
            if (level.share - share).abs() < (nearest.share - share).abs() - TIE {
                nearest = *level;
            }
        }
        nearest
    }
}

/// What a stage's worker splits between the phases.
pub(super) struct Stage {
    parts: Vec<Part>,
    /// Phases with nothing to do.
    idle: [bool; 2],
}

impl Stage {
    /// The stage on a choice; `None` if the choice cannot run it.
    pub(super) fn new(workers: &Workers, choice: &Choice, work: &StageWork) -> Option<Self> {
        let mut stage = Self {
            parts: Vec::new(),
            idle: [false; 2],
        };
        for (class, &devices) in choice.devices.iter().enumerate().filter(|(_, n)| **n > 0) {
            let times = work.times_ns[class]?;
            let of = &workers.classes[class];
            for (at, resource) in of.resources.iter().enumerate() {
                let rates = [resource.forward_rate, resource.backward_rate];
                stage.parts.push(Part {
                    name: workers.name_of(class, at),
                    speeds: [0, 1]
                        .map(|phase| 1e6 * devices as f64 * rates[phase] / times[phase].max(1) as f64),
                    levels: of.levels[at].clone(),
                });
            }
            (0..2).for_each(|phase| stage.idle[phase] |= times[phase] == 0);
        }
        Some(stage)
    }

    /// A stage on devices of one kind, of which each takes so long for its part of either phase with all that it is, in ns.
    pub(super) fn on_kind(kind: &DeviceKind, equal_parts: Option<usize>, alone_ns: [f64; 2]) -> Self {
        let idle = alone_ns.map(|ns| ns == 0.0);
        let speeds = alone_ns.map(|ns| if ns == 0.0 { 1.0 } else { 1e6 / ns });
        let resources = &kind.resources;
        let all = [
            resources.iter().map(|of| of.forward_rate).sum::<f64>(),
            resources.iter().map(|of| of.backward_rate).sum::<f64>(),
        ];
        let part = |of: &Resource| Part {
            name: 0,
            speeds: [
                of.forward_rate / all[0] * speeds[0],
                of.backward_rate / all[1] * speeds[1],
            ],
            levels: levels_of(of, equal_parts),
        };
        let whole = || Part {
            name: 0,
            speeds,
            levels: equal_parts.map(in_equal_parts),
        };
        let parts = match resources.is_empty() {
            true => vec![whole()],
            false => resources.iter().map(part).collect(),
        };
        Self { parts, idle }
    }

    /// Forward and backward time in ns under a policy: all of those that are equally good where the best shares are several, but for such that others beat.
    pub(super) fn times_ns(&self, policy: Shares) -> Vec<[f64; 2]> {
        let mut speeds = Vec::new();
        match self.prescribed(policy) {
            Some(shares) => speeds.push(self.speeds_at(&shares)),
            None => self.visit(&mut Vec::new(), &mut |reached| speeds.push(reached)),
        }
        let most = speeds
            .iter()
            .map(|&speeds| self.slower(speeds))
            .fold(0.0, f64::max);
        speeds.retain(|&speeds| self.slower(speeds) >= most * (1.0 - SAME));
        let ns = |speeds: [f64; 2]| {
            [0, 1].map(|phase| {
                if self.idle[phase] {
                    0.0
                } else {
                    1e6 / speeds[phase]
                }
            })
        };
        let all: Vec<[f64; 2]> = speeds.into_iter().map(ns).collect();
        let is_no_more = |one: f64, other: f64| one <= other * (1.0 + SAME);
        let mut kept: Vec<[f64; 2]> = Vec::new();
        for times in &all {
            let is_one = |other: &[f64; 2]| (0..2).all(|at| is_no_more(other[at], times[at]));
            let beats =
                |other: &[f64; 2]| is_one(other) && (0..2).any(|at| !is_no_more(times[at], other[at]));
            if !kept.iter().any(is_one) && !all.iter().any(beats) {
                kept.push(*times);
            }
        }
        kept
    }

    /// Time of the slower phase in whole ns under a policy; with `Shares::Global` at the stage's own best, which is no more than
    /// at any share for all stages.
    pub(super) fn ns(&self, policy: Shares) -> u64 {
        whole_ns(match self.prescribed(policy) {
            Some(shares) => self.slower(self.speeds_at(&shares)),
            None => self.fastest(),
        })
    }

    /// The share of every part that a policy prescribes, whatever comes of it; `None` where it asks for the best.
    fn prescribed(&self, policy: Shares) -> Option<Vec<f64>> {
        let [forward_idle, backward_idle] = self.idle;
        let theorem = |part: &Part| match (forward_idle, backward_idle) {
            (true, _) => 0.0,
            (_, true) => 1.0,
            // c / (c + 1) with c = (1 / forward) / (1 / backward).
            _ => part.speeds[1] / (part.speeds[0] + part.speeds[1]),
        };
        match policy {
            Shares::Even => Some(vec![0.5; self.parts.len()]),
            Shares::Theorem => Some(self.parts.iter().map(theorem).collect()),
            Shares::Best | Shares::Global => None,
            other => unreachable!("{other} are no shares that brute force knows"),
        }
    }

    /// Speeds of both phases where each part has the level that is nearest to its share.
    fn speeds_at(&self, shares: &[f64]) -> [f64; 2] {
        let parts = self.parts.iter().zip(shares);
        let levels: Vec<Level> = parts.map(|(part, &share)| part.at(share)).collect();
        self.speeds(&levels)
    }

    fn speeds(&self, levels: &[Level]) -> [f64; 2] {
        let mut speeds = [0.0; 2];
        for (part, level) in self.parts.iter().zip(levels) {
            speeds[0] += part.speeds[0] * level.forward;
            speeds[1] += part.speeds[1] * level.backward;
        }
        speeds
    }

    /// Speed of the slower phase that works; infinite without work.
    fn slower(&self, speeds: [f64; 2]) -> f64 {
        let working = (0..2).filter(|&phase| !self.idle[phase]);
        working.map(|phase| speeds[phase]).fold(f64::INFINITY, f64::min)
    }

    /// The best speed of the slower phase.
    fn fastest(&self) -> f64 {
        let mut most: f64 = 0.0;
        self.visit(&mut Vec::new(), &mut |speeds| {
            most = most.max(self.slower(speeds))
        });
        most
    }

    /// Speeds of both phases with these levels for the first parts and anything for the others, the best of these among them.
    ///
    /// Free parts are given to one phase each, and one of them is split such that both phases are equally fast: some
    /// maximum of the smaller of two linear functions over a box is such a point.
    fn visit(&self, levels: &mut Vec<Level>, see: &mut dyn FnMut([f64; 2])) {
        let Some(part) = self.parts.get(levels.len()) else {
            see(self.speeds(levels));
            return self.visit_split(levels, see);
        };
        let ends = [0.0, 1.0].map(Level::linear).to_vec();
        for level in part.levels.clone().unwrap_or(ends) {
            levels.push(level);
            self.visit(levels, see);
            levels.pop();
        }
    }

    fn visit_split(&self, levels: &[Level], see: &mut dyn FnMut([f64; 2])) {
        for (at, part) in self
            .parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.levels.is_none())
        {
            let mut levels = levels.to_vec();
            levels[at] = Level {
                share: 0.0,
                forward: 0.0,
                backward: 0.0,
            };
            let [forward, backward] = self.speeds(&levels);
            // forward + β f = backward + (1 - β) b
            let share = (backward + part.speeds[1] - forward) / (part.speeds[0] + part.speeds[1]);
            if (0.0..=1.0).contains(&share) {
                levels[at] = Level::linear(share);
                see(self.speeds(&levels));
            }
        }
    }
}

/// What a resource may be split at: as measured, in equal parts, or anywhere.
fn levels_of(resource: &Resource, equal_parts: Option<usize>) -> Option<Vec<Level>> {
    let measured = &resource.levels;
    if measured.is_empty() {
        return equal_parts.map(in_equal_parts);
    }
    let level = |share: f64| {
        let at = |share: f64| measured.iter().find(|of| (of.share - share).abs() < TIE);
        Level {
            share,
            forward: at(share).map_or(share, |of| of.forward_speed),
            backward: at(1.0 - share).map_or(1.0 - share, |of| of.backward_speed),
        }
    };
    let mut shares: Vec<f64> = measured.iter().map(|of| of.share).chain([0.0, 1.0]).collect();
    shares.sort_by(f64::total_cmp);
    Some(shares.into_iter().map(level).collect())
}

fn in_equal_parts(parts: usize) -> Vec<Level> {
    let shares = (0..=parts).map(|part| part as f64 / parts as f64);
    shares.map(Level::linear).collect()
}

/// The nearest ns, of two that are equally near to the lower; what doubles cannot tell from midway is midway.
fn whole_ns(per_ms: f64) -> u64 {
    nearest_ns(1e6 / per_ms)
}

/// The same of a time in ns.
pub(super) fn nearest_ns(ns: f64) -> u64 {
    let lower = ns.floor();
    let slack = ns * 1e-12;
    match slack < 0.25 && (ns - lower - 0.5).abs() <= slack {
        true => lower as u64,
        false => ns.round() as u64,
    }
}

/// The shares for all stages, one a resource type, that make the slowest phase of any stage as fast as can be, and its time in
/// whole ns.
///
/// Between the points where the nearest level of some resource changes, every resource with levels is at one of them, and the
/// rest is a linear program: maximise t with Σ_r A_kr β_r + C_k >= t and Σ_r B_kr (1 - β_r) + D_k >= t for each stage k that
/// works in the phase.
pub(super) fn best_global(types: usize, stages: &[Stage]) -> (Vec<f64>, u64) {
    let mut best = (vec![0.5; types], u64::MAX);
    let mut ranges = vec![Vec::new()];
    for name in 0..types {
        let of_name = ranges_of(name, stages);
        ranges = ranges
            .iter()
            .flat_map(|taken: &Vec<[f64; 2]>| {
                of_name.iter().map(|&range| [taken.as_slice(), &[range]].concat())
            })
            .collect();
    }
    for ranges in ranges {
        let Some(shares) = best_within(&ranges, stages) else {
            continue;
        };
        let of_stage = |stage: &Stage| {
            let levels: Vec<Level> = stage
                .parts
                .iter()
                .map(|part| part.at(shares[part.name]))
                .collect();
            whole_ns(stage.slower(stage.speeds(&levels)))
        };
        let ns = stages.iter().map(of_stage).max().unwrap_or(0);
        if ns < best.1 {
            best = (shares, ns);
        }
    }
    best
}

/// Ranges of shares of a type in which the nearest level of no resource changes; single shares where all have levels.
fn ranges_of(name: usize, stages: &[Stage]) -> Vec<[f64; 2]> {
    let parts = || {
        stages
            .iter()
            .flat_map(|stage| &stage.parts)
            .filter(|part| part.name == name)
    };
    let all_levels = parts().filter_map(|part| part.levels.as_ref());
    let middles = all_levels.flat_map(|levels| {
        levels
            .windows(2)
            .map(|two| f64::midpoint(two[0].share, two[1].share))
    });
    let mut ends: Vec<f64> = middles.chain([1.0]).collect();
    ends.sort_by(f64::total_cmp);
    ends.dedup_by(|a, b| *a - *b < 2.0 * TIE);
    let is_free = parts().any(|part| part.levels.is_none());
    let mut ranges = Vec::new();
    let mut first = 0.0;
    for last in ends {
        ranges.push(match is_free {
            true => [first, last],
            false => [f64::midpoint(first, last); 2],
        });
        // The middle itself belongs to the smaller share.
        first = last + TIE;
    }
    ranges
}

/// The best shares within ranges, by the vertices of the linear program; `None` where every share leaves some phase nothing.
fn best_within(ranges: &[[f64; 2]], stages: &[Stage]) -> Option<Vec<f64>> {
    let open: Vec<usize> = (0..ranges.len())
        .filter(|&name| ranges[name][0] < ranges[name][1])
        .collect();
    let middles: Vec<f64> = ranges
        .iter()
        .map(|range| f64::midpoint(range[0], range[1]))
        .collect();
    // Rows `a · (β, t) >= b` for the shares that are open.
    let mut rows: Vec<(Vec<f64>, f64)> = Vec::new();
    for stage in stages {
        for phase in (0..2).filter(|&phase| !stage.idle[phase]) {
            let mut row = vec![0.0; open.len() + 1];
            let mut given = 0.0;
            for part in &stage.parts {
                let level = part.at(middles[part.name]);
                match (
                    open.iter().position(|&name| name == part.name),
                    &part.levels,
                    phase,
                ) {
                    (Some(at), None, 0) => row[at] += part.speeds[0],
                    (Some(at), None, _) => {
                        row[at] -= part.speeds[1];
                        given += part.speeds[1];
                    }
                    (_, _, 0) => given += part.speeds[0] * level.forward,
                    _ => given += part.speeds[1] * level.backward,
                }
            }
            row[open.len()] = -1.0;
            rows.push((row, -given));
        }
    }
    for (at, &name) in open.iter().enumerate() {
        let unit = |sign: f64| {
            (0..=open.len())
                .map(|i| if i == at { sign } else { 0.0 })
                .collect()
        };
        rows.push((unit(1.0), ranges[name][0]));
        rows.push((unit(-1.0), -ranges[name][1]));
    }
    let mut shares = middles;
    let best = best_vertex(&rows, open.len());
    match best {
        Some(point) => (0..open.len()).for_each(|at| shares[open[at]] = point[at].clamp(0.0, 1.0)),
        // Nothing works at all, and any shares do.
        None if stages.iter().all(|stage| stage.idle == [true; 2]) => {}
        None => return None,
    }
    Some(shares)
}

/// The vertex of largest last coordinate, t, of the points (β, t) that keep all rows `a · (β, t) >= b`.
fn best_vertex(rows: &[(Vec<f64>, f64)], open: usize) -> Option<Vec<f64>> {
    let mut best: Option<Vec<f64>> = None;
    let mut at: Vec<usize> = (0..=open).collect();
    if rows.len() < at.len() {
        return None;
    }
    loop {
        let active: Vec<(Vec<f64>, f64)> = at.iter().map(|&row| rows[row].clone()).collect();
        if let Some(point) = intersection(active) {
            let holds = |(a, b): &(Vec<f64>, f64)| {
                let value: f64 = a.iter().zip(&point).map(|(a, x)| a * x).sum();
                let size = a.iter().map(|a| a.abs()).fold(1.0, f64::max);
                value >= b - 1e-12 * size
            };
            let is_better = best.as_ref().is_none_or(|best| point[open] > best[open]);
            if is_better && rows.iter().all(holds) {
                best = Some(point);
            }
        }
        // The next subset in lexicographic order.
        let last = rows.len() - at.len();
        let Some(grow) = (0..at.len()).rev().find(|&i| at[i] < last + i) else {
            return best;
        };
        at[grow] += 1;
        (grow + 1..at.len()).for_each(|i| at[i] = at[i - 1] + 1);
    }
}

/// Where so many hyperplanes meet as there are dimensions; `None` if not in one point. Gauss with partial pivoting.
fn intersection(mut rows: Vec<(Vec<f64>, f64)>) -> Option<Vec<f64>> {
    let n = rows.len();
    for column in 0..n {
        let size = |row: &(Vec<f64>, f64)| row.0[column].abs();
        let pivot = (column..n).max_by(|&a, &b| size(&rows[a]).total_cmp(&size(&rows[b])))?;
        if size(&rows[pivot]) < 1e-12 {
            return None;
        }
        rows.swap(column, pivot);
        let (by, right) = rows[column].clone();
        for (other, row) in rows.iter_mut().enumerate() {
            if other != column {
                let factor = row.0[column] / by[column];
                row.0.iter_mut().zip(&by).for_each(|(a, b)| *a -= factor * b);
                row.1 -= factor * right;
            }
        }
    }
    Some((0..n).map(|i| rows[i].1 / rows[i].0[i]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hyperplanes_meet_in_one_point_or_not() {
        let point = intersection(vec![(vec![0.0, 2.0], 4.0), (vec![1.0, 1.0], 3.0)]);
        assert_eq!(point, Some(vec![1.0, 2.0]));
        let parallel = intersection(vec![(vec![1.0, 2.0], 4.0), (vec![2.0, 4.0], 3.0)]);
        assert_eq!(parallel, None);
    }

    fn part(name: usize, shares: &[f64]) -> Part {
        let levels = shares.iter().copied().map(Level::linear).collect();
        Part {
            name,
            speeds: [1.0, 1.0],
            levels: (!shares.is_empty()).then_some(levels),
        }
    }

    fn stage(parts: Vec<Part>) -> Stage {
        Stage {
            parts,
            idle: [false; 2],
        }
    }

    #[test]
    fn a_free_resource_makes_up_for_levels() {
        // Thirds beside any share: 1/3 and 2/3 need 5/6 or 1/6 beside them; both phases reach 1.
        let both = stage(vec![part(0, &[0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]), part(1, &[])]);
        assert_eq!(both.ns(Shares::Best), 1_000_000);
        // With one share for both, 1/2 is a third on the one: 5/6 forwards.
        let alike = stage(vec![part(0, &[0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]), part(0, &[])]);
        let (shares, ns) = best_global(1, &[alike]);
        assert!(
            (shares[0] - 0.5).abs() < 1e-8 && ns == 1_200_000,
            "{shares:?} {ns}"
        );
    }
}

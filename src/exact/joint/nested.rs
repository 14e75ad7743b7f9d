//! Two chunks a device in a V: what the two say together, from the outside of the pipeline to its middle. The page has it as `nested`.
//!
//! The chunks of device d lie around those of device d + 1. So a cut is found device by device: what lies before the first chunk and behind the
//! second one is all that the next device sees. For an iteration that is given, the most that first devices can take off both ends is found ideal by
//! ideal, and where nothing is left of the middle in the end, some cut may be as short; halving a range tells the least.

use fixedbitset::FixedBitSet;

use super::crossing::crossing;
use super::{State, Weights};
use crate::model::communication::Communication;
use crate::model::units::bisect;
use crate::problem::control::Control;
use crate::problem::{Assignment, Item, Problem};
use crate::schedule::Placement;
use crate::search::ideals::Ideals;

/// Halvings of the range between bound and plan, and what is left of it that is worth no more, as a part of the plan.
const HALVINGS: usize = 14;
const WORTH: f64 = 2e-4;
/// More than what sums of doubles are off.
const ROUNDING: f64 = 1e-9;

/// What the two chunks of devices say, if there are two of each in a V: no iteration takes less, in ns, and cuts whose devices are as good as that
/// allows.
pub(super) fn nested(
    state: &State,
    ideals: &Ideals,
    known_ns: u64,
    control: &Control,
) -> (u64, Vec<Assignment>) {
    let question = state.question;
    let is_v = question.virtual_stages == 2 && (question.placement == Placement::V || question.devices == 1);
    if !is_v || state.best.is_none() {
        return (0, Vec::new());
    }
    let line = Line::new(state, ideals);
    let best_ns = state.best_ns() as f64;
    let (mut low_ns, mut high_ns) = ((known_ns as f64).min(best_ns), best_ns);
    let mut cuts = Vec::new();
    for _ in 0..HALVINGS {
        if high_ns - low_ns <= WORTH * best_ns {
            break;
        }
        let middle_ns = low_ns + (high_ns - low_ns) / 2.0;
        match line.ends_within(middle_ns, control) {
            None => break,
            Some(None) => low_ns = middle_ns,
            Some(Some(ends)) => {
                high_ns = middle_ns;
                cuts.extend(line.cut(ideals, &ends));
            }
        }
    }
    let slack_ns = match question.weights {
        Weights::Share(_) => (6 * (question.micro_batches + 2) * question.devices) as u64,
        Weights::Whole | Weights::Told(_) => 0,
    };
    cuts.reverse();
    (
        ((low_ns * (1.0 - ROUNDING)) as u64).saturating_sub(slack_ns),
        cuts,
    )
}

/// Times of a micro-batch on some items, in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    forward: f64,
    input: f64,
    weight: f64,
}

impl Work {
    fn with(self, other: Self, combine: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            forward: combine(self.forward, other.forward),
            input: combine(self.input, other.input),
            weight: combine(self.weight, other.weight),
        }
    }

    fn minus(self, other: Self) -> Self {
        self.with(other, |a, b| a - b)
    }

    fn holds(self, other: Self) -> bool {
        self.forward >= other.forward && self.input >= other.input && self.weight >= other.weight
    }

    fn all(self) -> f64 {
        self.forward + self.input + self.weight
    }
}

/// The way to and fro through some boundaries between devices, in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    there: f64,
    back: f64,
}

impl Way {
    fn plus(self, other: Self) -> Self {
        Self {
            there: self.there + other.there,
            back: self.back + other.back,
        }
    }

    fn min(self, other: Self) -> Self {
        Self {
            there: self.there.min(other.there),
            back: self.back.min(other.back),
        }
    }
}

/// What two chunks of a device and everything around them have.
struct Around {
    before: Work,
    first: Work,
    between: Work,
    second: Work,
    behind: Work,
    /// Ways before the first chunk, between the two, and behind the second.
    ways: [Way; 3],
}

/// Where the outer devices end: the first chunk of the last of them at one ideal, and the second begins at another.
type Ends = Vec<[usize; 2]>;

/// All ideals in the order of their work.
///
/// Where some are not inside one another, the second chunks of devices are told by bounds on ideals: `most` of those up to one, `least` of those from
/// it on. In a chain these are the ideal itself.
struct Line {
    devices: usize,
    micro_batches: f64,
    room: Option<f64>,
    /// Whether every ideal lies in the next one.
    is_chain: bool,
    /// Positions in [`Ideals::sets`].
    order: Vec<usize>,
    own: Vec<Work>,
    most: Vec<Work>,
    least: Vec<Work>,
    /// The way through the boundary at each ideal.
    boundary: Vec<Way>,
    /// By the number of boundaries and ideal, the shortest way through them up to there, and from there or any later ideal on.
    before: Vec<Vec<Way>>,
    behind: Vec<Vec<Way>>,
}

impl Line {
    fn new(state: &State, ideals: &Ideals) -> Self {
        let (problem, question) = (state.problem, state.question);
        let of_set = |position: usize| work_of(problem, &question.weights, &ideals.sets[position]);
        let mut line: Vec<(usize, Work)> = (0..ideals.sets.len()).map(|at| (at, of_set(at))).collect();
        line.sort_by(|a, b| a.1.all().total_cmp(&b.1.all()).then(a.0.cmp(&b.0)));
        let order: Vec<usize> = line.iter().map(|&(at, _)| at).collect();
        let own: Vec<Work> = line.iter().map(|&(_, work)| work).collect();
        let mut most = own.clone();
        (1..most.len()).for_each(|at| most[at] = most[at].with(most[at - 1], f64::max));
        let mut least = own.clone();
        (1..least.len())
            .rev()
            .for_each(|at| least[at - 1] = least[at - 1].with(least[at], f64::min));
        let has_links = problem.settings.communication.has_links();
        let way = |&at: &usize| match has_links {
            true => boundary(problem, &ideals.sets[at]),
            false => Way::default(),
        };
        let boundary: Vec<Way> = order.iter().map(way).collect();
        let mut line = Self {
            devices: question.devices,
            micro_batches: question.micro_batches as f64,
            room: question.room.map(|room| room as f64),
            is_chain: ideals.sets.len() == problem.items.len() + 1,
            order,
            own,
            most,
            least,
            boundary,
            before: Vec::new(),
            behind: Vec::new(),
        };
        line.add_ways();
        line
    }

    fn add_ways(&mut self) {
        let none = vec![Way::default(); self.boundary.len()];
        let (mut before, mut behind) = (vec![none.clone()], vec![none]);
        for d in 1..2 * self.devices {
            let longest = Way {
                there: f64::INFINITY,
                back: f64::INFINITY,
            };
            let (mut so_far, mut next) = (longest, Vec::new());
            for (at, &boundary) in self.boundary.iter().enumerate() {
                next.push(so_far.plus(boundary));
                so_far = so_far.min(before[d - 1][at]);
            }
            before.push(next);
            let (mut so_far, mut next) = (longest, vec![longest; self.boundary.len()]);
            for at in (0..self.boundary.len()).rev() {
                let through = match d {
                    1 => self.boundary[at],
                    _ => so_far.plus(self.boundary[at]),
                };
                so_far = so_far.min(behind[d - 1][at]);
                next[at] = next.get(at + 1).map_or(through, |later: &Way| later.min(through));
            }
            behind.push(next);
        }
        (self.before, self.behind) = (before, behind);
    }

    /// Where devices may end such that none says more than that; nothing within where there is no such cut, and `None` where a limit comes first.
    fn ends_within(&self, limit_ns: f64, control: &Control) -> Option<Option<Ends>> {
        let all = self.own.len() - 1;
        // By device, ideal before its first chunk, and the least ideal behind its second, with the ideal that the device before it began at.
        let mut levels: Vec<Vec<Option<(usize, usize)>>> = vec![vec![None; all + 1]];
        levels[0][0] = Some((all, 0));
        let reached = |level: &[Option<(usize, usize)>]| -> Vec<(usize, usize)> {
            let states = level.iter().enumerate();
            states
                .filter_map(|(from, state)| Some((from, (*state)?.0)))
                .collect()
        };
        for device in 0..self.devices - 1 {
            let mut next: Vec<Option<(usize, usize)>> = vec![None; all + 1];
            for (from, to) in reached(&levels[device]) {
                if control.must_stop().is_some() {
                    return None;
                }
                if self.add_ends(&mut next, (device, from, to), limit_ns) {
                    return Some(Some(Ends::new()));
                }
            }
            levels.push(next);
        }
        let last = reached(&levels[self.devices - 1]).into_iter();
        let mut ends = last.filter_map(|(from, to)| Some((from, self.last_end(from, to, limit_ns)?)));
        Some(ends.next().map(|(from, at)| self.path(&levels, from, at)))
    }

    /// Where the chunks of a device may end that lie between two ideals; whether the first one may hold all that is there.
    fn add_ends(
        &self,
        next: &mut [Option<(usize, usize)>],
        (device, from, to): (usize, usize, usize),
        limit_ns: f64,
    ) -> bool {
        let last = self.last(from, to);
        let reached = next.iter_mut().enumerate();
        // Where the devices before may have taken all there is, as one device can with one micro-batch, the first chunk is what they left: nothing.
        let nearest = from + usize::from(from < to);
        for (at, reached) in reached.take(self.farthest(to) + 1).skip(nearest) {
            let first = self.own[at].minus(self.own[from]);
            if self.micro_batches * first.all() > limit_ns {
                break;
            }
            if !self.own[at].holds(self.own[from]) {
                continue;
            }
            let fits = |begins: usize| {
                let begins = self.most[begins].with(last, f64::min);
                self.device_ns(device, [from, at, to], begins) <= limit_ns
            };
            if !fits(to) {
                continue;
            }
            if at >= to {
                return true;
            }
            let begins = bisect([at as u64 - 1, to as u64], |begins| fits(begins as usize)) as usize;
            if reached.is_none_or(|(known, _)| begins < known) {
                *reached = Some((begins, from));
            }
        }
        false
    }

    /// The farthest ideal at which a first chunk may end whose second one ends there at the least.
    fn farthest(&self, to: usize) -> usize {
        match self.is_chain {
            true => to,
            false => self.own.len() - 1,
        }
    }

    /// The least that may lie before the end of a second chunk, if the first one begins at an ideal.
    fn last(&self, from: usize, to: usize) -> Work {
        self.least[to].with(self.own[from], f64::max)
    }

    /// Where the first chunk of the last device may end.
    fn last_end(&self, from: usize, to: usize, limit_ns: f64) -> Option<usize> {
        let fits = |&at: &usize| {
            let ends = self.own[at].with(self.last(from, to), f64::min);
            let holds = self.own[at].holds(self.own[from]);
            holds && self.device_ns(self.devices - 1, [from, at, to], ends) <= limit_ns
        };
        (from..=self.farthest(to)).find(fits)
    }

    /// The ends of all devices, where the last one lies between two ideals and its first chunk ends at a third.
    fn path(&self, levels: &[Vec<Option<(usize, usize)>>], last: usize, at: usize) -> Ends {
        let mut ends = vec![[at, at]];
        let mut now = last;
        for level in levels.iter().rev() {
            if let Some((to, before)) = level[now] {
                ends.push([now, to]);
                now = before;
            }
        }
        ends.reverse();
        ends
    }

    /// The cut of such ends; `None` where ideals do not lie in each other, or a chunk is empty.
    fn cut(&self, ideals: &Ideals, ends: &Ends) -> Option<Assignment> {
        let firsts = ends.iter().map(|&[from, _]| from);
        let seconds = ends.iter().rev().skip(1).map(|&[_, to]| to);
        let path: Vec<usize> = firsts.chain(seconds).map(|at| self.order[at]).collect();
        let all = ideals.sets.last()?.count_ones(..);
        if ends.len() != self.devices + 1 {
            return None;
        }
        let mut cut = vec![0; all];
        for (stage, ends) in path.windows(2).enumerate() {
            let [from, to] = [ends[0], ends[1]].map(|at| &ideals.sets[at]);
            if !from.is_subset(to) || from == to {
                return None;
            }
            to.difference(from).for_each(|item| cut[item] = stage);
        }
        Some(cut)
    }

    /// What a device says whose first chunk lies between two ideals and whose second begins with these times before it and ends at a third.
    fn device_ns(&self, device: usize, [from, at, to]: [usize; 3], begins: Work) -> f64 {
        let (last, all) = (self.last(from, to), self.own[self.own.len() - 1]);
        let ends = self.own[at].with(last, f64::min);
        let inner = 2 * (self.devices - 1 - device);
        let between = match inner {
            0 => Way::default(),
            // The first chunk may end anywhere from there on.
            _ if at >= to => self.behind[inner][to],
            _ => self.boundary[at].plus(self.behind[inner - 1][at + 1]),
        };
        let around = Around {
            before: self.own[from],
            first: ends.minus(self.own[from]),
            between: begins.minus(ends).with(Work::default(), f64::max),
            second: last.minus(begins),
            behind: all.minus(last),
            ways: [self.before[device][from], between, self.behind[device][to]],
        };
        self.around_ns(&around)
    }

    /// Whether there is something of everything that any item has.
    fn has_some_of_all(&self, work: &Work) -> bool {
        let all = self.own[self.own.len() - 1];
        let has = |some: f64, all: f64| some > ROUNDING * all || all == 0.0;
        has(work.forward, all.forward) && has(work.input, all.input) && has(work.weight, all.weight)
    }

    /// What a device says of an iteration: all ranges of its passes by when they may begin and what comes behind, and what it has room for.
    fn around_ns(&self, around: &Around) -> f64 {
        let m = self.micro_batches;
        let Around {
            before,
            first,
            between,
            second,
            behind,
            ways: [came, inside, beyond],
        } = around;
        let own = [first.forward, second.forward, second.input, first.input];
        let gaps = [between.forward + inside.there, between.input + inside.back];
        let turn = [behind.forward + beyond.there, behind.input + beyond.back];
        // What is off the real end is taken off the second chunk first, and off nothing else where some of it is left. In chains the rest does no harm.
        let has_second = self.has_some_of_all(second) || (self.is_chain && second.all() > 0.0);
        let [late_head, late_tail] = match self.is_chain || has_second {
            true => [0.0; 2],
            false => [turn[1], turn[0]],
        };
        let mut heads = [before.forward + came.there; 4];
        heads[1] = heads[0] + own[0] + gaps[0];
        heads[2] = heads[1] + own[1] + turn[0] + turn[1];
        heads[3] = heads[2] + own[2] + gaps[1];
        heads[2] -= late_head;
        let mut tails = [before.input + came.back; 4];
        tails[2] = tails[3] + own[3] + gaps[1];
        tails[1] = tails[2] + own[2] + turn[1] + turn[0];
        tails[0] = tails[1] + own[1] + gaps[0];
        tails[1] -= late_tail;
        let weight = [second.weight, first.weight];
        let both_ns = m * (weight[0] + weight[1]);
        let mut least_ns = heads[3] + m * (own[3] + weight[1]);
        least_ns = least_ns.max(heads[2] + own[2] + m * own[3] + both_ns);
        for (i, head_ns) in heads.iter().enumerate() {
            let mut sum_ns = 0.0;
            for j in i..4 {
                sum_ns += m * own[j];
                least_ns = least_ns.max(head_ns + sum_ns + tails[j]);
            }
            if i < 3 {
                least_ns = least_ns.max(head_ns + sum_ns + both_ns);
            }
        }
        let Some(room) = self.room else {
            return least_ns;
        };
        // How long a micro-batch is held: up to the gradient of the input, and up to that of the weights.
        let of_second = match has_second {
            true => own[1] + turn[0] + turn[1] + own[2],
            false => beyond.there + beyond.back,
        };
        let stay_ns = m / room * (heads[3] + own[3] - heads[0] + of_second);
        least_ns = least_ns.max(heads[0] + stay_ns + tails[3]);
        let weights_ns = m / room * (weight[1] + if has_second { weight[0] } else { 0.0 });
        least_ns = least_ns.max(heads[0] + stay_ns + weights_ns);
        if !has_second {
            return least_ns;
        }
        // Before the first gradient no more forward passes than there is room for have begun.
        let late = (2.0 * m - room).max(0.0);
        let [short, long] = [own[0].min(own[1]), own[0].max(own[1])];
        let late_ns = m * (own[2] + own[3]) + late.min(m) * short + (late - m).max(0.0) * long;
        least_ns.max(heads[2] + late_ns + tails[3].max(both_ns))
    }
}

fn work_of(problem: &Problem, weights: &Weights, set: &FixedBitSet) -> Work {
    let items: Vec<usize> = set.ones().collect();
    let sum = |of: fn(&Item) -> u64| items.iter().map(|&item| of(&problem.items[item])).sum::<u64>() as f64;
    let (forward, backward) = (sum(|item| item.forward_ns), sum(|item| item.backward_ns));
    let weight = match weights {
        Weights::Whole => 0.0,
        Weights::Share(share) => share * backward,
        Weights::Told(told) => items.iter().map(|&item| told[item]).sum::<u64>() as f64,
    };
    Work {
        forward,
        input: backward - weight,
        weight,
    }
}

/// What crosses the boundary behind these items takes at least, there and back.
fn boundary(problem: &Problem, set: &FixedBitSet) -> Way {
    let before = crossing(problem, set, Communication::Overlapped).before;
    Way {
        there: before.forward.link_out_ns as f64,
        back: before.backward.link_in_ns as f64,
    }
}

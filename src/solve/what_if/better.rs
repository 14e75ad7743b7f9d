//! Where a number of stages is better than one less, and by how much.

use serde::Serialize;

use super::curve::Curve;

/// Two numbers of stages against each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Better {
    /// The most stages of the one.
    pub stages: usize,
    /// Those of the other, the next smaller ones.
    pub than: usize,
    /// Where it is proved that more stages are better at every value; of real values short stretches count as elsewhere.
    pub better: Vec<Stretch>,
    /// It is proved that fewer stages take at most so much longer at any other value, as a part of what more take; absent where that is not
    /// known, or where there is no other value.
    pub gain_elsewhere: Option<f64>,
    /// Where it is proved that they take most longer, and by how much at least, as a part of what more stages take; absent where they
    /// are nowhere better.
    pub most: Option<Gain>,
}

/// Values from one to another, both included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stretch {
    /// The smallest.
    pub from: f64,
    /// The largest.
    pub to: f64,
}

/// What is gained at a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The value.
    pub at: f64,
    /// What is gained, as a part of what more stages take.
    pub gain: f64,
}

/// Neighbours on the grid on which real values are looked at lie as far apart as this.
const STEP: f64 = 1.0005;

/// Stretches of real values whose ends are nearer to each other than this are no news, unless they end where the range does. Of whole values
/// one alone may be all that there is.
const SHORT: f64 = 1.05;

/// A stretch, whether more stages are better on it, and what they gain at most.
struct Piece {
    stretch: Stretch,
    is_better: bool,
    gain: f64,
}

impl Better {
    /// What is proved of two curves over one range.
    ///
    /// Both optima fall as the parameter grows. So on a stretch from `u` to `v` more stages are better everywhere if what they take at `u`
    /// is less than what fewer stages must take at `v`; and nowhere do they gain more than from what fewer take at `u` to what more must
    /// take at `v`. No values are left out.
    pub(super) fn new(more: &Curve, fewer: &Curve) -> Option<Self> {
        let pieces: Vec<Piece> = stretches(more, fewer)
            .into_iter()
            .map(|stretch| {
                let [_, more_ns] = more.bounds_ns(stretch.from);
                let [least_ns, _] = more.bounds_ns(stretch.to);
                let [must_ns, _] = fewer.bounds_ns(stretch.to);
                let [_, fewer_ns] = fewer.bounds_ns(stretch.from);
                Piece {
                    stretch,
                    is_better: more_ns < must_ns,
                    gain: gain(fewer_ns, least_ns),
                }
            })
            .collect();
        let mut better: Vec<Stretch> = Vec::new();
        for piece in pieces.iter().filter(|piece| piece.is_better) {
            let next = |end: f64| if more.is_whole { end + 1.0 } else { end };
            match better.last_mut() {
                Some(last) if next(last.to) >= piece.stretch.from => last.to = piece.stretch.to,
                _ => better.push(piece.stretch),
            }
        }
        let ends = [more.points.first()?.at, more.points.last()?.at];
        better.retain(|stretch| {
            let is_long = stretch.to >= SHORT * stretch.from;
            more.is_whole || is_long || stretch.from == ends[0] || stretch.to == ends[1]
        });
        let is_listed = |piece: &Piece| {
            let holds =
                |stretch: &Stretch| stretch.from <= piece.stretch.from && piece.stretch.to <= stretch.to;
            better.iter().any(holds)
        };
        let elsewhere: Option<f64> = pieces
            .iter()
            .filter(|piece| !is_listed(piece))
            .map(|piece| piece.gain)
            .reduce(f64::max);
        let easier = more.easier;
        let by_value = |stretch: &Stretch| {
            let [from, to] = easier.between([stretch.from, stretch.to]);
            Stretch { from, to }
        };
        let mut better: Vec<Stretch> = better.iter().map(by_value).collect();
        better.sort_by(|one, other| one.from.total_cmp(&other.from));
        let most = most(more, fewer).map(|most| Gain {
            at: easier.across(most.at),
            ..most
        });
        Some(Self {
            stages: more.stages?,
            than: fewer.stages?,
            gain_elsewhere: elsewhere.filter(|gain| gain.is_finite()),
            most,
            better,
        })
    }
}

/// Where fewer stages must take most longer than more stages do.
fn most(more: &Curve, fewer: &Curve) -> Option<Gain> {
    let points = more.points.iter().chain(&fewer.points);
    let gains = points.map(|point| {
        let [_, more_ns] = more.bounds_ns(point.at);
        let [must_ns, _] = fewer.bounds_ns(point.at);
        let gain = if more_ns.is_finite() {
            gain(must_ns, more_ns)
        } else {
            0.0
        };
        Gain { at: point.at, gain }
    });
    let most = gains.max_by(|one, other| one.gain.total_cmp(&other.gain));
    most.filter(|most| most.gain > 0.0)
}

/// How much longer one time is than another, as a part of that; nothing where neither ends.
fn gain(longer_ns: f64, shorter_ns: f64) -> f64 {
    match () {
        () if longer_ns <= shorter_ns => 0.0,
        () if shorter_ns <= 0.0 => f64::INFINITY,
        () => longer_ns / shorter_ns - 1.0,
    }
}

/// Stretches that cover the range together, short ones where values are real; between points of either curve where they are whole.
fn stretches(one: &Curve, other: &Curve) -> Vec<Stretch> {
    let points = one.points.iter().chain(&other.points);
    let mut ends: Vec<f64> = points.map(|point| point.at).collect();
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    let mut all = Vec::new();
    for pair in ends.windows(2) {
        let (mut from, to) = (pair[0], pair[1]);
        if one.is_whole {
            all.push(Stretch { from, to: to - 1.0 });
            continue;
        }
        while from < to {
            let next = (from * STEP).min(to);
            all.push(Stretch { from, to: next });
            from = next;
        }
    }
    let last = ends.last().filter(|_| one.is_whole);
    all.extend(last.map(|&at| Stretch { from: at, to: at }));
    all
}

//! What is known between two values that have been asked.

use super::parameter::Law;

/// What is known at a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The value.
    pub at: f64,
    /// No plan takes less, in ns; `u64::MAX` where there is none.
    pub lower_ns: u64,
    /// What the best known plan takes, in ns; `u64::MAX` without one.
    pub upper_ns: u64,
    /// That plan, by position among the plans of the answer.
    pub plan: Option<usize>,
    /// Whether a search was run there, rather than that other values tell.
    pub is_searched: bool,
}

impl Point {
    /// Whether nothing is left to know.
    pub fn is_proved(&self) -> bool {
        self.lower_ns >= self.upper_ns
    }

    /// How much longer than the best plan the known one may take, as a part of that.
    pub fn gap(&self) -> f64 {
        gap(self.upper_ns as f64, self.lower_ns as f64)
    }
}

/// The values between two neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// What holds from one to the other.
    pub law: Law,
    /// Whether values are whole numbers.
    pub is_whole: bool,
    /// The smaller value, at which plans can do less.
    pub from: &'a Point,
    /// The larger one.
    pub to: &'a Point,
    /// What the plan of each end takes at the other, in ns; `u64::MAX` where it is none there.
    pub crossed_ns: [u64; 2],
}

/// Values between which lie no others that matter.
const CLOSE: f64 = 1e-6;

/// A line over the cell by its values at `to` and at `from`, against one over the value.
type Line = [f64; 2];

impl Cell<'_> {
    /// Whether there is anything between.
    pub fn has_inside(&self) -> bool {
        match self.is_whole {
            true => self.to.at - self.from.at > 1.5,
            false => self.to.at > self.from.at * (1.0 + CLOSE),
        }
    }

    /// No plan takes less at a value of the cell, in ns; infinite where there is none.
    pub fn lower_ns(&self, at: f64) -> f64 {
        let part = self.part(at);
        let lines = self.lower_lines();
        lines.iter().map(|line| value_on(*line, part)).fold(0.0, f64::max)
    }

    /// Some known plan takes no more at a value of the cell, in ns; infinite without one.
    pub fn upper_ns(&self, at: f64) -> f64 {
        let part = self.part(at);
        let lines = self.upper_lines();
        lines
            .iter()
            .map(|line| value_on(*line, part))
            .fold(f64::INFINITY, f64::min)
    }

    /// How much longer than the best plan the best known one may take anywhere between, as a part of that.
    ///
    /// Between two points where lines of one kind meet, the quotient of two lines goes one way: it is largest at such a point.
    pub fn gap(&self) -> f64 {
        if !self.has_inside() {
            return 0.0;
        }
        let (upper, lower) = (self.upper_lines(), self.lower_lines());
        let mut parts = vec![0.0, 1.0];
        parts.extend(meetings(&upper));
        parts.extend(meetings(&lower));
        let at = |part: f64| {
            let least = upper
                .iter()
                .map(|line| value_on(*line, part))
                .fold(f64::INFINITY, f64::min);
            let most = lower.iter().map(|line| value_on(*line, part)).fold(0.0, f64::max);
            gap(least, most)
        };
        parts.into_iter().map(at).fold(0.0, f64::max)
    }

    /// Which ends have a plan that is as good as the other end's there, up to rounding: then it is best, as far as is known, at both.
    pub fn kept(&self) -> [bool; 2] {
        let slack = match self.law {
            Law::Linear { slack_ns } => slack_ns,
            Law::Apart | Law::Falling => 0.0,
        };
        let ends = [(self.from, self.to), (self.to, self.from)];
        let kept = |at: usize| {
            let (own, other) = ends[at];
            own.plan.is_some()
                && self.crossed_ns[at] < u64::MAX
                && (own.plan == other.plan || self.crossed_ns[at] as f64 <= other.upper_ns as f64 + slack)
        };
        [kept(0), kept(1)]
    }

    /// The value in the middle, or the one at which the plans of both ends take the same, if it is not near an end.
    pub fn middle(&self) -> f64 {
        if self.is_whole {
            return (self.from.at / 2.0 + self.to.at / 2.0).floor();
        }
        let ratio = self.to.at / self.from.at;
        let within = |at: &f64| (0.1..=0.9).contains(&((at / self.from.at).ln() / ratio.ln()));
        let meeting = match self.law {
            Law::Linear { .. } => meetings(&self.upper_lines()[1..])
                .into_iter()
                .map(|part| self.value_at(part))
                .find(within),
            Law::Apart | Law::Falling => None,
        };
        meeting.unwrap_or(self.from.at * ratio.sqrt())
    }

    /// Where one over the value lies between that of `to`, 0, and that of `from`, 1.
    fn part(&self, at: f64) -> f64 {
        let [fast, slow] = [1.0 / self.to.at, 1.0 / self.from.at];
        ((1.0 / at - fast) / (slow - fast)).clamp(0.0, 1.0)
    }

    /// The value of a part.
    fn value_at(&self, part: f64) -> f64 {
        let [fast, slow] = [1.0 / self.to.at, 1.0 / self.from.at];
        1.0 / (fast + part * (slow - fast))
    }

    /// What is never more than the optimum.
    fn lower_lines(&self) -> Vec<Line> {
        let least = finite(self.to.lower_ns);
        match self.law {
            Law::Apart => vec![[0.0; 2]],
            Law::Falling => vec![[least; 2]],
            Law::Linear { slack_ns } => {
                let most = finite(self.from.lower_ns);
                vec![
                    [least; 2],
                    [most * self.from.at / self.to.at - slack_ns, most - slack_ns],
                ]
            }
        }
    }

    /// What some known plan takes no more than: that of the smaller value everywhere; and plans on the chords of what they take.
    fn upper_lines(&self) -> Vec<Line> {
        let most = finite(self.from.upper_ns);
        match self.law {
            Law::Apart => vec![[f64::INFINITY; 2]],
            Law::Falling => vec![[most; 2]],
            Law::Linear { slack_ns } => {
                let [ahead, back] = self.crossed_ns.map(finite);
                let least = finite(self.to.upper_ns);
                vec![
                    [most; 2],
                    [ahead + slack_ns, most + slack_ns],
                    [least + slack_ns, back + slack_ns],
                ]
            }
        }
    }
}

/// A time as a number that may be infinite.
pub(super) fn finite(ns: u64) -> f64 {
    match ns {
        u64::MAX => f64::INFINITY,
        ns => ns as f64,
    }
}

/// A line at a part; one that is infinite at either end is infinite.
fn value_on([fast, slow]: Line, part: f64) -> f64 {
    match (fast.is_finite(), slow.is_finite()) {
        (true, true) => fast + part * (slow - fast),
        _ => f64::INFINITY,
    }
}

/// Parts strictly inside at which two of the lines meet.
fn meetings(lines: &[Line]) -> Vec<f64> {
    let mut parts = Vec::new();
    for (k, one) in lines.iter().enumerate() {
        for other in &lines[..k] {
            let [fast, slow] = [one[0] - other[0], one[1] - other[1]];
            let part = fast / (fast - slow);
            if part.is_finite() && part > 0.0 && part < 1.0 {
                parts.push(part);
            }
        }
    }
    parts
}

/// What an upper bound is above a lower one, as a part of it: nothing where there is proved to be no plan, and no end where nothing is known.
fn gap(upper: f64, lower: f64) -> f64 {
    match () {
        () if lower >= upper => 0.0,
        () if lower <= 0.0 || upper.is_infinite() => f64::INFINITY,
        () => upper / lower - 1.0,
    }
}

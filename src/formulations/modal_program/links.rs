//! Where stages lie in their nodes, and what they pay for tensors and gradients.

use good_lp::{Expression, IntoAffineExpression, variable};
use petgraph::algo::has_path_connecting;

use super::super::Column;
use super::Builder;
use super::choices::{Choice, Place, node};
use crate::problem::modes::{BETWEEN, INSIDE, ModalTransfer};

/// A transfer at a stage: which of its sides pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Sent,
    Received,
}

/// Which way a transfer goes along the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// To a later stage.
    Forward,
    /// To an earlier stage, as tensors of an explicit backward graph do.
    Reverse,
}

impl Side {
    /// Prefix of rows, and what is in the name of columns.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Sent => ["sent", "sends"],
            Self::Received => ["received", "receives"],
        }
    }
}

/// One end of a transfer that pays at a stage.
struct Payer<'a> {
    side: Side,
    /// Its position, that of the consumer, and of the stage.
    at: (usize, usize, usize),
    transfer: &'a ModalTransfer,
    /// At least 1 where the transfer leaves the node, 0 where it stays; `None` where that makes no difference.
    far: Option<Column>,
    /// What is paid, in units of the scale.
    paid: Column,
}

impl Payer<'_> {
    /// What a stage of a degree pays on a level, in ticks.
    fn ticks(&self, degree: usize, level: usize) -> u64 {
        let beside = match self.side {
            Side::Sent => &self.transfer.leaving,
            Side::Received => &self.transfer.entering,
        };
        self.transfer.ticks[level] + beside[degree][self.at.1][level]
    }
}

impl Builder<'_> {
    /// Families `begins` and `follows`: a stage begins on the device behind the stage before it.
    pub(super) fn places(&mut self) {
        let Some(node) = node(self.modes) else { return };
        for k in 0..self.stages.len() {
            self.begins(k, node);
        }
        for k in 1..self.stages.len() {
            for first in 1..node {
                let begin = self.sum_of_places(k, |place, _| place.first == first);
                let end = self.sum_of_places(k - 1, |place, devices| (place.first + devices) % node == first);
                let name = format!("follows[{},{}]", k + 1, first + 1);
                self.program.add_equality(name, begin, end);
            }
        }
    }

    /// Family `begins`: what a stage runs as begins somewhere, and its replicas exchange gradients on the level that follows.
    fn begins(&mut self, k: usize, node: usize) {
        let mut done: Vec<(crate::problem::modes::StageMode, Option<usize>)> = Vec::new();
        for at in 0..self.stages[k].choices.len() {
            let choice = self.stages[k].choices[at].clone();
            let level = choice.is_split.then_some(choice.level);
            if done.contains(&(choice.mode, level)) {
                continue;
            }
            done.push((choice.mode, level));
            let lies = |first: usize, devices: usize| match first + devices > node {
                true => BETWEEN,
                false => INSIDE,
            };
            let somewhere = self.sum_of_places(k, |place, devices| {
                place.mode == choice.mode && level.is_none_or(|level| lies(place.first, devices) == level)
            });
            let is_same = |other: &Choice| {
                other.mode == choice.mode && (level.is_none() || other.level == choice.level)
            };
            let runs = self.stages[k].sum(|other| if is_same(other) { 1.0 } else { 0.0 });
            let side = match level {
                None => "",
                Some(INSIDE) => ",within",
                Some(_) => ",across",
            };
            let tensor = self.modes.degrees[choice.mode.degree].tensor;
            let name = format!("begins[{},{tensor},{}{side}]", k + 1, choice.mode.replicas);
            self.program.add_equality(name, somewhere, runs);
        }
    }

    /// The sum of the places of a stage that `counts` takes, which is told their devices.
    fn sum_of_places(&self, k: usize, counts: impl Fn(&Place, usize) -> bool) -> Expression {
        let mut sum = Expression::default();
        for place in &self.stages[k].places {
            if counts(place, self.modes.devices_of(&place.mode)) {
                place.column.add_to(&mut sum, 1.0);
            }
        }
        sum
    }

    /// Whether a node ends with stage `k`, and whether one ends inside of it.
    fn node_ends(&self, k: usize, node: usize) -> [Expression; 2] {
        [
            self.sum_of_places(k, |place, devices| (place.first + devices).is_multiple_of(node)),
            self.sum_of_places(k, |place, devices| place.first + devices > node),
        ]
    }

    /// What stages pay for tensors.
    pub(super) fn transfers(&mut self) {
        let modes = self.modes;
        for (t, transfer) in modes.transfers.iter().enumerate() {
            let far = self.far(t, transfer);
            for side in [Side::Sent, Side::Received] {
                for k in 0..self.stages.len() {
                    self.pay(side, (t, k), transfer, &far);
                }
            }
        }
    }

    /// Which ways a transfer may go: both only between a forward item and a backward one that the order does not hold apart.
    fn directions(&self, producer: usize, consumer: usize) -> Vec<Direction> {
        let [from, to] = [producer, consumer].map(|item| (item as u32).into());
        let is_before = |one, other| has_path_connecting(&self.problem.order, one, other, None);
        match (is_before(from, to), is_before(to, from)) {
            (true, false) => vec![Direction::Forward],
            (false, true) => vec![Direction::Reverse],
            _ => vec![Direction::Forward, Direction::Reverse],
        }
    }

    /// What a stage pays for a transfer on one side.
    fn pay(&mut self, side: Side, (t, k): (usize, usize), transfer: &ModalTransfer, far: &Far) {
        // Nothing follows the last stage, and nothing comes before the first.
        let directions = transfer.consumers.iter();
        let mut directions = directions.flat_map(|&consumer| self.directions(transfer.producer, consumer));
        let is_here = |direction: Direction| match (side, direction) {
            (Side::Sent, Direction::Forward) | (Side::Received, Direction::Reverse) => {
                k + 1 < self.stages.len()
            }
            (Side::Sent, Direction::Reverse) | (Side::Received, Direction::Forward) => k > 0,
        };
        if !directions.any(is_here) {
            return;
        }
        let [_, column] = side.names();
        let paid = variable().min(0.0).name(format!("{column}[{t},{}]", k + 1));
        let paid = self.program.declare(paid);
        paid.add_to(&mut self.busy[k], 1.0);
        // Of several rows it is not known which one pays.
        if let [busy] = self.devices_busy.as_mut_slice() {
            paid.add_to(busy, 1.0);
        }
        for at in 0..transfer.consumers.len() {
            let payer = Payer {
                side,
                at: (t, at, k),
                transfer,
                far: match side {
                    Side::Sent => far.any,
                    Side::Received => far.each[at],
                },
                paid,
            };
            self.charge(&payer);
        }
    }

    /// Families `sent` and `received`, and with `_across` and `_within` behind them where one level costs more than the other: what a
    /// stage pays for one consumer, at least.
    fn charge(&mut self, payer: &Payer) {
        let levels: &[usize] = match node(self.modes) {
            Some(_) => &[INSIDE, BETWEEN],
            None => &[INSIDE],
        };
        let least = |degree: usize| {
            let ticks = levels.iter().map(|&level| payer.ticks(degree, level));
            ticks.min().unwrap_or(0)
        };
        let (t, at, k) = payer.at;
        let indices = format!("{t},{},{}", self.labels[payer.transfer.consumers[at]], k + 1);
        let [family, _] = payer.side.names();
        let (sum, _) = self.crossing(payer, &|degree| least(degree), &least);
        self.add_charge(format!("{family}[{indices}]"), sum, payer.paid);
        let Some(far) = payer.far else { return };
        for (level, suffix) in [(INSIDE, "within"), (BETWEEN, "across")] {
            let (mut sum, beyond) = self.crossing(payer, &|degree| payer.ticks(degree, level), &least);
            if beyond == 0.0 {
                continue;
            }
            match level {
                INSIDE => far.add_to(&mut sum, -beyond),
                _ => {
                    far.add_to(&mut sum, beyond);
                    sum -= beyond;
                }
            }
            self.add_charge(format!("{family}_{suffix}[{indices}]"), sum, payer.paid);
        }
    }

    fn add_charge(&mut self, name: String, least: Expression, paid: Column) {
        let is_free = (&least).linear_coefficients().all(|(_, c)| c <= 0.0);
        if !is_free {
            self.program.add_row(name, least, paid.expression());
        }
    }

    /// `Σ ticks / d (on_here - on_elsewhere)` over the choices of a stage, and by how much `ticks` exceed `least` at most, both in units of the
    /// scale.
    fn crossing(
        &self,
        payer: &Payer,
        ticks: &dyn Fn(usize) -> u64,
        least: &dyn Fn(usize) -> u64,
    ) -> (Expression, f64) {
        let (_, at, k) = payer.at;
        let (producer, consumer) = (payer.transfer.producer, payer.transfer.consumers[at]);
        let [here, elsewhere] = match payer.side {
            Side::Sent => [producer, consumer],
            Side::Received => [consumer, producer],
        };
        let stage = &self.stages[k];
        let (mut sum, mut beyond) = (Expression::default(), 0.0f64);
        for (c, choice) in stage.choices.iter().enumerate() {
            let turns = choice.mode.replicas as f64 * self.program.scale_ns;
            let ticks = ticks(choice.mode.degree);
            beyond = beyond.max((ticks - least(choice.mode.degree)) as f64 / turns);
            for (item, sign) in [(here, 1.0), (elsewhere, -1.0)] {
                if let Some(ran) = stage.items[item][c].as_ref().filter(|_| ticks > 0) {
                    ran.on.add_to(&mut sum, sign * ticks as f64 / turns);
                }
            }
        }
        (sum, beyond)
    }

    /// Families `crosses`, `passes`, `farthest`, and where a node's own link may cost more `stays` and `nearest`: whether a transfer leaves
    /// its node, for each consumer and for the farthest.
    fn far(&mut self, t: usize, transfer: &ModalTransfer) -> Far {
        let consumers = transfer.consumers.len();
        let node = node(self.modes).filter(|_| levels_differ(transfer, |inside, between| inside != between));
        let Some(node) = node else {
            return Far {
                any: None,
                each: vec![None; consumers],
            };
        };
        let inner_may_be_dearer = levels_differ(transfer, |inside, between| inside > between);
        let mut each = Vec::with_capacity(consumers);
        for &consumer in &transfer.consumers {
            let indices = format!("{t},{}", self.labels[consumer]);
            let far = variable().bounds(0.0..=1.0).name(format!("far[{indices}]"));
            let far = self.program.declare(far);
            each.push(far);
            for direction in self.directions(transfer.producer, consumer) {
                let (ends, indices) = match direction {
                    Direction::Forward => ((transfer.producer, consumer), indices.clone()),
                    Direction::Reverse => ((consumer, transfer.producer), format!("{indices},reverse")),
                };
                self.leaves(ends, (far, node), inner_may_be_dearer, &indices);
            }
        }
        let any = match each[..] {
            [only] => only,
            _ => self.farthest(t, transfer, &each, inner_may_be_dearer),
        };
        Far {
            any: Some(any),
            each: each.into_iter().map(Some).collect(),
        }
    }

    /// Families `crosses`, `passes` and, where it is asked for, `stays`, along the pipeline from one end to the other.
    fn leaves(&mut self, ends: (usize, usize), (far, node): (Column, usize), stays: bool, indices: &str) {
        for k in 0..self.stages.len() {
            self.crosses(ends, far, (k, node), indices);
            if stays {
                self.stays(ends, far, (k, node), indices);
            }
        }
    }

    /// Families `farthest` and `nearest`.
    fn farthest(&mut self, t: usize, transfer: &ModalTransfer, each: &[Column], both: bool) -> Column {
        let any = variable().bounds(0.0..=1.0).name(format!("far[{t}]"));
        let any = self.program.declare(any);
        for (far, &consumer) in each.iter().zip(&transfer.consumers) {
            let name = format!("farthest[{t},{}]", self.labels[consumer]);
            self.program.add_row(name, far.expression(), any.expression());
        }
        if both {
            let all = each.iter().map(|far| far.expression()).sum();
            self.program
                .add_row(format!("nearest[{t}]"), any.expression(), all);
        }
        any
    }

    /// Families `crosses` and `passes`: a node ends with stage `k` or inside of it, and the ends of a transfer lie on different sides.
    fn crosses(&mut self, (from, to): (usize, usize), far: Column, (k, node): (usize, usize), indices: &str) {
        let [ends_behind, ends_inside] = self.node_ends(k, node);
        let rows = [("crosses", k + 1, ends_behind), ("passes", k, ends_inside)];
        for (family, before, ends) in rows {
            // Behind the last stage there is nothing, and before the first there is nothing either.
            if k + 1 == self.stages.len() || before == 0 {
                continue;
            }
            let mut apart = self.staging.z(from, before) + ends;
            self.staging.add_z(&mut apart, -1.0, to, k + 1);
            let name = format!("{family}[{indices},{}]", k + 1);
            self.program.add_row(name, apart, far.expression() + 1.0);
        }
    }

    /// Family `stays`: no node ends between stages `k` and `l` that hold the ends of a transfer.
    fn stays(&mut self, (from, to): (usize, usize), far: Column, (k, node): (usize, usize), indices: &str) {
        let mut ends = Expression::default();
        for l in k..self.stages.len() {
            if l > k {
                let [behind, _] = self.node_ends(l - 1, node);
                ends += behind;
                if l - 1 > k {
                    let [_, inside] = self.node_ends(l - 1, node);
                    ends += inside;
                }
            }
            let mut both = far.expression() - ends.clone();
            self.staging.add_x(&mut both, 1.0, from, k);
            self.staging.add_x(&mut both, 1.0, to, l);
            let name = format!("stays[{indices},{},{}]", k + 1, l + 1);
            self.program.add_row(name, both, 2.into());
        }
    }

    /// Family `synchronized`: what replicas exchange, and once they do, the latency of it.
    pub(super) fn rings(&mut self) {
        for k in 0..self.stages.len() {
            for c in 0..self.stages[k].choices.len() {
                self.ring(k, c);
            }
        }
    }

    fn ring(&mut self, k: usize, c: usize) {
        let stage = &self.stages[k];
        let choice = &stage.choices[c];
        let Some(ring) = self.modes.ring(&choice.mode, choice.mode.replicas, choice.level) else {
            return;
        };
        let scale = self.program.scale_ns;
        let devices = self.modes.devices_of(&choice.mode) as f64;
        let row = self.modes.degrees[choice.mode.degree].row;
        let mut reduces: Option<Column> = None;
        for (item, label) in self.labels.iter().enumerate() {
            let own = self.modes.items[item][choice.mode.degree].as_ref();
            let bytes = own.map_or(0, |own| own.once_bytes[0]);
            let Some(ran) = stage.items[item][c].as_ref().filter(|_| bytes > 0) else {
                continue;
            };
            let ticks = ring.byte_ticks * bytes as f64 / scale;
            ran.on.add_to(&mut self.busy[k], ticks);
            ran.on.add_to(&mut self.devices_busy[row], ticks * devices);
            if ring.start_ticks == 0.0 {
                continue;
            }
            let any = *reduces.get_or_insert_with(|| {
                let any = variable().bounds(0.0..=1.0);
                let any = self
                    .program
                    .declare(any.name(format!("reduces[{}]", choice.name)));
                any.add_to(&mut self.busy[k], ring.start_ticks / scale);
                any
            });
            let name = format!("synchronized[{label},{}]", choice.name);
            self.program.add_row(name, ran.on.expression(), any.expression());
        }
    }
}

/// Whether a transfer leaves its node.
struct Far {
    /// For the farthest consumer; `None` where that makes no difference.
    any: Option<Column>,
    /// For each consumer.
    each: Vec<Option<Column>>,
}

/// Whether the two levels differ in what some stage pays for a transfer.
fn levels_differ(transfer: &ModalTransfer, differ: impl Fn(u64, u64) -> bool) -> bool {
    let mut beside = transfer.leaving.iter().chain(&transfer.entering).flatten();
    let ticks = transfer.ticks;
    beside.any(|beside| differ(ticks[INSIDE] + beside[INSIDE], ticks[BETWEEN] + beside[BETWEEN]))
}

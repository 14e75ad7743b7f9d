//! Replicated placement by intervals, without big M.
#![doc = include_str!("../../formulations/placement.md")]

use good_lp::{Expression, variable};

use super::{Column, Program};
use crate::problem::placement::{Held, Serving};

/// What is asked: placements that carry at least so much.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The least rate that is of interest.
    pub least: u64,
    /// No placement carries more; rates are divided by it.
    pub most: u64,
    /// The price of a machine of each kind, and what any set of machines costs at least that carries `least` past a layer; a machine pays in
    /// equal parts for its layers.
    pub prices: (&'a [f64], f64),
}

/// The program, and what its columns mean.
pub struct Intervals {
    /// The program. Its objective is 1 less the rate in units of the most.
    pub program: Program,
    holds: Vec<Holding>,
}

/// Machines of a group that hold the same layers.
struct Holding {
    group: usize,
    held: Held,
    /// `z`, how many do.
    count: Column,
    /// `f`, what passes through all of them.
    flow: Column,
}

/// Machines that are told apart by nothing: a kind, or one machine where links bind.
#[derive(Clone, Copy)]
struct Group {
    kind: usize,
    count: usize,
}

/// Whether a link between machines carries less than both of its ends may, up to a rate.
pub fn links_bind(serving: &Serving, most: u64) -> bool {
    let fastest = |kind: usize| {
        serving.kinds[kind]
            .rates
            .iter()
            .copied()
            .max()
            .unwrap_or(0)
            .min(most)
    };
    let kinds = 0..serving.kinds.len();
    let binds = |from: usize, to: usize| {
        let others = serving.kinds[to].count > usize::from(from == to);
        others && serving.kinds[from].count > 0 && serving.between[from][to] < fastest(from).min(fastest(to))
    };
    kinds.clone().any(|from| kinds.clone().any(|to| binds(from, to)))
}

/// The linear program of the best prices of machines: `set`, every set of machines that carries a rate costs 1 at least a layer, where it takes such
/// parts of machines of each kind; all machines together have the least. With the column of each kind.
pub(crate) fn machine_prices(sets: &[Vec<f64>], machines: &[usize], layers: usize) -> (Program, Vec<Column>) {
    let mut program = Program::new(1.0);
    // No set takes less of a machine than one that holds all layers.
    let definition = |kind: usize| {
        variable()
            .min(0.0)
            .max(layers as f64)
            .name(format!("price[{kind}]"))
    };
    let columns: Vec<Column> = (0..machines.len())
        .map(|kind| program.declare(definition(kind)))
        .collect();
    for (column, &machines) in columns.iter().zip(machines) {
        column.add_to(&mut program.objective, machines as f64);
    }
    for (i, set) in sets.iter().enumerate() {
        let mut cost = Expression::default();
        columns
            .iter()
            .zip(set)
            .for_each(|(column, &part)| column.add_to(&mut cost, part));
        program.add_row(format!("set[{i}]"), 1.0.into(), cost);
    }
    (program, columns)
}

/// Prices of machines, of boundaries and of what is handed on at them: see [`link_prices`].
pub(crate) struct LinkPrices {
    /// The program. Its objective is less the value.
    pub program: Program,
    /// `potential`, of boundaries from the second on.
    pub potentials: Vec<Column>,
    /// `boundary`, of every boundary between two layers and side.
    pub sides: Vec<Vec<Column>>,
    /// `covers`, how much of the prices of covers is among those of machines.
    pub covers: Column,
}

/// How machines limit what they hand on at a boundary: `λ e + μ s >= t` for `e` machines that end there, `s` that start there, and `t` rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Side {
    /// `λ`.
    pub ends: f64,
    /// `μ`.
    pub starts: f64,
    /// Which machines end, and which start: those of a kind, or all. What is counted goes from the ones to the others.
    pub from: Option<usize>,
    /// Likewise.
    pub to: Option<usize>,
}

impl Side {
    /// What a machine of a kind counts that ends, and whether what it hands on does.
    pub(crate) fn ended(&self, kind: usize) -> (f64, f64) {
        let counts = self.from.is_none_or(|from| from == kind);
        (
            if counts { self.ends } else { 0.0 },
            f64::from(counts && self.to.is_none()),
        )
    }

    /// The same of one that starts, and of what it is handed; that is counted at the other end where all machines take it.
    pub(crate) fn started(&self, kind: usize) -> (f64, f64) {
        let counts = self.to.is_none_or(|to| to == kind);
        (
            if counts { self.starts } else { 0.0 },
            f64::from(counts && self.to.is_some()),
        )
    }
}

/// What machines may hold at a rate: the kind, the first boundary and the last, and the part of the rate that passes.
pub(crate) type Holds = (Held, f64);

/// The linear program of the best prices at which all placements that carry a rate cost more than all machines have: the dual of the program of intervals
/// with fractions of machines, `sides` at every boundary, and covers at given prices (with what all layers together cost at these).
pub(crate) fn link_prices(
    serving: &Serving,
    holds: &[Holds],
    sides: &[Side],
    (cover_prices, cover): (&[f64], f64),
) -> LinkPrices {
    /// Prices are parts of what all machines have.
    const MOST: f64 = 100.0;
    let mut program = Program::new(1.0);
    let mut declare = |name: String| program.declare(variable().min(0.0).max(MOST).name(name));
    let of_a_machine: Vec<Column> = (0..serving.kinds.len())
        .map(|kind| declare(format!("price[{kind}]")))
        .collect();
    let potentials: Vec<Column> = (1..=serving.layers)
        .map(|at| declare(format!("potential[{at}]")))
        .collect();
    let side = |at: usize, declare: &mut dyn FnMut(String) -> Column| -> Vec<Column> {
        (0..sides.len())
            .map(|side| declare(format!("boundary[{at},{side}]")))
            .collect()
    };
    let of_sides: Vec<Vec<Column>> = (1..serving.layers).map(|at| side(at, &mut declare)).collect();
    let covers = declare("covers[]".into());
    let add = |column: Column,
               (counts, passed),
               (stands, passes): (&mut Expression, &mut Expression),
               part: f64| {
        if counts != 0.0 {
            column.add_to(stands, counts);
        }
        if passed != 0.0 {
            column.add_to(passes, -part * passed);
        }
    };
    for (held, part) in holds {
        let (mut stands, mut passes) = (Expression::default(), Expression::default());
        covers.add_to(&mut stands, cover_prices[held.kind]);
        if held.start > 0 {
            for (column, side) in of_sides[held.start - 1].iter().zip(sides) {
                add(
                    *column,
                    side.started(held.kind),
                    (&mut stands, &mut passes),
                    *part,
                );
            }
            potentials[held.start - 1].add_to(&mut passes, -part);
        }
        if held.end() < serving.layers {
            for (column, side) in of_sides[held.end() - 1].iter().zip(sides) {
                add(*column, side.ended(held.kind), (&mut stands, &mut passes), *part);
            }
        }
        potentials[held.end() - 1].add_to(&mut passes, *part);
        let label = format!("{},{},{}", held.kind, held.start, held.end());
        let price = || of_a_machine[held.kind].expression();
        program.add_row(format!("passes[{label}]"), stands.clone() + passes, price());
        program.add_row(format!("stands[{label}]"), stands, price());
    }
    let mut all = Expression::default();
    for (column, kind) in of_a_machine.iter().zip(&serving.kinds) {
        column.add_to(&mut all, kind.count as f64);
    }
    program.add_row("all[]".into(), all, 1.0.into());
    potentials[serving.layers - 1].add_to(&mut program.objective, -1.0);
    covers.add_to(&mut program.objective, -cover);
    LinkPrices {
        program,
        potentials,
        sides: of_sides,
        covers,
    }
}

/// Entries of the program's rows, about: what it takes grows with them.
pub fn entries(serving: &Serving, most: u64) -> usize {
    let layers = serving.layers;
    let of_a_machine =
        |kind: usize| serving.kinds[kind].rates.iter().filter(|&&rate| rate > 0).count() * layers * 8;
    let machines = serving.machines();
    match links_bind(serving, most) {
        true => {
            let all = (0..serving.kinds.len()).map(|kind| serving.kinds[kind].count * of_a_machine(kind));
            all.sum::<usize>() + 3 * machines * machines * layers
        }
        false => (0..serving.kinds.len()).map(of_a_machine).sum(),
    }
}

impl Intervals {
    /// Builds the program: over kinds with counts where links carry everything, else over machines.
    pub fn build(serving: &Serving, asked: &Asked) -> Self {
        let binds = links_bind(serving, asked.most);
        let groups: Vec<Group> = (0..serving.kinds.len())
            .flat_map(|kind| match (binds, serving.kinds[kind].count) {
                (true, count) => vec![Group { kind, count: 1 }; count],
                (false, count) => vec![Group { kind, count }; count.min(1)],
            })
            .collect();
        let mut own = Self {
            program: Program::new(1.0),
            holds: Vec::new(),
        };
        for (group, &of) in groups.iter().enumerate() {
            own.declare(serving, (group, of), asked.most);
        }
        own.count(&groups);
        own.rate(asked);
        match binds {
            true => own.links(serving, &groups, asked.most),
            false => own.boundaries(serving.layers),
        }
        own.cover(serving.layers, asked);
        own.order(&groups);
        own
    }

    /// What machines hold by column values.
    pub fn held(&self, values: &[f64]) -> Vec<Held> {
        let held = self.holds.iter().flat_map(|own| {
            let count = own.count.value(values).round() as usize;
            vec![own.held; count]
        });
        held.collect()
    }

    /// `z` and `f` of a group, with `carry`: a machine passes what it can if it is there.
    fn declare(&mut self, serving: &Serving, (group, of): (usize, Group), most: u64) {
        for start in 0..serving.layers {
            for layers in 1..=serving.layers - start {
                let held = Held {
                    kind: of.kind,
                    start,
                    layers,
                };
                let rate = serving.usable(&held).min(most) as f64 / most as f64;
                if rate == 0.0 {
                    continue;
                }
                let label = format!("{group},{start},{}", held.end());
                let count = variable().integer().min(0).max(of.count as f64);
                let count = self.program.declare(count.name(format!("holds[{label}]")));
                let flow = variable().min(0.0).max(1.0);
                let flow = self.program.declare(flow.name(format!("flow[{label}]")));
                let mut carried = Expression::default();
                count.add_to(&mut carried, rate);
                self.program
                    .add_row(format!("carry[{label}]"), flow.expression(), carried);
                self.holds.push(Holding {
                    group,
                    held,
                    count,
                    flow,
                });
            }
        }
    }

    /// `once`: a machine holds one interval at most.
    fn count(&mut self, groups: &[Group]) {
        for (group, of) in groups.iter().enumerate() {
            let mut held = Expression::default();
            let own = self.holds.iter().filter(|own| own.group == group);
            own.for_each(|own| own.count.add_to(&mut held, 1.0));
            self.program
                .add_row(format!("once[{group}]"), held, (of.count as f64).into());
        }
    }

    /// The objective, and `better`: what starts at the first layer is of interest.
    fn rate(&mut self, asked: &Asked) {
        let mut rate = Expression::default();
        let first = self.holds.iter().filter(|own| own.held.start == 0);
        first.for_each(|own| own.flow.add_to(&mut rate, 1.0));
        let least = asked.least as f64 / asked.most as f64;
        self.program
            .add_row("better[]".into(), least.into(), rate.clone());
        self.program.add_row("most[]".into(), rate.clone(), 1.0.into());
        self.program.objective = Expression::from(1.0) - rate;
    }

    /// `pass`: what ends at a boundary starts there again.
    fn boundaries(&mut self, layers: usize) {
        for at in 1..layers {
            let (mut ended, mut started) = (Expression::default(), Expression::default());
            for own in &self.holds {
                match own.held.end() == at {
                    true => own.flow.add_to(&mut ended, 1.0),
                    false if own.held.start == at => own.flow.add_to(&mut started, 1.0),
                    false => {}
                }
            }
            self.program.add_equality(format!("pass[{at}]"), ended, started);
        }
    }

    /// `out`, `into` and `link`: what ends at a boundary goes over links to machines that start there.
    fn links(&mut self, serving: &Serving, groups: &[Group], most: u64) {
        let pairs = || (0..groups.len()).flat_map(|from| (0..groups.len()).map(move |to| (from, to)));
        let mut sent: Vec<Expression> = vec![Expression::default(); groups.len() * groups.len()];
        for at in 1..serving.layers {
            let mut out = vec![Expression::default(); groups.len()];
            let mut into = vec![Expression::default(); groups.len()];
            for (from, to) in pairs().filter(|(from, to)| from != to) {
                let flow = variable()
                    .min(0.0)
                    .max(1.0)
                    .name(format!("sent[{from},{to},{at}]"));
                let flow = self.program.declare(flow);
                flow.add_to(&mut out[from], 1.0);
                flow.add_to(&mut into[to], 1.0);
                flow.add_to(&mut sent[from * groups.len() + to], 1.0);
            }
            let mut ended = vec![Expression::default(); groups.len()];
            let mut started = vec![Expression::default(); groups.len()];
            for own in &self.holds {
                match own.held.end() == at {
                    true => own.flow.add_to(&mut ended[own.group], 1.0),
                    false if own.held.start == at => own.flow.add_to(&mut started[own.group], 1.0),
                    false => {}
                }
            }
            let sides = [("out", out, ended), ("into", into, started)];
            for (family, links, machines) in sides {
                for (group, (links, machine)) in links.into_iter().zip(machines).enumerate() {
                    self.program
                        .add_equality(format!("{family}[{group},{at}]"), links, machine);
                }
            }
        }
        for ((from, to), sent) in pairs().zip(sent) {
            let carries = serving.between[groups[from].kind][groups[to].kind].min(most) as f64 / most as f64;
            self.program
                .add_row(format!("link[{from},{to}]"), sent, carries.into());
        }
    }

    /// `cover`: a layer is held by machines that pay for it at prices at which any set of machines does that carries enough.
    fn cover(&mut self, layers: usize, asked: &Asked) {
        let (prices, least) = asked.prices;
        for layer in 0..layers {
            let mut paid = Expression::default();
            for own in &self.holds {
                if (own.held.start..own.held.end()).contains(&layer) {
                    own.count
                        .add_to(&mut paid, prices[own.held.kind] / own.held.layers as f64);
                }
            }
            self.program
                .add_row(format!("cover[{layer}]"), least.into(), paid);
        }
    }

    /// `order`: of machines that are alike, those that stand farther on come later.
    fn order(&mut self, groups: &[Group]) {
        let place = |group: usize| {
            let mut place = Expression::default();
            let own = self.holds.iter().filter(|own| own.group == group);
            own.for_each(|own| own.count.add_to(&mut place, (own.held.start + 1) as f64));
            place
        };
        let alike = (1..groups.len()).filter(|&group| groups[group].kind == groups[group - 1].kind);
        let rows: Vec<(usize, Expression, Expression)> = alike
            .map(|group| (group, place(group - 1), place(group)))
            .collect();
        for (group, earlier, later) in rows {
            self.program.add_row(format!("order[{group}]"), earlier, later);
        }
    }
}

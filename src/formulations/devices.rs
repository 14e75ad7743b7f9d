//! The devices program: which stage each item lies in, and which device or group runs each stage.
#![doc = include_str!("../../formulations/devices.md")]

use good_lp::{Expression, variable};

use super::communication::{Charges, charges_of};
use super::load::add_transfers;
use super::pools::{Policy, Pool, Pooled, Unsupported};
use super::splits::Split;
use super::staging::{INTEGRALITY, Staging, Windows, monotone, non_empty, precedence};
use super::{Column, Program};
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::cost::{StageCost, without_empty_stages};
use crate::problem::workers::Workers;

/// Items times stages times choices that a program takes at most.
const MOST_PLACES: usize = 200_000;

/// How far the bottleneck's lower bound stays below what is proved, in units of the scale: ten times the solver's tolerance. Where
/// rows ask for more than that bound, but for less than the tolerance more, presolve of HiGHS 1.15 calls a program infeasible
/// that is not.
const CLEARANCE: f64 = 1e-8;

/// A devices program, with what is needed to read its solutions.
pub(crate) struct Devices {
    /// The program: its objective is the period.
    pub program: Program,
    /// What its columns mean.
    pub columns: Columns,
}

/// The meaning of a devices program's columns.
pub(crate) struct Columns {
    staging: Staging,
    runs_on: Vec<Vec<Column>>,
    /// By resource type; `None` where no choice has it.
    globals: Vec<Option<Global>>,
}

/// One share for all parts of a name.
struct Global {
    split: Split,
    /// Pool and part in it that say which levels there are.
    like: (usize, usize),
}

/// The pools of all choices.
///
/// # Errors
///
/// What [`Pool::new`] refuses, more places than a program can hold, and one global share for unlike levels.
pub(crate) fn pools(problem: &Problem, workers: &Workers) -> Result<Vec<Pool>, Unsupported> {
    let places = problem.items.len() * problem.stages() * workers.choices.len();
    if places > MOST_PLACES {
        return Err("there are too many ways to form a group for a program with a variable for each");
    }
    let choices = workers.choices.iter();
    let pools: Result<Vec<Pool>, Unsupported> = choices
        .map(|choice| Pool::new(problem, workers, choice))
        .collect();
    let pools = pools?;
    let shares = |(pool, part): (usize, usize)| {
        let part = &pools[pool].parts[part];
        let shares: Vec<f64> = part.levels.iter().map(|level| level.share).collect();
        (part.is_free, shares)
    };
    for name in 0..workers.resource_names.len() {
        let mut alike = parts_of(&pools, name).map(shares);
        let first = alike.next();
        let is_global = pools.iter().any(|pool| pool.policy == Policy::Global);
        if is_global && alike.any(|other| Some(&other) != first.as_ref()) {
            return Err("one share of a resource type means different levels in different kinds");
        }
    }
    Ok(pools)
}

/// Pool and position of every part of a name.
fn parts_of(pools: &[Pool], name: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
    pools.iter().enumerate().flat_map(move |(at, pool)| {
        let of_name = move |&part: &usize| pool.parts[part].name == name;
        (0..pool.parts.len()).filter(of_name).map(move |part| (at, part))
    })
}

/// What the functions below share.
struct Builder<'a> {
    pooled: Pooled<'a>,
    program: Program,
    staging: Staging,
    charges: Charges,
    /// The bottleneck `T`.
    period: Column,
    /// Its upper bound.
    most: f64,
    /// `s_kc`.
    runs_on: Vec<Vec<Column>>,
    /// `y_ikc`, where item, stage and choice may meet.
    item_on: Vec<Vec<Vec<Option<Column>>>>,
}

impl Devices {
    /// Builds the program.
    ///
    /// * `pooled`: the problem, with the pools of all choices, from [`pools`];
    /// * `windows`: stages an item may lie in;
    /// * `least_ns`, `most_ns`: periods of interest, in real numbers.
    ///
    /// Size: (q-1) n + q c binaries and q n c further columns for n items, q stages and c choices; about as many rows, and
    /// those of staging and charges.
    pub(crate) fn build(pooled: Pooled, windows: &Windows, [least_ns, most_ns]: [f64; 2]) -> Self {
        let problem = pooled.problem;
        let scale_ns = most_ns.max(1.0);
        let mut program = Program::new(scale_ns);
        let staging = Staging::declare(&mut program, problem, windows, pooled.labels);
        let charges = Charges::declare(&mut program, problem, &staging, 0..problem.stages());
        let most = most_ns / scale_ns;
        let period = variable()
            .bounds((least_ns / scale_ns - CLEARANCE).clamp(0.0, most)..=most)
            .name("bottleneck");
        let period = program.declare(period);
        let runs_on = declare_choices(&mut program, pooled);
        let item_on = declare_items(&mut program, pooled, &staging);
        let mut builder = Builder {
            pooled,
            program,
            staging,
            charges,
            period,
            most,
            runs_on,
            item_on,
        };
        builder.staging();
        builder.choices();
        builder.placement();
        builder.memory();
        builder.transfers();
        let globals = match pooled.pools[0].policy {
            Policy::Turns => Vec::new(),
            _ => builder.phases(),
        };
        builder.busy();
        builder.program.objective = period.expression();
        Self {
            program: builder.program,
            columns: Columns {
                staging: builder.staging,
                runs_on: builder.runs_on,
                globals,
            },
        }
    }
}

fn declare_choices(program: &mut Program, pooled: Pooled) -> Vec<Vec<Column>> {
    let mut declare = |k: usize, c: usize| {
        let binary = variable().binary().name(format!("runs_on[{},{}]", k + 1, c + 1));
        program.declare(binary)
    };
    (0..pooled.problem.stages())
        .map(|k| (0..pooled.pools.len()).map(|c| declare(k, c)).collect())
        .collect()
}

fn declare_items(program: &mut Program, pooled: Pooled, staging: &Staging) -> Vec<Vec<Vec<Option<Column>>>> {
    let Pooled {
        problem,
        pools,
        labels,
        ..
    } = pooled;
    let mut declare = |i: usize, k: usize, c: usize| {
        let meet = staging.allows(i, k) && pools[c].times_ns[i].is_some();
        let placed = variable().bounds(0.0..=1.0);
        let name = format!("item_on[{},{},{}]", labels[i], k + 1, c + 1);
        meet.then(|| program.declare(placed.name(name)))
    };
    let mut items = Vec::with_capacity(problem.items.len());
    for i in 0..problem.items.len() {
        let stage = |k| (0..pools.len()).map(|c| declare(i, k, c)).collect();
        items.push((0..problem.stages()).map(stage).collect());
    }
    items
}

impl Builder<'_> {
    fn sum_of_choices(&self, k: usize, weight: impl Fn(usize) -> f64) -> Expression {
        let mut sum = Expression::default();
        for (c, column) in self.runs_on[k].iter().enumerate() {
            if weight(c) != 0.0 {
                column.add_to(&mut sum, weight(c));
            }
        }
        sum
    }

    /// Σ_i weight(i) y_ikc.
    fn sum_of_items(&self, k: usize, c: usize, weight: impl Fn(usize) -> f64) -> Expression {
        let mut sum = Expression::default();
        for (i, of_item) in self.item_on.iter().enumerate() {
            if let Some(column) = of_item[k][c].filter(|_| weight(i) > 0.0) {
                column.add_to(&mut sum, weight(i));
            }
        }
        sum
    }

    /// Families of staging.
    fn staging(&mut self) {
        let Pooled { problem, labels, .. } = self.pooled;
        monotone(&mut self.program, problem, &self.staging, labels);
        precedence(&mut self.program, problem, &self.staging, labels);
        if problem.settings.all_stages {
            non_empty(&mut self.program, problem, &self.staging);
        }
    }

    /// Families `one_choice` and `inventory`: a stage runs on one choice at most, and choices share what there is.
    fn choices(&mut self) {
        let Pooled { problem, workers, .. } = self.pooled;
        for k in 0..problem.stages() {
            let one = self.sum_of_choices(k, |_| 1.0);
            self.program
                .add_row(format!("one_choice[{}]", k + 1), one, 1.into());
        }
        for (at, &inventory) in workers.inventory.iter().enumerate() {
            let mut taken = Expression::default();
            for k in 0..problem.stages() {
                taken += self.sum_of_choices(k, |c| workers.choices[c].takes[at] as f64);
            }
            let inventory = Expression::from(inventory as f64);
            self.program
                .add_row(format!("inventory[{}]", at + 1), taken, inventory);
        }
    }

    /// Families `placed` and `only_on`: an item of a stage is on the choice that runs the stage.
    fn placement(&mut self) {
        for i in 0..self.pooled.labels.len() {
            for k in 0..self.pooled.problem.stages() {
                if self.staging.allows(i, k) {
                    self.place(i, k);
                }
            }
        }
    }

    fn place(&mut self, item: usize, k: usize) {
        let label = &self.pooled.labels[item];
        let mut somewhere = Expression::default();
        for (c, on) in self.item_on[item][k].iter().enumerate() {
            let Some(on) = on else { continue };
            on.add_to(&mut somewhere, 1.0);
            let name = format!("only_on[{label},{},{}]", k + 1, c + 1);
            self.program
                .add_row(name, on.expression(), self.runs_on[k][c].expression());
        }
        let name = format!("placed[{label},{}]", k + 1);
        self.program.add_row(name, self.staging.x(item, k), somewhere);
    }

    /// Family `device_memory`: what the items of a stage hold fits what runs it.
    fn memory(&mut self) {
        let problem = self.pooled.problem;
        let held = |k: usize, i: usize| problem.memory_bytes(&problem.items[i], problem.stages() - k);
        // The first stage holds most.
        let all: u64 = (0..problem.items.len()).map(|i| held(0, i)).sum();
        if self.pooled.pools.iter().all(|pool| pool.memory_bytes >= all) {
            return;
        }
        let unit = all as f64;
        for k in 0..problem.stages() {
            let mut bytes = Expression::default();
            for i in 0..problem.items.len() {
                self.staging.add_x(&mut bytes, held(k, i) as f64 / unit, i, k);
            }
            let room = self.sum_of_choices(k, |c| self.pooled.pools[c].memory_bytes.min(all) as f64 / unit);
            self.program
                .add_row(format!("device_memory[{}]", k + 1), bytes, room);
        }
    }

    /// Families `sent` and `received`, free on what does not pay.
    fn transfers(&mut self) {
        let Pooled {
            problem,
            pools,
            labels,
            ..
        } = self.pooled;
        let is_free = |c: usize| if pools[c].pays { 0.0 } else { 1.0 };
        let free: Vec<Expression> = (0..problem.stages())
            .map(|k| self.sum_of_choices(k, is_free))
            .collect();
        let staging = &self.staging;
        let apart = |here: usize, elsewhere: usize, k: usize| {
            staging.x(here, k) - staging.x(elsewhere, k) - free[k].clone()
        };
        charges_of(&mut self.program, problem, &self.charges, labels, &apart);
    }

    /// Family `load`, and with overlapped transfers `link_in` and `link_out`: work in turns, transfers and rings within the
    /// period.
    fn busy(&mut self) {
        type Resource = fn(&StageCost) -> u64;
        const LOAD: (&str, Resource) = ("load", |cost| cost.both().communication_ns);
        const LINKS: [(&str, Resource); 2] = [
            ("link_in", |cost| cost.both().link_in_ns),
            ("link_out", |cost| cost.both().link_out_ns),
        ];
        let problem = self.pooled.problem;
        let communication = problem.settings.communication;
        for k in 0..problem.stages() {
            let ring = self.synchronization(k);
            let mut rows = Vec::new();
            if self.pooled.pools[0].policy == Policy::Turns {
                rows.push((LOAD, self.turns(k), communication.blocks()));
            }
            if communication.has_links() {
                rows.extend(LINKS.map(|link| (link, Expression::default(), true)));
            }
            for ((family, resource), mut busy, has_ring) in rows {
                let scaled = |cost: &StageCost| resource(cost) as f64 / self.program.scale_ns;
                add_transfers(&mut busy, problem, &self.charges, k, scaled);
                if has_ring {
                    busy += ring.clone();
                }
                let name = format!("{family}[{}]", k + 1);
                self.program.add_row(name, busy, self.period.expression());
            }
        }
    }

    /// Work of a stage whose phases take turns.
    fn turns(&self, k: usize) -> Expression {
        let mut busy = Expression::default();
        for (c, pool) in self.pooled.pools.iter().enumerate() {
            if pool.policy == Policy::Turns {
                let scaled = |i| pool.least_ns(i).unwrap_or(0.0) / self.program.scale_ns;
                busy += self.sum_of_items(k, c, scaled);
            }
        }
        busy
    }

    /// Family `synchronized`: whether a group has parameters to reduce; returns what its ring takes.
    fn synchronization(&mut self, k: usize) -> Expression {
        let mut busy = Expression::default();
        for c in 0..self.pooled.pools.len() {
            let Some(ring) = self.pooled.pools[c].synchronization else {
                continue;
            };
            let items = &self.pooled.problem.items;
            let bytes = |i: usize| ring.byte_ns * items[i].parameter_bytes as f64 / self.program.scale_ns;
            busy += self.sum_of_items(k, c, bytes);
            if ring.latency_ns == 0.0 {
                continue;
            }
            let indices = format!("{},{}", k + 1, c + 1);
            let any = variable().bounds(0.0..=1.0).name(format!("reduces[{indices}]"));
            let any = self.program.declare(any);
            any.add_to(&mut busy, ring.latency_ns / self.program.scale_ns);
            for i in (0..items.len()).filter(|&i| items[i].parameter_bytes > 0) {
                if let Some(on) = self.item_on[i][k][c] {
                    let name = format!("synchronized[{},{indices}]", self.pooled.labels[i]);
                    self.program.add_row(name, on.expression(), any.expression());
                }
            }
        }
        busy
    }

    /// Families `forward`, `backward`, and those of splits: both phases at once, each on its share.
    fn phases(&mut self) -> Vec<Option<Global>> {
        let mut globals = Vec::new();
        if self.pooled.pools[0].policy == Policy::Global {
            for name in 0..self.pooled.workers.resource_names.len() {
                let Some(like) = parts_of(self.pooled.pools, name).next() else {
                    globals.push(None);
                    continue;
                };
                let part = &self.pooled.pools[like.0].parts[like.1];
                let indices = format!("{}", name + 1);
                let split = Split::declare(&mut self.program, part, &indices);
                split.add_rows(&mut self.program, &indices, self.period.expression(), self.most);
                globals.push(Some(Global { split, like }));
            }
        }
        for k in 0..self.pooled.problem.stages() {
            self.phases_of_stage(k, &globals);
        }
        globals
    }

    fn phases_of_stage(&mut self, k: usize, globals: &[Option<Global>]) {
        let mut all_busy = Expression::default();
        for c in 0..self.pooled.pools.len() {
            let pool = &self.pooled.pools[c];
            let indices = format!("{},{}", k + 1, c + 1);
            let splits = match pool.policy {
                Policy::Free => {
                    let (splits, busy) = self.splits(k, c, &indices);
                    busy.add_to(&mut all_busy, 1.0);
                    splits
                }
                Policy::Global => {
                    let of_name = |name: usize| globals[name].as_ref().map(|global| global.split.clone());
                    pool.parts.iter().filter_map(|part| of_name(part.name)).collect()
                }
                Policy::Fixed(_) | Policy::Turns => Vec::new(),
            };
            for (phase, family) in ["forward", "backward"].into_iter().enumerate() {
                let mut speed = Expression::default();
                if let Policy::Fixed(rates) = pool.policy {
                    self.period.add_to(&mut speed, rates[phase]);
                }
                for (split, part) in splits.iter().zip(&pool.parts) {
                    split.add_speed(part, phase, &mut speed);
                }
                let scaled =
                    |i: usize| pool.times_ns[i].map_or(0.0, |t| t[phase] as f64 / self.program.scale_ns);
                let work = self.sum_of_items(k, c, scaled);
                self.program.add_row(format!("{family}[{indices}]"), work, speed);
            }
        }
        if self.pooled.pools[0].policy == Policy::Free {
            let name = format!("one_busy[{}]", k + 1);
            self.program.add_row(name, all_busy, self.period.expression());
        }
    }

    /// Families `busy` and `one_busy`: a stage's period belongs to the choice that runs it. Returns the splits of the
    /// choice's parts, and that time.
    fn splits(&mut self, k: usize, c: usize, indices: &str) -> (Vec<Split>, Column) {
        let busy = variable().min(0.0).name(format!("busy_for[{indices}]"));
        let busy = self.program.declare(busy);
        let mut most = Expression::default();
        self.runs_on[k][c].add_to(&mut most, self.most);
        self.program
            .add_row(format!("busy[{indices}]"), busy.expression(), most);
        let mut splits = Vec::new();
        for (at, part) in self.pooled.pools[c].parts.iter().enumerate() {
            let indices = format!("{indices},{}", at + 1);
            let split = Split::declare(&mut self.program, part, &indices);
            split.add_rows(&mut self.program, &indices, busy.expression(), self.most);
            splits.push(split);
        }
        (splits, busy)
    }
}

impl Columns {
    /// Reads an allocation off a solution; `None` if its binaries are not whole.
    pub(crate) fn allocation(&self, pools: &[Pool], values: &[f64]) -> Option<Allocation> {
        let placed = self.staging.assignment(values)?;
        let mut used: Vec<usize> = placed.clone();
        used.sort_unstable();
        used.dedup();
        let chosen = |&k: &usize| {
            self.runs_on[k]
                .iter()
                .position(|c| c.value(values) > 1.0 - INTEGRALITY)
        };
        let choices: Option<Vec<usize>> = used.iter().map(chosen).collect();
        let share = |global: &Option<Global>| {
            global.as_ref().map_or(0.5, |global| {
                let part = &pools[global.like.0].parts[global.like.1];
                global.split.share(part, values)
            })
        };
        Some(Allocation {
            assignment: without_empty_stages(&placed).0,
            choices: choices?,
            global: self.globals.iter().map(share).collect(),
            modes: None,
        })
    }
}

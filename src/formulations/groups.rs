//! The groups program: which stage each item lies in, and how many devices of each class run each stage.
#![doc = include_str!("../../formulations/groups.md")]

use good_lp::{Expression, variable};

use super::communication::{Charges, charges_of};
use super::load::add_transfers;
use super::pools::{Part, Policy, Pool, Pooled, Unsupported, same_ratio};
use super::splits::Split;
use super::staging::{INTEGRALITY, Staging, Windows, monotone, non_empty, precedence};
use super::{Column, Meaning, Program};
use crate::model::options::{Groups as GroupOption, Shares, Synchronization};
use crate::problem::Problem;
use crate::problem::cost::allocation::Allocation;
use crate::problem::cost::{StageCost, without_empty_stages};
use crate::problem::workers::{Choice, Workers};

/// A groups program, with what is needed to read its solutions.
pub(crate) struct Groups {
    /// The program: its objective is `1 - θ`, where `θ` is `least_ns` over the period.
    pub program: Program,
    /// What its columns mean.
    pub columns: Columns,
}

/// The meaning of a groups program's columns.
pub(crate) struct Columns {
    staging: Staging,
    devices: Vec<Vec<Column>>,
}

/// One device of each class.
///
/// # Errors
///
/// Whatever keeps the program from being linear.
pub(crate) fn singles(problem: &Problem, workers: &Workers) -> Result<Vec<Pool>, Unsupported> {
    let settings = &problem.settings;
    if settings.groups != GroupOption::Assign {
        return Err("groups are given");
    }
    if settings.communication.blocks() && !problem.transfers.is_empty() {
        return Err("blocking transfers take the same time however many devices there are");
    }
    let has_gradients = settings.mode.trains() && settings.communication.takes_time();
    if has_gradients && settings.synchronization == Synchronization::Ring {
        return Err("a ring takes a time that is not linear in the number of devices");
    }
    let single = |class: usize| {
        let mut devices = vec![0; workers.classes.len()];
        devices[class] = 1;
        let takes = devices.clone();
        Pool::new(problem, workers, &Choice { devices, takes })
    };
    let pools: Result<Vec<Pool>, Unsupported> = (0..workers.classes.len()).map(single).collect();
    let pools = pools?;
    for item in 0..problem.items.len() {
        let mut times = pools.iter().filter_map(|pool| pool.times_ns[item]);
        let first = times.next();
        if times.any(|other| Some(other) != first) {
            return Err("groups of kinds with unrelated times are not linear");
        }
    }
    if pools[0].policy == Policy::Global {
        return Err("one share for all stages times a number of devices is not linear");
    }
    let parts: Vec<Part> = pools.iter().flat_map(|pool| pool.parts.clone()).collect();
    if settings.shares == Shares::Theorem && !same_ratio(&parts) {
        return Err("the theorem's shares are not linear where ratios of rates differ or shares have levels");
    }
    let works = |phase: usize| total_ns(&pools, phase) > 0.0;
    if pools[0].policy == Policy::Turns && works(0) && works(1) && !same_class_ratio(&pools) {
        return Err("taking turns is linear only where forward and backward rates keep one ratio");
    }
    match works(0) || works(1) {
        true => Ok(pools),
        false => Err("there is no work to share out"),
    }
}

/// Forward or backward work of all items at rate 1, in ns.
fn total_ns(pools: &[Pool], phase: usize) -> f64 {
    let of_item = |item: usize| {
        let times = pools.iter().find_map(|pool| pool.times_ns[item]);
        times.map_or(0.0, |times| times[phase] as f64)
    };
    (0..pools[0].times_ns.len()).map(of_item).sum()
}

fn same_class_ratio(pools: &[Pool]) -> bool {
    let [forward, backward] = [pools[0].rate(0), pools[0].rate(1)];
    let differs = |pool: &Pool| {
        let (one, other) = (pool.rate(0) * backward, pool.rate(1) * forward);
        (one - other).abs() > 1e-12 * one
    };
    !pools.iter().any(differs)
}

/// Work that a stage must get done at a rate, as a row has it: both phases in turn, or one of them.
struct Duty {
    family: &'static str,
    /// ns by item at rate 1.
    work_ns: Vec<f64>,
    /// Rate of one device of each class; a phase of free shares takes it from splits.
    rates: Vec<f64>,
    /// The phase, where the phases run at once.
    phase: usize,
}

fn duties(problem: &Problem, pools: &[Pool]) -> Vec<Duty> {
    let time = |item: usize, phase: usize| {
        let times = pools.iter().find_map(|pool| pool.times_ns[item]);
        times.map_or(0.0, |times| times[phase] as f64)
    };
    let items = 0..problem.items.len();
    if pools[0].policy == Policy::Turns {
        // Backward work counts by the ratio of rates, so that one rate serves both.
        let phase = usize::from(total_ns(pools, 0) == 0.0);
        let other = pools[0].rate(phase) / pools[0].rate(1 - phase);
        let work = items.map(|item| time(item, phase) + other * time(item, 1 - phase));
        return vec![Duty {
            family: "load",
            work_ns: work.collect(),
            rates: pools.iter().map(|pool| pool.rate(phase)).collect(),
            phase,
        }];
    }
    let rate = |pool: &Pool, phase: usize| match pool.policy {
        Policy::Fixed(rates) => rates[phase],
        _ => pool.rate(phase),
    };
    let duty = |(phase, family)| Duty {
        family,
        work_ns: items.clone().map(|item| time(item, phase)).collect(),
        rates: pools.iter().map(|pool| rate(pool, phase)).collect(),
        phase,
    };
    ["forward", "backward"]
        .into_iter()
        .enumerate()
        .map(duty)
        .collect()
}

/// Work of each item by duty, and the rate that so many stages have at most, from 0 to all of them: every device, but for the
/// one that each other stage keeps where all must hold something.
pub(crate) fn demands(problem: &Problem, workers: &Workers, pools: &[Pool]) -> Vec<(Vec<f64>, Vec<f64>)> {
    let stages = problem.stages();
    let demand = |duty: Duty| {
        let devices = workers.inventory.iter().zip(&duty.rates);
        let mut rates: Vec<f64> = devices.flat_map(|(&count, &rate)| vec![rate; count]).collect();
        rates.sort_by(f64::total_cmp);
        let kept = |k: usize| match problem.settings.all_stages {
            true => stages - k,
            false => 0,
        };
        let capacity = |k: usize| match k {
            0 => 0.0,
            _ => rates[kept(k)..].iter().sum(),
        };
        (duty.work_ns, (0..=stages).map(capacity).collect())
    };
    duties(problem, pools).into_iter().map(demand).collect()
}

/// A period that no plan beats, in ns and above 0: all work on all devices, and the largest item on as many as one stage
/// can have.
pub(crate) fn least_ns(problem: &Problem, workers: &Workers, pools: &[Pool]) -> f64 {
    let mut least: f64 = 0.0;
    for (work_ns, rates) in demands(problem, workers, pools) {
        let largest = work_ns.iter().copied().fold(0.0, f64::max);
        let total: f64 = work_ns.iter().sum();
        least = least.max(total / rates[problem.stages()]).max(largest / rates[1]);
    }
    least
}

/// What the functions below share.
struct Builder<'a> {
    pooled: Pooled<'a>,
    program: Program,
    staging: Staging,
    /// `θ`.
    pace: Column,
    /// `w_ik`, where windows allow it.
    paced: Vec<Vec<Option<Column>>>,
    /// `n_kc`.
    devices: Vec<Vec<Column>>,
    /// Devices of each class that a stage may have.
    most_devices: Vec<usize>,
}

impl Groups {
    /// Builds the program.
    ///
    /// * `pooled`: the problem, with the pools of [`singles`];
    /// * `windows`: stages an item may lie in; with one stage each, the best groups of a given partition;
    /// * `least_ns`, `most_ns`: periods of interest, in real numbers, `least_ns` above 0 and a bound on every plan.
    ///
    /// Size: (q-1) n binaries, q c integers and q (n + 2 t) further columns for n items, q stages, c classes and t
    /// transfers; with memory or layers that some class cannot run, q c binaries more.
    pub(crate) fn build(pooled: Pooled, windows: &Windows, [least_ns, most_ns]: [f64; 2]) -> Self {
        let Pooled { problem, labels, .. } = pooled;
        let mut program = Program::new(least_ns);
        let staging = Staging::declare(&mut program, problem, windows, labels);
        let slowest = (least_ns / most_ns).min(1.0);
        let pace = variable().bounds(slowest..=1.0).name("pace");
        let pace = program.declare(pace);
        let paced = declare_paced(&mut program, pooled, &staging);
        let most_devices = most_devices(pooled);
        let devices = declare_devices(&mut program, pooled, &most_devices);
        let mut builder = Builder {
            pooled,
            program,
            staging,
            pace,
            paced,
            devices,
            most_devices,
        };
        builder.placement(slowest);
        builder.inventory();
        builder.presence();
        builder.work();
        builder.links();
        builder.program.objective = Expression::from(1.0) - pace.expression();
        builder.program.meaning = Meaning::Pace;
        Self {
            program: builder.program,
            columns: Columns {
                staging: builder.staging,
                devices: builder.devices,
            },
        }
    }
}

/// `w_ik`, where windows allow it.
fn declare_paced(program: &mut Program, pooled: Pooled, staging: &Staging) -> Vec<Vec<Option<Column>>> {
    let mut declare = |i: usize, k: usize| {
        let name = format!("paced[{},{}]", pooled.labels[i], k + 1);
        let paced = variable().bounds(0.0..=1.0).name(name);
        staging.allows(i, k).then(|| program.declare(paced))
    };
    let stages = 0..pooled.problem.stages();
    (0..pooled.labels.len())
        .map(|i| stages.clone().map(|k| declare(i, k)).collect())
        .collect()
}

/// Devices of each class that a stage may have: all, but for the one that each other stage keeps where all must hold something.
fn most_devices(pooled: Pooled) -> Vec<usize> {
    let inventory = &pooled.workers.inventory;
    let all: usize = inventory.iter().sum();
    let most = match pooled.problem.settings.all_stages {
        true => all + 1 - pooled.problem.stages(),
        false => all,
    };
    inventory.iter().map(|&count| count.min(most)).collect()
}

/// `n_kc`.
fn declare_devices(program: &mut Program, pooled: Pooled, most_devices: &[usize]) -> Vec<Vec<Column>> {
    let mut declare = |k: usize, c: usize| {
        let count = variable().integer().bounds(0.0..=most_devices[c] as f64);
        program.declare(count.name(format!("devices[{},{}]", k + 1, c + 1)))
    };
    (0..pooled.problem.stages())
        .map(|k| (0..pooled.pools.len()).map(|c| declare(k, c)).collect())
        .collect()
}

impl Builder<'_> {
    fn sum_of_devices(&self, k: usize, weight: impl Fn(usize) -> f64) -> Expression {
        let mut sum = Expression::default();
        for (c, column) in self.devices[k].iter().enumerate() {
            column.add_to(&mut sum, weight(c));
        }
        sum
    }

    fn w(&self, item: usize, k: usize) -> Expression {
        self.paced[item][k].map_or(Expression::default(), Column::expression)
    }

    /// Families of staging, `pace`, `own_stage` and `slowest`: `w_ik` is `θ` in the item's stage and 0 elsewhere.
    fn placement(&mut self, slowest: f64) {
        let Pooled { problem, labels, .. } = self.pooled;
        monotone(&mut self.program, problem, &self.staging, labels);
        precedence(&mut self.program, problem, &self.staging, labels);
        if problem.settings.all_stages {
            non_empty(&mut self.program, problem, &self.staging);
        }
        for (i, label) in labels.iter().enumerate() {
            let mut all = Expression::default();
            for k in 0..problem.stages() {
                all += self.w(i, k);
                if self.paced[i][k].is_none() {
                    continue;
                }
                let mut least = Expression::default();
                self.staging.add_x(&mut least, slowest, i, k);
                let (x, w) = (self.staging.x(i, k), self.w(i, k));
                let indices = format!("{label},{}", k + 1);
                self.program
                    .add_row(format!("own_stage[{indices}]"), w.clone(), x);
                self.program.add_row(format!("slowest[{indices}]"), least, w);
            }
            self.program
                .add_row(format!("pace[{label}]"), self.pace.expression(), all);
        }
    }

    /// Families `inventory` and `some_device`.
    fn inventory(&mut self) {
        for (c, &inventory) in self.pooled.workers.inventory.iter().enumerate() {
            let mut taken = Expression::default();
            for of_stage in &self.devices {
                of_stage[c].add_to(&mut taken, 1.0);
            }
            let inventory = Expression::from(inventory as f64);
            self.program
                .add_row(format!("inventory[{}]", c + 1), taken, inventory);
        }
        for k in 0..self.pooled.problem.stages() {
            let some = self.sum_of_devices(k, |_| 1.0);
            if self.pooled.problem.settings.all_stages {
                self.program
                    .add_row(format!("some_device[{}]", k + 1), 1.into(), some);
                continue;
            }
            // Work alone does not say so for items without any, nor beyond the solver's tolerance for those with little.
            for (i, label) in self.pooled.labels.iter().enumerate() {
                if self.staging.allows(i, k) {
                    let name = format!("some_device[{label},{}]", k + 1);
                    self.program.add_row(name, self.staging.x(i, k), some.clone());
                }
            }
        }
    }

    /// Families `present`, `not_on` and `group_memory`: what a class cannot run or hold keeps it out of a stage.
    fn presence(&mut self) {
        let Pooled { problem, pools, .. } = self.pooled;
        let items = 0..problem.items.len();
        // The first stage holds most.
        let most_bytes: u64 = items.clone().map(|i| self.held_bytes(0, i)).sum();
        for (c, pool) in pools.iter().enumerate() {
            let cannot_run = |i: &usize| pool.times_ns[*i].is_none();
            let cannot: Vec<usize> = items.clone().filter(cannot_run).collect();
            let is_tight = pool.memory_bytes < most_bytes;
            if cannot.is_empty() && !is_tight {
                continue;
            }
            for k in 0..problem.stages() {
                let present = self.present(k, c);
                self.not_on(k, c, &cannot, present);
                if is_tight {
                    self.group_memory(k, c, most_bytes, present);
                }
            }
        }
    }

    /// Bytes of an item on stage `k`.
    fn held_bytes(&self, k: usize, item: usize) -> u64 {
        let problem = self.pooled.problem;
        problem.memory_bytes(&problem.items[item], problem.stages() - k)
    }

    /// Family `present`: whether a stage has devices of a class.
    fn present(&mut self, k: usize, c: usize) -> Column {
        let indices = format!("{},{}", k + 1, c + 1);
        let present = variable().binary().name(format!("is_present[{indices}]"));
        let present = self.program.declare(present);
        let mut most = Expression::default();
        present.add_to(&mut most, self.most_devices[c] as f64);
        let count = self.devices[k][c].expression();
        self.program.add_row(format!("present[{indices}]"), count, most);
        present
    }

    /// Family `not_on`: a class keeps away from items that it cannot run.
    fn not_on(&mut self, k: usize, c: usize, cannot: &[usize], present: Column) {
        for &i in cannot {
            let both = self.staging.x(i, k) + present.expression();
            let name = format!("not_on[{},{},{}]", self.pooled.labels[i], k + 1, c + 1);
            self.program.add_row(name, both, 1.into());
        }
    }

    /// Family `group_memory`: what a stage holds fits each device of a class that is present.
    fn group_memory(&mut self, k: usize, c: usize, most_bytes: u64, present: Column) {
        let unit = most_bytes.max(1) as f64;
        let mut bytes = Expression::default();
        for i in 0..self.pooled.problem.items.len() {
            let held = self.held_bytes(k, i) as f64 / unit;
            self.staging.add_x(&mut bytes, held, i, k);
        }
        let room = self.pooled.pools[c].memory_bytes as f64 / unit;
        present.add_to(&mut bytes, 1.0 - room);
        let name = format!("group_memory[{},{}]", k + 1, c + 1);
        self.program.add_row(name, bytes, 1.into());
    }

    /// Families `load`, or `forward` and `backward` with those of splits: a stage's devices keep up.
    fn work(&mut self) {
        let duties = duties(self.pooled.problem, self.pooled.pools);
        for k in 0..self.pooled.problem.stages() {
            let splits = self.splits(k);
            for duty in &duties {
                let name = format!("{}[{}]", duty.family, k + 1);
                let (busy, speed) = (self.busy(k, duty), self.speed(k, duty, &splits));
                self.program.add_row(name, busy, speed);
            }
        }
    }

    /// Work of a stage for each unit of time, at its pace.
    fn busy(&self, k: usize, duty: &Duty) -> Expression {
        let mut busy = Expression::default();
        for (of_item, &work_ns) in self.paced.iter().zip(&duty.work_ns) {
            if let Some(w) = of_item[k].filter(|_| work_ns > 0.0) {
                w.add_to(&mut busy, work_ns / self.program.scale_ns);
            }
        }
        busy
    }

    /// What a stage's devices get done in a unit of time: by rates, or where shares are free by splits of the parts.
    fn speed(&self, k: usize, duty: &Duty, splits: &[Split]) -> Expression {
        if splits.is_empty() {
            return self.sum_of_devices(k, |c| duty.rates[c]);
        }
        let mut speed = Expression::default();
        let parts = self.pooled.pools.iter().flat_map(|pool| &pool.parts);
        for (split, part) in splits.iter().zip(parts) {
            split.add_speed(part, duty.phase, &mut speed);
        }
        speed
    }

    /// How many devices' worth of each part is at each of its levels, where shares are the plan's choice.
    fn splits(&mut self, k: usize) -> Vec<Split> {
        let mut splits = Vec::new();
        for (c, pool) in self.pooled.pools.iter().enumerate() {
            if pool.policy != Policy::Free {
                continue;
            }
            for (at, part) in pool.parts.iter().enumerate() {
                let indices = format!("{},{},{}", k + 1, c + 1, at + 1);
                let split = Split::declare(&mut self.program, part, &indices);
                let devices = self.devices[k][c].expression();
                let most = self.most_devices[c] as f64;
                split.add_rows(&mut self.program, &indices, devices, most);
                splits.push(split);
            }
        }
        splits
    }

    /// Families `paying`, `sent`, `received`, `link_in` and `link_out`: links keep up, free where no device pays.
    fn links(&mut self) {
        let Pooled { problem, labels, .. } = self.pooled;
        if problem.transfers.is_empty() {
            return;
        }
        let charges = Charges::declare(&mut self.program, problem, &self.staging, 0..problem.stages());
        let free = self.paying();
        let paced = &self.paced;
        let w = |item: usize, k: usize| paced[item][k].map_or(Expression::default(), Column::expression);
        let apart = |here: usize, elsewhere: usize, k: usize| w(here, k) - w(elsewhere, k) - free[k].clone();
        charges_of(&mut self.program, problem, &charges, labels, &apart);
        type Link = fn(&StageCost) -> u64;
        let links: [(&str, Link); 2] = [
            ("link_in", |cost| cost.both().link_in_ns),
            ("link_out", |cost| cost.both().link_out_ns),
        ];
        let scale_ns = self.program.scale_ns;
        for (family, link) in links {
            let scaled = |cost: &StageCost| link(cost) as f64 / scale_ns;
            for k in 0..problem.stages() {
                let mut busy = Expression::default();
                add_transfers(&mut busy, problem, &charges, k, scaled);
                let name = format!("{family}[{}]", k + 1);
                self.program.add_row(name, busy, 1.into());
            }
        }
    }

    /// Family `paying`: whether a stage has a device that pays for transfers. Returns, by stage, what is 1 where it has none.
    fn paying(&mut self) -> Vec<Expression> {
        let Pooled { problem, pools, .. } = self.pooled;
        let mut free = vec![Expression::default(); problem.stages()];
        if pools.iter().all(|pool| pool.pays) {
            return free;
        }
        for (k, free) in free.iter_mut().enumerate() {
            let pays = variable().binary().name(format!("pays[{}]", k + 1));
            let pays = self.program.declare(pays);
            let paying = self.sum_of_devices(k, |c| f64::from(u8::from(pools[c].pays)));
            let mut most = Expression::default();
            let devices: usize = self.most_devices.iter().sum();
            pays.add_to(&mut most, devices as f64);
            self.program.add_row(format!("paying[{}]", k + 1), paying, most);
            *free = Expression::from(1.0) - pays.expression();
        }
        free
    }
}

impl Columns {
    /// Reads an allocation off a solution; `None` if its integers are not whole.
    pub(crate) fn allocation(&self, workers: &Workers, values: &[f64]) -> Option<Allocation> {
        let whole = |column: &Column| {
            let value = column.value(values);
            ((value - value.round()).abs() <= INTEGRALITY).then(|| value.round() as usize)
        };
        let chosen = |of_stage: &Vec<Column>| {
            let devices: Option<Vec<usize>> = of_stage.iter().map(whole).collect();
            let devices = devices?;
            workers
                .choices
                .iter()
                .position(|choice| choice.devices == devices)
        };
        let placed = self.staging.assignment(values)?;
        let is_used = |k: &usize| placed.contains(k);
        let used = (0..self.devices.len()).filter(is_used);
        let choices: Option<Vec<usize>> = used.map(|k| chosen(&self.devices[k])).collect();
        Some(Allocation {
            assignment: without_empty_stages(&placed).0,
            choices: choices?,
            global: Vec::new(),
            modes: None,
        })
    }
}

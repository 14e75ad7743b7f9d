//! The program of modes: which stage each item lies in, and how stages and layers run.
#![doc = include_str!("../../../formulations/modal_program.md")]

mod choices;
mod excluded;
mod links;
mod stage_memory;

use good_lp::{Expression, variable};

use self::choices::StageColumns;
pub use self::choices::too_large;
pub use self::excluded::{Excluded, Pinned};
use super::staging::{INTEGRALITY, Staging, Windows, monotone, non_empty, precedence};
use super::{Column, Program};
use crate::problem::modes::{Modes, StageMode};
use crate::problem::{Assignment, Problem};

/// How far the bottleneck's lower bound stays below what is proved, in units of the scale, as in `formulations::devices`.
const CLEARANCE: f64 = 1e-8;

/// A program of modes, with what is needed to read its solutions.
pub struct ModalProgram {
    /// The program: its objective is the period.
    pub program: Program,
    /// What its columns mean.
    pub columns: Columns,
}

/// The meaning of its columns.
pub struct Columns {
    staging: Staging,
    stages: Vec<Vec<(StageMode, Column)>>,
}

/// What is asked of a program.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// No plan takes less, in ticks.
    pub least: f64,
    /// Plans that take longer are not looked for, in ticks.
    pub most: f64,
    /// Stages that no plan of interest has.
    pub excluded: &'a [Excluded],
}

impl Asked<'_> {
    /// Any plan.
    pub fn anything(modes: &Modes) -> Self {
        Self {
            least: 0.0,
            most: modes.longest() as f64 + 1.0,
            excluded: &[],
        }
    }
}

/// What the functions below share.
struct Builder<'a> {
    problem: &'a Problem,
    modes: &'a Modes,
    labels: &'a [String],
    program: Program,
    staging: Staging,
    /// The bottleneck `T`.
    period: Column,
    /// Its upper bound.
    most: f64,
    stages: Vec<StageColumns<'a>>,
    /// What each stage takes for a micro-batch, in units of the scale.
    busy: Vec<Expression>,
    /// What the devices of each row take together, at least.
    devices_busy: Vec<Expression>,
}

impl ModalProgram {
    /// Builds the program.
    ///
    /// * `asked`: which plans are looked for;
    /// * `labels`: a name for each item.
    ///
    /// Size: see the page.
    pub fn build(problem: &Problem, modes: &Modes, asked: Asked, labels: &[String]) -> Self {
        let scale_ns = asked.most.max(1.0);
        let mut program = Program::new(scale_ns);
        let staging = Staging::declare(&mut program, problem, &Windows::all(problem), labels);
        let most = asked.most / scale_ns;
        let least = (asked.least / scale_ns - CLEARANCE).clamp(0.0, most);
        let period = program.declare(variable().bounds(least..=most).name("bottleneck"));
        let stages = choices::declare(&mut program, problem, modes, labels);
        let mut builder = Builder {
            problem,
            modes,
            labels,
            program,
            staging,
            period,
            most,
            busy: vec![Expression::default(); stages.len()],
            devices_busy: vec![Expression::default(); modes.rows.len()],
            stages,
        };
        builder.staging();
        builder.choices();
        builder.placement();
        builder.memory();
        builder.places();
        builder.work();
        builder.transfers();
        builder.rings();
        builder.load();
        for (at, excluded) in asked.excluded.iter().enumerate() {
            builder.exclude(at, excluded);
        }
        builder.program.objective = period.expression();
        let modes_of = |stage: StageColumns| {
            let columns = stage.runs.iter().copied();
            let modes = stage.choices.iter().map(|choice| choice.mode);
            modes.zip(columns).collect()
        };
        Self {
            program: builder.program,
            columns: Columns {
                staging: builder.staging,
                stages: builder.stages.into_iter().map(modes_of).collect(),
            },
        }
    }
}

impl Builder<'_> {
    /// Families of staging.
    fn staging(&mut self) {
        let (problem, labels) = (self.problem, self.labels);
        monotone(&mut self.program, problem, &self.staging, labels);
        precedence(&mut self.program, problem, &self.staging, labels);
        if problem.settings.all_stages {
            non_empty(&mut self.program, problem, &self.staging);
        }
    }

    /// Families `one_mode`, `in_front`, `filled` and `devices`: a stage runs in one mode or is empty, empty stages come first, and all
    /// devices are there.
    fn choices(&mut self) {
        let mut devices = vec![Expression::default(); self.modes.rows.len()];
        for k in 0..self.stages.len() {
            let used = self.stages[k].sum(|_| 1.0);
            for (row, devices) in devices.iter_mut().enumerate() {
                *devices += self.stages[k].sum(|choice| self.devices_of(choice, row) as f64);
            }
            self.program
                .add_row(format!("one_mode[{}]", k + 1), used.clone(), 1.into());
            if let Some(next) = self.stages.get(k + 1) {
                let next = next.sum(|_| 1.0);
                self.program
                    .add_row(format!("in_front[{}]", k + 1), used.clone(), next);
            }
            let mut held = Expression::default();
            for item in 0..self.labels.len() {
                self.staging.add_x(&mut held, 1.0, item, k);
            }
            self.program.add_row(format!("filled[{}]", k + 1), used, held);
        }
        for (row, devices) in devices.into_iter().enumerate() {
            let all = Expression::from(self.modes.rows[row].devices as f64);
            let name = format!("devices[{}]", self.modes.name_of_row(row));
            self.program.add_row(name, devices, all);
        }
        for k in 0..self.stages.len() {
            self.add_behind(k);
        }
    }

    /// Devices that a choice takes of a row.
    fn devices_of(&self, choice: &choices::Choice, row: usize) -> usize {
        match self.modes.degrees[choice.mode.degree].row == row {
            true => self.modes.devices_of(&choice.mode),
            false => 0,
        }
    }

    /// Family `behind`: a mode that counts so many micro-batches in flight has no more replicas behind it than go with them.
    fn add_behind(&mut self, k: usize) {
        let stage = &self.stages[k];
        let most = stage.most_behind;
        if stage.choices.iter().all(|choice| choice.most_behind >= most) {
            return;
        }
        let mut behind = stage.sum(|choice| most.saturating_sub(choice.most_behind) as f64);
        for later in &self.stages[k + 1..] {
            behind += later.sum(|choice| choice.mode.replicas as f64);
        }
        let most = Expression::from(most as f64);
        self.program.add_row(format!("behind[{}]", k + 1), behind, most);
    }

    /// Families `placed`, `only_on` and `one_way`: an item runs in the mode of its stage, and each of its layers in some way.
    fn placement(&mut self) {
        for k in 0..self.stages.len() {
            for item in 0..self.labels.len() {
                self.place(k, item);
            }
        }
    }

    fn place(&mut self, k: usize, item: usize) {
        let (stage, label) = (&self.stages[k], &self.labels[item]);
        let mut somehow = Expression::default();
        for (c, ran) in stage.items[item].iter().enumerate() {
            let Some(ran) = ran else { continue };
            ran.on.add_to(&mut somehow, 1.0);
            let choice = &stage.choices[c].name;
            let runs = stage.runs[c].expression();
            self.program
                .add_row(format!("only_on[{label},{choice}]"), ran.on.expression(), runs);
            for (l, ways) in ran.layers.iter().enumerate().filter(|(_, ways)| ways.len() > 1) {
                let some: Expression = ways.iter().map(|(way, _)| way.expression()).sum();
                let name = format!("one_way[{label},{},{choice}]", l + 1);
                self.program.add_row(name, ran.on.expression(), some);
            }
        }
        let name = format!("placed[{label},{}]", k + 1);
        self.program.add_equality(name, self.staging.x(item, k), somehow);
    }

    /// What layers take of their stages and devices, and family `mode_load`: those of a choice take no longer than any plan of interest, if
    /// the stage runs so, else nothing.
    fn work(&mut self) {
        let scale = self.program.scale_ns;
        for (k, stage) in self.stages.iter().enumerate() {
            let mut of_choices = vec![Expression::default(); stage.choices.len()];
            for (c, ran) in stage.all() {
                let mode = &stage.choices[c].mode;
                let degree = self.modes.degrees[mode.degree].tensor as f64;
                for (column, way) in ran.layers.iter().flatten() {
                    let time = way.adds().iter().sum::<u64>() as f64 / scale;
                    let each = time / mode.replicas as f64;
                    column.add_to(&mut self.busy[k], each);
                    column.add_to(&mut of_choices[c], each);
                    column.add_to(
                        &mut self.devices_busy[self.modes.degrees[mode.degree].row],
                        time * degree,
                    );
                }
            }
            for (c, busy) in of_choices.into_iter().enumerate() {
                let mut most = Expression::default();
                stage.runs[c].add_to(&mut most, self.most);
                let name = format!("mode_load[{}]", stage.choices[c].name);
                self.program.add_row(name, busy, most);
            }
        }
    }

    /// Families `load` and `capacity`: no stage takes longer than the period, and the devices of a row together no longer than as many periods.
    fn load(&mut self) {
        for (k, busy) in self.busy.iter().enumerate() {
            let name = format!("load[{}]", k + 1);
            self.program.add_row(name, busy.clone(), self.period.expression());
        }
        for (row, busy) in self.devices_busy.iter().enumerate() {
            let all = self.modes.rows[row].devices as f64 * self.period.expression();
            let name = format!("capacity[{}]", self.modes.name_of_row(row));
            self.program.add_row(name, busy.clone(), all);
        }
    }
}

impl Columns {
    /// Reads a solution: the stage of each item, and the mode of each stage that holds one; `None` if its binaries are not whole.
    pub fn plan(&self, values: &[f64]) -> Option<(Assignment, Vec<Option<StageMode>>)> {
        let assignment = self.staging.assignment(values)?;
        let mut modes = vec![None; self.stages.len()];
        for &k in &assignment {
            let mut columns = self.stages[k].iter();
            let (mode, _) = columns.find(|(_, column)| column.value(values) > 1.0 - INTEGRALITY)?;
            modes[k] = Some(*mode);
        }
        Some((assignment, modes))
    }
}

//! The program of virtual stages: staging over chunks, loads and memory by device.
#![doc = include_str!("../../formulations/virtual_stages.md")]

use good_lp::{Expression, variable};

use super::communication::{Charges, charges_of};
use super::load::{RESOURCES, Resource, add_transfers};
use super::staging::{Staging, Windows, monotone, non_empty, precedence};
use super::{Column, Program};
use crate::problem::cost::StageCost;
use crate::problem::virtual_stages::VirtualStages;
use crate::problem::{Assignment, Problem};

/// The program of a problem with virtual stages, with what is needed to read its solutions.
pub struct ChunkProgram {
    /// The program.
    pub program: Program,
    staging: Staging,
}

impl ChunkProgram {
    /// Builds the program for plans whose period is at most `at_most_ns`.
    ///
    /// Size: at most (c - 1) n binaries and 2 q t charges for n items, c chunks on q devices and t transfers.
    pub fn build(problem: &Problem, of: &VirtualStages, at_most_ns: f64, labels: &[String]) -> Self {
        let scale_ns = at_most_ns.max(1.0);
        let mut program = Program::new(scale_ns);
        let staging = Staging::declare(&mut program, problem, &Windows::all(problem), labels);
        let charges = Charges::at_devices(&mut program, problem, of.devices);
        let period = variable().bounds(0.0..=at_most_ns / scale_ns).name("period");
        let period = program.declare(period);
        monotone(&mut program, problem, &staging, labels);
        precedence(&mut program, problem, &staging, labels);
        if problem.settings.all_stages {
            non_empty(&mut program, problem, &staging);
        }
        let devices = Devices {
            problem,
            of,
            staging: &staging,
        };
        charges_of(
            &mut program,
            problem,
            &charges,
            labels,
            &|here, elsewhere, device| devices.holds(here, device) - devices.holds(elsewhere, device),
        );
        devices.load(&mut program, &charges, period);
        devices.memory(&mut program);
        program.objective = period.expression();
        Self { program, staging }
    }

    /// Reads the chunks of a solution; `None` if its binaries are not whole.
    pub fn assignment(&self, values: &[f64]) -> Option<Assignment> {
        self.staging.assignment(values)
    }

    /// Leaves a solution out: see [`Staging::exclude`].
    pub fn exclude(&mut self, at: usize, assignment: &Assignment) {
        self.staging.exclude(&mut self.program, at, assignment);
    }
}

/// What is linear in where items lie.
struct Devices<'a> {
    problem: &'a Problem,
    of: &'a VirtualStages,
    staging: &'a Staging,
}

impl Devices<'_> {
    /// Whether a device holds an item: the sum over its chunks.
    fn holds(&self, item: usize, device: usize) -> Expression {
        let mut holds = Expression::default();
        self.add(&mut holds, 1.0, item, device);
        holds
    }

    /// `expression += coefficient` if the device holds the item.
    fn add(&self, expression: &mut Expression, coefficient: f64, item: usize, device: usize) {
        for &chunk in &self.of.chunks_of[device] {
            self.staging.add_x(expression, coefficient, item, chunk);
        }
    }

    /// Families `load`, `link_in` and `link_out`: no device and no link of one is busier than the period.
    fn load(&self, program: &mut Program, charges: &Charges, period: Column) {
        for (family, resource) in RESOURCES {
            for device in 0..self.of.devices {
                let busy = self.busy(charges, device, program.scale_ns, resource);
                program.add_row(format!("{family}[{}]", device + 1), busy, period.expression());
            }
        }
    }

    /// What a device is busy with, in units of `scale_ns`.
    fn busy(&self, charges: &Charges, device: usize, scale_ns: f64, resource: Resource) -> Expression {
        let mut busy = Expression::default();
        let scaled = |cost: &StageCost| resource(&cost.both()) as f64 / scale_ns;
        for item in 0..self.problem.items.len() {
            let mut alone = StageCost::default();
            alone.add_item(self.problem, item);
            let work = scaled(&alone);
            if work > 0.0 {
                self.add(&mut busy, work, item, device);
            }
        }
        add_transfers(&mut busy, self.problem, charges, device, scaled);
        busy
    }

    /// Family `memory`: what a device holds with any of the largest counts in flight fits it. Left out where no device could ever be full.
    fn memory(&self, program: &mut Program) {
        let Some(limit) = self.problem.settings.memory_limit else {
            return;
        };
        if self.problem.memory_never_binds() {
            return;
        }
        // Units of the limit let the rows' numbers lie near 1; a limit of 0 bytes keeps bytes.
        let unit = limit.max(1) as f64;
        for (device, largest) in self.of.in_flight.iter().enumerate() {
            for (at, counts) in largest.iter().enumerate() {
                let held = self.held(device, counts, unit);
                let name = format!("memory[{},{}]", device + 1, at + 1);
                program.add_row(name, held, (limit as f64 / unit).into());
            }
        }
    }

    /// What a device holds with so many micro-batches of its chunks in flight, in units of so many bytes.
    fn held(&self, device: usize, counts: &[u64], unit: f64) -> Expression {
        let mut held = Expression::default();
        for (&chunk, count) in self.of.chunks_of[device].iter().zip(counts) {
            for (i, item) in self.problem.items.iter().enumerate() {
                let bytes = (item.base_bytes + count * item.stash_bytes) as f64;
                self.staging.add_x(&mut held, bytes / unit, i, chunk);
            }
        }
        held
    }
}

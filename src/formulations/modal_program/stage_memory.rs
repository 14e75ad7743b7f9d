//! What a device of each stage holds.

use good_lp::{Expression, variable};

use super::Builder;
use super::choices::Space;

impl Builder<'_> {
    /// Families `stage_memory`, `workspace` and `host_memory`: what a device holds fits it, and what it has at its host that.
    ///
    /// Bytes are whole but for what replicas share out, which is rounded up: a sum is at most a limit exactly if it is before it is rounded.
    pub(super) fn memory(&mut self) {
        if !Space::new(self.problem, self.modes).is_limited() {
            return;
        }
        for k in 0..self.stages.len() {
            for c in 0..self.stages[k].choices.len() {
                self.memory_of(k, c);
                self.host_memory_of(k, c);
            }
        }
    }

    /// What lies at the host, for one choice of a stage.
    fn host_memory_of(&mut self, k: usize, c: usize) {
        let stage = &self.stages[k];
        let choice = &stage.choices[c];
        let limit = self.modes.host_memory_bytes(choice.mode.degree);
        let runs = stage.items.iter().filter_map(|item| item[c].as_ref());
        let ways = runs.flat_map(|ran| ran.layers.iter().flatten());
        let ways: Vec<_> = ways.filter(|(_, way)| way.host_bytes > 0).collect();
        if limit == u64::MAX || ways.is_empty() {
            return;
        }
        let unit = limit.max(1) as f64;
        let mut held = Expression::default();
        for (column, way) in ways {
            column.add_to(&mut held, choice.in_flight as f64 * way.host_bytes as f64 / unit);
        }
        // Bytes are whole: midway to the next sum, rounding of doubles decides nothing.
        let mut room = Expression::default();
        stage.runs[c].add_to(&mut room, (limit as f64 + 0.5) / unit);
        let name = format!("host_memory[{}]", choice.name);
        self.program.add_row(name, held, room);
    }

    /// The same of a device, for one choice of a stage.
    fn memory_of(&mut self, k: usize, c: usize) {
        let limit = self.modes.memory_bytes(self.stages[k].choices[c].mode.degree);
        if limit == u64::MAX {
            return;
        }
        // Units of the limit let the rows' numbers lie near 1; a limit of 0 bytes keeps bytes.
        let unit = limit.max(1) as f64;
        let stage = &self.stages[k];
        let choice = &stage.choices[c];
        let turns = choice.mode.replicas as f64;
        let mut held = Expression::default();
        let mut largest = None;
        for (item, label) in self.labels.iter().enumerate() {
            let own = &self.modes.items[item][choice.mode.degree];
            let (Some(ran), Some(own)) = (&stage.items[item][c], own) else {
                continue;
            };
            ran.on.add_to(&mut held, own.shared_bytes as f64 / turns / unit);
            for (l, ways) in ran.layers.iter().enumerate() {
                let mut needed = Expression::default();
                for (column, way) in ways {
                    let bytes = way.held_bytes as f64 + choice.in_flight as f64 * way.stash_bytes as f64;
                    column.add_to(&mut held, bytes / unit);
                    column.add_to(&mut needed, way.workspace_bytes as f64 / unit);
                }
                if ways.iter().all(|(_, way)| way.workspace_bytes == 0) {
                    continue;
                }
                let largest = *largest.get_or_insert_with(|| {
                    let name = format!("largest_workspace[{}]", choice.name);
                    let column = self.program.declare(variable().min(0.0).name(name));
                    column.add_to(&mut held, 1.0);
                    column
                });
                let name = format!("workspace[{label},{},{}]", l + 1, choice.name);
                self.program.add_row(name, needed, largest.expression());
            }
        }
        // The next larger sum lies a share of a byte above: midway to it, rounding of doubles decides nothing.
        let mut room = Expression::default();
        stage.runs[c].add_to(&mut room, (limit as f64 + 0.5 / turns) / unit);
        let name = format!("stage_memory[{}]", choice.name);
        self.program.add_row(name, held, room);
    }
}

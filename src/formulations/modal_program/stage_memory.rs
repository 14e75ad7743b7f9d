//! What a device of each stage holds.

use good_lp::{Expression, variable};

use super::Builder;
use super::choices::Space;

impl Builder<'_> {
    /// Families `stage_memory` and `workspace`: what a device holds fits it.
    ///
    /// Bytes are whole but for what replicas share out, which is rounded up: a sum is at most a limit exactly if it is before it is rounded.
    pub(super) fn memory(&mut self) {
        if !Space::new(self.problem, self.modes).is_limited() {
            return;
        }
        let limit = self.modes.memory_bytes;
        // Units of the limit let the rows' numbers lie near 1; a limit of 0 bytes keeps bytes.
        let unit = limit.max(1) as f64;
        // The next larger sum lies a share of a byte above: midway to it, rounding of doubles decides nothing.
        let shares = self.modes.replicas.iter().max().unwrap_or(&1);
        let margin = 0.5 / *shares as f64;
        for k in 0..self.stages.len() {
            let mut held = self.held(k, unit);
            self.workspace(k, unit, &mut held);
            let room = Expression::from((limit as f64 + margin) / unit);
            self.program
                .add_row(format!("stage_memory[{}]", k + 1), held, room);
        }
    }

    /// Bytes held once, for each micro-batch in flight, and as shares.
    fn held(&self, k: usize, unit: f64) -> Expression {
        let stage = &self.stages[k];
        let mut held = Expression::default();
        for (item, of_item) in stage.items.iter().enumerate() {
            for (choice, ran) in stage.choices.iter().zip(of_item) {
                let (Some(ran), Some(own)) = (ran, &self.modes.items[item][choice.mode.degree]) else {
                    continue;
                };
                let shared = own.shared_bytes as f64 / choice.mode.replicas as f64;
                ran.on.add_to(&mut held, shared / unit);
                for (column, way) in ran.layers.iter().flatten() {
                    let bytes = way.held_bytes as f64 + choice.in_flight as f64 * way.stash_bytes as f64;
                    column.add_to(&mut held, bytes / unit);
                }
            }
        }
        held
    }

    /// Family `workspace`: a device has room for the largest workspace of its layers.
    fn workspace(&mut self, k: usize, unit: f64, held: &mut Expression) {
        let stage = &self.stages[k];
        let mut largest = None;
        for (item, label) in self.labels.iter().enumerate() {
            let layers = stage.items[item].iter().flatten().map(|ran| ran.layers.len());
            for l in 0..layers.max().unwrap_or(0) {
                let mut needed = Expression::default();
                let mut most = 0;
                for ran in stage.items[item].iter().flatten() {
                    for (column, way) in ran.layers.get(l).into_iter().flatten() {
                        column.add_to(&mut needed, way.workspace_bytes as f64 / unit);
                        most = most.max(way.workspace_bytes);
                    }
                }
                if most == 0 {
                    continue;
                }
                let largest = *largest.get_or_insert_with(|| {
                    let bytes = variable().min(0.0).name(format!("largest_workspace[{}]", k + 1));
                    let column = self.program.declare(bytes);
                    column.add_to(held, 1.0);
                    column
                });
                let name = format!("workspace[{label},{},{}]", l + 1, k + 1);
                self.program.add_row(name, needed, largest.expression());
            }
        }
    }
}

//! What can be said of all plans at once.

use super::{INSIDE, LEVELS, LayerWays, Modes, PhaseShares, StageMode, Way};
use crate::model::units::gcd;

impl Modes {
    /// Every plan's period is at most this, in ticks.
    pub fn longest(&self) -> u64 {
        let of_degrees = |item: usize, of: &dyn Fn(&super::ModalItem) -> u64| {
            self.items[item].iter().flatten().map(of).max().unwrap_or(0)
        };
        let slowest = |layer: &LayerWays| layer.ways.iter().map(Way::time).max().unwrap_or(0);
        let items = 0..self.items.len();
        let work = items
            .clone()
            .map(|item| of_degrees(item, &|item| item.layers.iter().map(slowest).sum()));
        let of_layers = self.together().map(slowest).sum::<u64>();
        let once = [0, 1, 2].map(|of| {
            let most = items
                .clone()
                .map(|item| of_degrees(item, &|item| item.once_bytes[of]));
            most.sum()
        });
        let crossing = self.transfers.iter().map(|transfer| {
            let beside = transfer.leaving.iter().chain(&transfer.entering).flatten();
            let most = transfer.ticks.iter().max().unwrap_or(&0) + beside.flatten().max().unwrap_or(&0);
            most * (1 + transfer.consumers.len()) as u64
        });
        let rings = self
            .kinds()
            .flat_map(|mode| (0..LEVELS).map(move |level| self.synchronization(once, &mode, level)));
        let tables = self.copies.iter().map(|copy| {
            let sums = copy.tables.iter().flat_map(|table| table.sum_ticks);
            sums.max().unwrap_or(0)
        });
        let slowest = self.shares.as_ref().map_or(1.0, PhaseShares::slowest);
        let work = ((work.sum::<u64>() + of_layers) as f64 * slowest).ceil() as u64;
        work + crossing.sum::<u64>() + rings.max().unwrap_or(0) + tables.sum::<u64>()
    }

    /// What every plan's period is a multiple of, in ticks: what all times have in common, where replicas divide it and exchange nothing.
    pub fn quantum(&self) -> u64 {
        let items = || self.items.iter().flatten().flatten();
        let moves_once = |mode: StageMode| {
            self.degrees[mode.degree].at_host
                || self.ring(&mode, self.copies_of_weights(&mode), INSIDE).is_some()
        };
        let exchanges = items().any(|item| item.once_bytes != [0; 3]) && self.kinds().any(moves_once);
        let layers = items().flat_map(|item| &item.layers);
        let ways = layers.flat_map(|layer| &layer.ways);
        let work = ways.flat_map(|way| [way.forward, way.backward, way.collective]);
        let moved = self.transfers.iter().flat_map(|transfer| {
            let beside = transfer.leaving.iter().chain(&transfer.entering).flatten();
            beside.chain([&transfer.ticks]).flatten().copied()
        });
        let common = work.chain(moved).fold(0, gcd);
        let mut replicas = self.replicas.iter().map(|&d| d as u64);
        let turns = replicas.try_fold(1u64, |all, d| all.checked_mul(d / gcd(all, d)));
        match turns {
            Some(turns)
                if !exchanges
                    && self.shares.is_none()
                    && !self.has_links
                    && self.copies.is_empty()
                    && common > 0
                    && common.is_multiple_of(turns) =>
            {
                common / turns
            }
            _ => 1,
        }
    }
}

//! What came of a policy, from its slots.

use super::policies::Policy;
use super::record::{SlotRecord, Summary, rounded};
use super::scenario::Scenario;
use crate::formulations::horizon::BUDGET_TOLERANCE;

/// Sums up the slots of a policy.
pub(super) fn summary(scenario: &Scenario, policy: &Policy, records: &[SlotRecord]) -> Summary {
    let served: Vec<&SlotRecord> = records.iter().filter(|record| record.time_ms.is_some()).collect();
    let mean = |total: f64, count: usize| rounded(total / count.max(1) as f64);
    let average_costs: Vec<f64> = (0..scenario.budgets.len())
        .map(|i| mean(records.iter().map(|record| record.costs[i]).sum(), records.len()))
        .collect();
    let gaps = || {
        served
            .iter()
            .map(|record| (record.value / record.optimum - 1.0).max(0.0))
    };
    let mut kept = average_costs.iter().zip(&scenario.per_slot);
    let last = records.last().map(|last| last.queues.iter());
    Summary {
        policy: policy.name.into(),
        served: served.len(),
        average_time_ms: mean(
            served.iter().filter_map(|record| record.time_ms).sum(),
            served.len(),
        ),
        keeps_budgets: kept.all(|(cost, budget)| *cost <= budget * (1.0 + BUDGET_TOLERANCE)),
        average_costs,
        queues_per_slot: last
            .map(|queues| queues.map(|queue| mean(*queue, records.len())).collect())
            .unwrap_or_default(),
        moves: served.iter().filter(|record| record.moving_ms > 0.0).count(),
        mean_gap: mean(gaps().sum(), served.len()),
        largest_gap: rounded(gaps().fold(0.0, f64::max)),
    }
}

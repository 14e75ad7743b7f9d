//! Small changes of plans on workers that differ, or not, each simulated.

use crate::exact::incumbent::Incumbent;
use crate::problem::cost::allocation::Allocation;

/// Changes the best plan while that makes it better: an item moves to the stage before or behind, two stages change their devices, one
/// takes others, one goes into the next, or what is behind an item becomes a stage of its own.
pub(super) fn improve(incumbent: &mut Incumbent) {
    loop {
        let Some(best) = incumbent.plan.clone() else {
            return;
        };
        let choices = incumbent
            .problem
            .workers
            .as_ref()
            .map_or(1, |workers| workers.choices.len());
        let is_better = changes(&best, incumbent.problem.items.len(), choices).any(|plan| {
            incumbent.control.must_stop().is_none() && !incumbent.is_over() && incumbent.offer(plan)
        });
        if !is_better {
            return;
        }
    }
}

/// Plans that differ from one in one change; not all of them keep to order, memory and stock.
fn changes(of: &Allocation, items: usize, choices: usize) -> impl Iterator<Item = Allocation> + '_ {
    let stages = of.assignment.iter().max().map_or(0, |last| last + 1);
    let differ = !of.choices.is_empty();
    let moved = (0..items).flat_map(move |item| {
        let beside = [of.assignment[item].checked_sub(1), Some(of.assignment[item] + 1)];
        let beside = beside.into_iter().flatten().filter(move |&to| to < stages);
        beside.map(move |to| {
            let mut plan = of.clone();
            plan.assignment[item] = to;
            without_empty(plan, stages)
        })
    });
    let pairs = (0..stages).flat_map(move |one| (one + 1..stages).map(move |other| (one, other)));
    let swapped = pairs.filter(move |_| differ).map(|(one, other)| {
        let mut plan = of.clone();
        plan.choices.swap(one, other);
        plan
    });
    let each_choice = move || 0..if differ { choices } else { 0 };
    let retaken = (0..stages).flat_map(move |stage| {
        each_choice().map(move |choice| {
            let mut plan = of.clone();
            plan.choices[stage] = choice;
            plan
        })
    });
    let joined = (1..stages).flat_map(move |stage| {
        // On the devices of either.
        [stage, stage - 1]
            .into_iter()
            .filter(move |_| differ || stage > 0)
            .map(move |kept| {
                let mut plan = of.clone();
                let own = plan.assignment.iter_mut().filter(|at| **at >= stage);
                own.for_each(|at| *at -= 1);
                if differ {
                    plan.choices.remove(stage + (stage - 1) - kept);
                }
                plan
            })
    });
    // Items are numbered in a topological order.
    let split = (1..items)
        .filter(move |&item| of.assignment[..item].contains(&of.assignment[item]))
        .flat_map(move |item| {
            let stage = of.assignment[item];
            let options = if differ { choices } else { 1 };
            (0..options).map(move |choice| {
                let mut plan = of.clone();
                for (at, to) in plan.assignment.iter_mut().enumerate() {
                    *to += usize::from(*to > stage || (*to == stage && at >= item));
                }
                if differ {
                    plan.choices.insert(stage + 1, choice);
                }
                without_empty(plan, stages + 1)
            })
        });
    moved.chain(swapped).chain(retaken).chain(joined).chain(split)
}

/// The same plan without stages that hold nothing, of so many.
fn without_empty(mut plan: Allocation, stages: usize) -> Allocation {
    let is_used: Vec<bool> = (0..stages)
        .map(|stage| plan.assignment.contains(&stage))
        .collect();
    let before = |stage: usize| is_used[..stage].iter().filter(|&&is_used| is_used).count();
    let places: Vec<usize> = (0..stages).map(before).collect();
    plan.assignment
        .iter_mut()
        .for_each(|stage| *stage = places[*stage]);
    let mut is_used = is_used.iter();
    plan.choices.retain(|_| is_used.next() == Some(&true));
    plan
}

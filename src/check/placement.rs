//! What accepts a placement: its flow is held against what machines and links carry, and no more may pass.

use std::collections::{BTreeMap, VecDeque};

use crate::problem::placement::{Flow, Held, Placement, Serving};

/// What is wrong with a placement, if anything: a sentence. That its flow is the most is seen from a path on which more would pass, of which
/// there is none (L. R. Ford and D. R. Fulkerson, *Maximal flow through a network*, 1956). Time `O(machines + flows)` but for that path,
/// which takes `O(machines²)`.
pub fn placement_fault(serving: &Serving, placement: &Placement) -> Option<String> {
    let held = &placement.held;
    let bad = held.iter().find(|own| !holds(serving, own));
    if let Some(own) = bad {
        return Some(format!("no machine can hold {own:?}"));
    }
    for (kind, machines) in serving.kinds.iter().enumerate() {
        let used = held.iter().filter(|own| own.kind == kind).count();
        if used > machines.count {
            return Some(format!(
                "{used} machines of `{}`, of which there are {}",
                machines.name, machines.count
            ));
        }
    }
    let mut passed = vec![(0_u64, 0_u64); held.len()];
    let mut links = BTreeMap::new();
    for flow in &placement.flows {
        match carries(serving, held, (flow.from, flow.to)) {
            Some(carries) if flow.rate <= carries => {}
            _ => return Some(format!("no link carries {flow:?}")),
        }
        if links.insert((flow.from, flow.to), flow.rate).is_some() {
            return Some(format!("a link twice: {flow:?}"));
        }
        add(&mut passed, flow);
    }
    for (own, &(into, out)) in held.iter().zip(&passed) {
        if into != out || into > serving.kinds[own.kind].rates[own.layers - 1] {
            return Some(format!("{own:?} takes {into} and passes {out}"));
        }
    }
    let total = |is_end: fn(&Flow) -> bool| {
        placement
            .flows
            .iter()
            .filter(|flow| is_end(flow))
            .map(|flow| flow.rate)
            .sum::<u64>()
    };
    let (started, ended) = (total(|flow| flow.from.is_none()), total(|flow| flow.to.is_none()));
    if started != placement.rate || ended != placement.rate {
        return Some(format!("{started} start and {ended} end, not {}", placement.rate));
    }
    may_pass_more(serving, held, &links, &passed).then(|| "more could pass".into())
}

fn holds(serving: &Serving, own: &Held) -> bool {
    let rate = serving
        .kinds
        .get(own.kind)
        .and_then(|kind| kind.rates.get(own.layers.checked_sub(1)?));
    rate.is_some()
        && own
            .start
            .checked_add(own.layers)
            .is_some_and(|end| end <= serving.layers)
}

fn add(passed: &mut [(u64, u64)], flow: &Flow) {
    if let Some(to) = flow.to {
        passed[to].0 += flow.rate;
    }
    if let Some(from) = flow.from {
        passed[from].1 += flow.rate;
    }
}

/// What the link between two ends carries, if tokens may take it: they go on where they are.
fn carries(serving: &Serving, held: &[Held], ends: (Option<usize>, Option<usize>)) -> Option<u64> {
    let at = |machine: usize| held.get(machine);
    match ends {
        (None, None) => None,
        (None, Some(to)) => {
            let to = at(to)?;
            (to.start == 0).then_some(serving.kinds[to.kind].from_source)
        }
        (Some(from), None) => {
            let from = at(from)?;
            (from.start + from.layers == serving.layers).then_some(serving.kinds[from.kind].to_sink)
        }
        (Some(from), Some(to)) => {
            let (from, to) = (at(from)?, at(to)?);
            (from.start + from.layers == to.start).then_some(serving.between[from.kind][to.kind])
        }
    }
}

/// Whether a path leads from the coordinator, over what is free or can be taken back, to it again. Each machine has two sides: tokens that
/// come in, and tokens that go out.
fn may_pass_more(
    serving: &Serving,
    held: &[Held],
    links: &BTreeMap<(Option<usize>, Option<usize>), u64>,
    passed: &[(u64, u64)],
) -> bool {
    let sent = |from: Option<usize>, to: Option<usize>| links.get(&(from, to)).copied().unwrap_or(0);
    let is_free = |from: Option<usize>, to: Option<usize>| {
        carries(serving, held, (from, to)).is_some_and(|carries| sent(from, to) < carries)
    };
    let mut seen = vec![[false; 2]; held.len()];
    let mut queue: VecDeque<(usize, usize)> = VecDeque::new();
    let mut see = |queue: &mut VecDeque<(usize, usize)>, machine: usize, side: usize| {
        if !std::mem::replace(&mut seen[machine][side], true) {
            queue.push_back((machine, side));
        }
    };
    for to in (0..held.len()).filter(|&to| is_free(None, Some(to))) {
        see(&mut queue, to, 0);
    }
    while let Some((machine, side)) = queue.pop_front() {
        let through = passed[machine].0;
        let others = 0..held.len();
        if side == 0 {
            if through < serving.kinds[held[machine].kind].rates[held[machine].layers - 1] {
                see(&mut queue, machine, 1);
            }
            for other in others.filter(|&other| sent(Some(other), Some(machine)) > 0) {
                see(&mut queue, other, 1);
            }
            continue;
        }
        if is_free(Some(machine), None) {
            return true;
        }
        if through > 0 {
            see(&mut queue, machine, 0);
        }
        for other in others.filter(|&other| is_free(Some(machine), Some(other))) {
            see(&mut queue, other, 0);
        }
    }
    false
}

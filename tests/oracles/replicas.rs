//! Runs of stages whose replicas are devices of their own, by going through written lists: no events, no lanes, no leads.

/// A stage: what a replica takes for a forward and for a backward pass, and how many there are.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    pub forward: u64,
    pub backward: u64,
    pub replicas: usize,
}

/// An operation: whether it is a backward pass, and its micro-batch.
type Operation = (bool, usize);

/// Start and end of every pass, by stage, direction and micro-batch.
pub type Run = Vec<[Vec<(u64, u64)>; 2]>;

/// What every replica does, one after the other.
///
/// `gpipe`: its micro-batches forwards, then backwards from the last one on. Else so many forward passes as there are replicas from here
/// to the end for each of the stage's own, then one backward and one forward pass in turn.
pub fn list(
    stages: &[Stage],
    stage: usize,
    replica: usize,
    micro_batches: usize,
    gpipe: bool,
) -> Vec<Operation> {
    let own: Vec<usize> = (replica..micro_batches).step_by(stages[stage].replicas).collect();
    let behind: usize = stages[stage..].iter().map(|stage| stage.replicas).sum();
    let first = behind.div_ceil(stages[stage].replicas).min(own.len());
    let forward = |m: &usize| (false, *m);
    let backward = |m: &usize| (true, *m);
    if gpipe {
        return own
            .iter()
            .map(forward)
            .chain(own.iter().rev().map(backward))
            .collect();
    }
    let mut list: Vec<Operation> = own[..first].iter().map(forward).collect();
    for (at, m) in own.iter().enumerate() {
        list.push(backward(m));
        list.extend(own.get(first + at).map(forward));
    }
    list
}

/// Begin and end of what has run, by micro-batch.
type Times = Vec<Option<(u64, u64)>>;

/// The run of all of them; `None` where replicas wait for each other.
pub fn run(stages: &[Stage], micro_batches: usize, gpipe: bool) -> Option<Run> {
    let mut times: Vec<[Times; 2]> =
        vec![[vec![None; micro_batches], vec![None; micro_batches]]; stages.len()];
    let mut workers = Vec::new();
    for (k, stage) in stages.iter().enumerate() {
        workers.extend((0..stage.replicas).map(|r| (k, list(stages, k, r, micro_batches, gpipe), 0, 0u64)));
    }
    let mut is_moving = true;
    while is_moving {
        is_moving = false;
        for (k, list, at, free) in &mut workers {
            while let Some(&(is_backward, m)) = list.get(*at) {
                let k = *k;
                let before = match (is_backward, k) {
                    (false, 0) => Some((0, 0)),
                    (false, _) => times[k - 1][0][m],
                    (true, _) if k + 1 == stages.len() => times[k][0][m],
                    (true, _) => times[k + 1][1][m],
                };
                let Some((_, ready)) = before else { break };
                let start = ready.max(*free);
                *free = start
                    + if is_backward {
                        stages[k].backward
                    } else {
                        stages[k].forward
                    };
                times[k][usize::from(is_backward)][m] = Some((start, *free));
                *at += 1;
                is_moving = true;
            }
        }
    }
    let whole = |passes: [Vec<Option<(u64, u64)>>; 2]| {
        let [forward, backward] = passes.map(|all| all.into_iter().collect::<Option<Vec<_>>>());
        Some([forward?, backward?])
    };
    times.into_iter().map(whole).collect()
}

/// The run of stages whose replicas run forward and backward passes beside each other and move nothing: each has at most twice as many micro-batches in flight as
/// it waits turns for the first to come back.
pub fn run_both_at_once(stages: &[Stage], micro_batches: usize, trains: bool) -> Run {
    let mut run: Run = vec![[Vec::new(), Vec::new()]; stages.len()];
    for m in 0..micro_batches {
        let mut ready = 0;
        for (k, stage) in stages.iter().enumerate() {
            let behind: usize = stages[k..].iter().map(|stage| stage.replicas).sum();
            let in_flight = 2 * behind.div_ceil(stage.replicas);
            let end = |pass: usize, before: usize| {
                let other = m.checked_sub(before * stage.replicas)?;
                run[k][pass].get(other).map(|&(_, end)| end)
            };
            let start = [Some(ready), end(0, 1), end(1, in_flight)];
            let start = start.into_iter().flatten().max().unwrap_or(0);
            ready = start + stage.forward;
            run[k][0].push((start, ready));
        }
        for (k, stage) in stages.iter().enumerate().rev().filter(|_| trains) {
            let before = m.checked_sub(stage.replicas).map(|other| run[k][1][other].1);
            let start = ready.max(before.unwrap_or(0));
            ready = start + stage.backward;
            run[k][1].push((start, ready));
        }
    }
    run
}

/// When the last pass ends.
pub fn makespan(run: &Run) -> u64 {
    let passes = run.iter().flatten().flatten();
    passes.map(|&(_, end)| end).max().unwrap_or(0)
}

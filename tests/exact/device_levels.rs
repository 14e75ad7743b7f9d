//! Levels of ideals and devices against every plan of small random lines.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::device_levels::line::{Line, LineError, tasks};
use stagecut::device_levels::narrow::narrow;
use stagecut::device_levels::search::{Outcome, search};

/// A line and its stations.
fn random_line(seed: u64) -> (Line, usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (n, classes) = (rng.random_range(1..=7), rng.random_range(1..=3));
    let density = rng.random_range(0..4);
    let most = rng.random_range(1..=20);
    let mut time = || rng.random_ratio(5, 6).then(|| rng.random_range(0..=most));
    let times: Vec<Vec<Option<u64>>> = (0..classes).map(|_| (0..n).map(|_| time()).collect()).collect();
    let counts: Vec<usize> = (0..classes).map(|_| rng.random_range(0..3)).collect();
    let successors: Vec<Vec<usize>> = (0..n)
        .map(|i| (i + 1..n).filter(|_| rng.random_range(0..4) < density).collect())
        .collect();
    let line = Line::new(&times, &counts, &successors).unwrap();
    (line, rng.random_range(0..5))
}

/// Least period by a recursion over all next stations, maximal or not.
fn least(
    line: &Line,
    done: u128,
    free: &[usize],
    left: usize,
    memo: &mut HashMap<(u128, Vec<usize>, usize), Option<u64>>,
) -> Option<u64> {
    let rest = line.all() & !done;
    if rest == 0 {
        return Some(0);
    }
    if left == 0 {
        return None;
    }
    if let Some(&known) = memo.get(&(done, free.to_vec(), left)) {
        return known;
    }
    let mut best: Option<u64> = None;
    let mut set = rest;
    while set != 0 {
        if tasks(set).all(|i| line.before[i] & !(done | set) == 0) {
            for class in (0..free.len()).filter(|&class| free[class] > 0) {
                let mut fewer = free.to_vec();
                fewer[class] -= 1;
                let period = line
                    .load(class, set)
                    .and_then(|load| Some(load.max(least(line, done | set, &fewer, left - 1, memo)?)));
                best = best.into_iter().chain(period).min();
            }
        }
        set = (set - 1) & rest;
    }
    memo.insert((done, free.to_vec(), left), best);
    best
}

fn assert_plan(line: &Line, stations: usize, outcome: &Outcome) {
    let plan = outcome.plan.as_ref().unwrap();
    let sets: Vec<u128> = plan
        .iter()
        .map(|(_, set)| set.iter().fold(0, |sum, &i| sum | 1 << i))
        .collect();
    let mut done = 0;
    for ((class, _), &set) in plan.iter().zip(&sets) {
        assert_eq!(done & set, 0);
        done |= set;
        assert!(tasks(set).all(|i| line.before[i] & !done == 0));
        assert!(line.load(*class, set).unwrap() <= outcome.upper.unwrap());
    }
    assert_eq!(done, line.all());
    assert!(plan.len() <= stations);
    for class in 0..line.classes() {
        assert!(plan.iter().filter(|station| station.0 == class).count() <= line.counts[class]);
    }
}

#[test]
fn agrees_with_all_plans() {
    let mut feasible = 0;
    for seed in 0..6000 {
        let (line, stations) = random_line(seed);
        let best = least(&line, 0, &line.counts, stations, &mut HashMap::new());
        let outcome = search(&line, stations, None, u64::MAX, &|| false);
        assert_eq!(outcome.upper, best, "seed {seed}");
        assert!(outcome.proved(), "seed {seed}");
        if let Some(best) = best {
            feasible += 1;
            assert_plan(&line, stations, &outcome);
            let known = search(&line, stations, Some(best), u64::MAX, &|| false);
            assert!(
                known.proved() && known.plan.is_none() && known.lower == best,
                "seed {seed}"
            );
            let stopped = search(&line, stations, None, 0, &|| true);
            assert!(stopped.lower <= best, "seed {seed}");
        }
    }
    assert!(feasible > 2000, "{feasible}");
}

#[test]
fn narrow_searches_give_plans_and_in_the_end_a_proof() {
    for seed in 0..2000 {
        let (line, stations) = random_line(seed);
        let best = least(&line, 0, &line.counts, stations, &mut HashMap::new());
        let outcome = narrow(&line, stations, u64::MAX, &|| false);
        assert_eq!((outcome.upper, outcome.proved()), (best, true), "seed {seed}");
        let little = narrow(&line, stations, 100, &|| false);
        assert!(little.lower <= best.unwrap_or(u64::MAX), "seed {seed}");
        if little.plan.is_some() {
            assert_plan(&line, stations, &little);
            assert!(little.upper >= best, "seed {seed}");
        }
    }
}

/// A line of 24 tasks and six devices, all of them unlike.
fn unlike_line(seed: u64) -> Line {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (n, devices) = (24, 6);
    let mut time = || rng.random_ratio(9, 10).then(|| rng.random_range(5..=40));
    let times: Vec<Vec<Option<u64>>> = (0..devices).map(|_| (0..n).map(|_| time()).collect()).collect();
    let reach = |i: usize| n.min(i + 7);
    let successors: Vec<Vec<usize>> = (0..n)
        .map(|i| (i + 1..reach(i)).filter(|_| rng.random_ratio(1, 4)).collect())
        .collect();
    Line::new(&times, &vec![1; devices], &successors).unwrap()
}

#[test]
fn windows_keep_plans_and_make_some_shorter() {
    let mut shorter = 0;
    for seed in 0..60 {
        let line = unlike_line(seed);
        let best = search(&line, 6, None, u64::MAX, &|| false);
        // Of these budgets windows have four parts of seven.
        let periods = [300, 3_000, 30_000].map(|budget| {
            let outcome = narrow(&line, 6, budget, &|| false);
            assert!(outcome.lower <= best.upper.unwrap(), "seed {seed}");
            if outcome.plan.is_some() {
                assert_plan(&line, 6, &outcome);
            }
            outcome.upper.unwrap_or(u64::MAX)
        });
        assert!(
            periods.iter().all(|&period| period >= best.upper.unwrap()),
            "seed {seed}"
        );
        shorter += usize::from(periods[2] < periods[0]);
    }
    assert!(shorter > 10, "{shorter}");
}

#[test]
fn the_same_search_twice_gives_the_same_plan() {
    for seed in 0..200 {
        let (line, stations) = random_line(seed);
        let run = || search(&line, stations, None, u64::MAX, &|| false);
        let (first, second) = (run(), run());
        assert_eq!((first.plan, first.work), (second.plan, second.work));
    }
}

#[test]
fn refuses_what_is_no_line() {
    let times = vec![vec![Some(1), Some(1)]];
    assert_eq!(
        Line::new(&times, &[1], &[vec![1], vec![0]]).err(),
        Some(LineError::Shape)
    );
    assert_eq!(
        Line::new(&times, &[1], &[vec![2], vec![]]).err(),
        Some(LineError::Shape)
    );
    assert_eq!(
        Line::new(&times, &[1, 1], &[vec![], vec![]]).err(),
        Some(LineError::Shape)
    );
    assert_eq!(
        Line::new(&[vec![Some(u64::MAX), Some(1)]], &[1], &[vec![], vec![]]).err(),
        Some(LineError::TooLarge)
    );
    assert_eq!(
        Line::new(&[], &[], &vec![vec![]; 129]).err(),
        Some(LineError::TooManyTasks)
    );
}

//! The tree search over ideals against every assignment of small random lines.

use std::cell::Cell;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::exact::ideal_tree::order::Order;
use stagecut::exact::ideal_tree::question::Question;
use stagecut::exact::ideal_tree::search::{Effort, Ending, Known, Outcome, search};
use stagecut::exact::ideal_tree::{Fault, Line};
use stagecut::limits::Answer;

fn random_line(seed: u64) -> Line {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let count = rng.random_range(1..=9);
    let density = rng.random_range(0..6);
    let longest = [2, 5, 12, 1000][rng.random_range(0..4)];
    let mut names: Vec<usize> = (0..count).collect();
    names.shuffle(&mut rng);
    let mut successors = vec![Vec::new(); count];
    for left in 0..count {
        for right in left + 1..count {
            if rng.random_range(0..10) < density {
                successors[names[left]].push(names[right]);
            }
        }
    }
    let times = (0..count).map(|_| rng.random_range(0..=longest)).collect();
    let limited = rng.random_bool(0.5);
    let bytes: Vec<u64> = if limited {
        (0..count).map(|_| rng.random_range(0..9)).collect()
    } else {
        Vec::new()
    };
    let memory = limited.then(|| rng.random_range(6..26));
    Line {
        times,
        bytes,
        successors,
        stations: rng.random_range(1..=4),
        memory,
    }
}

/// The least cycle time over all assignments.
fn brute_force(line: &Line) -> Option<u64> {
    let count = line.times.len() as u32;
    let total = (line.stations as u64).pow(count);
    (0..total)
        .map(|mut code| {
            let mut assignment = vec![0; count as usize];
            for station in &mut assignment {
                *station = (code % line.stations as u64) as usize;
                code /= line.stations as u64;
            }
            assignment
        })
        .filter(|assignment| line.allows(assignment))
        .map(|assignment| line.cycle_time(&assignment))
        .min()
}

#[test]
fn finds_the_least_cycle_time() {
    for seed in 0..6_000 {
        let line = random_line(seed);
        if (line.stations as u64).pow(line.times.len() as u32) > 30_000 && seed % 10 != 0 {
            continue;
        }
        let best = brute_force(&line);
        let outcome =
            search(&line, &Known::default(), Effort::default(), &|| false).expect("the line is well-formed");
        assert_eq!(outcome.upper, best, "seed {seed}: {line:?}");
        let expected = if best.is_some() {
            Ending::Proved
        } else {
            Ending::NoPlan
        };
        assert_eq!(outcome.stopped_by, expected, "seed {seed}");
        if let Some(plan) = outcome.assignment {
            assert!(line.allows(&plan), "seed {seed}");
            assert_eq!(outcome.lower, line.cycle_time(&plan), "seed {seed}");
        }
    }
}

/// The least cycle time of a line without memory limits, by dynamic programming over closed sets of tasks.
fn over_closed_sets(line: &Line) -> u64 {
    let count = line.times.len();
    let time = |set: usize| -> u64 {
        (0..count)
            .filter(|task| set >> task & 1 == 1)
            .map(|task| line.times[task])
            .sum()
    };
    let closed: Vec<usize> = (0..1_usize << count)
        .filter(|set| {
            (0..count).all(|task| {
                set >> task & 1 == 1 || line.successors[task].iter().all(|later| set >> later & 1 == 0)
            })
        })
        .collect();
    let times: Vec<u64> = closed.iter().map(|set| time(*set)).collect();
    let mut least = times.clone();
    for _ in 1..line.stations {
        least = (0..closed.len())
            .map(|whole| {
                let parts = (0..=whole).filter(|part| closed[*part] & !closed[whole] == 0);
                parts
                    .map(|part| least[part].max(times[whole] - times[part]))
                    .min()
                    .unwrap_or(u64::MAX)
            })
            .collect();
    }
    least.last().copied().unwrap_or(0)
}

/// A line of 10 to 13 tasks in 2 to 6 stations.
fn larger_line(seed: u64) -> Line {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let count = rng.random_range(10..=13);
    let density = rng.random_range(10..40);
    let longest = [4, 9, 30, 1000][rng.random_range(0..4)];
    let mut successors = vec![Vec::new(); count];
    for (left, after) in successors.iter_mut().enumerate() {
        after.extend((left + 1..count).filter(|_| rng.random_range(0..100) < density));
    }
    let times = (0..count).map(|_| rng.random_range(1..=longest)).collect();
    Line {
        times,
        successors,
        stations: rng.random_range(2..=6),
        ..Default::default()
    }
}

#[test]
fn agrees_with_dynamic_programming_over_closed_sets() {
    for seed in 0..1_500 {
        let line = larger_line(seed);
        let outcome =
            search(&line, &Known::default(), Effort::default(), &|| false).expect("the line is well-formed");
        assert_eq!(
            outcome.upper,
            Some(over_closed_sets(&line)),
            "seed {seed}: {line:?}"
        );
        assert_eq!(outcome.stopped_by, Ending::Proved, "seed {seed}");
    }
}

#[test]
fn a_question_stopped_again_and_again_gets_the_same_answer() {
    for seed in 0..400 {
        let line = larger_line(seed);
        let best = over_closed_sets(&line);
        let orders = [false, true].map(|backwards| Order::new(&line, backwards).expect("no cycle"));
        for limit in best.saturating_sub(3)..best + 2 {
            let Some(mut question) = Question::new(&orders, limit, 1 << 20, 3) else {
                assert!(limit < best, "seed {seed}");
                continue;
            };
            let (mut work, asked) = (1, Cell::new(seed));
            let answer = loop {
                let stop = || {
                    asked.set(asked.get() + 1);
                    asked.get() % 7 == 0
                };
                match question.run(&orders, work, &stop) {
                    Answer::Undecided => work += 1,
                    answer => break answer,
                }
            };
            assert_eq!(answer.is_none(), limit < best, "seed {seed}, cycle time {limit}");
        }
    }
}

/// Searches within so many bytes.
fn solve(line: &Line, bytes: usize) -> Result<Outcome, Fault> {
    let effort = Effort {
        bytes,
        ..Default::default()
    };
    search(line, &Known::default(), effort, &|| false)
}

#[test]
fn bad_lines_are_told() {
    let fault = |line: Line| solve(&line, 1 << 20).err();
    let line = Line {
        times: vec![1, 2],
        successors: vec![vec![1], vec![0]],
        stations: 2,
        ..Default::default()
    };
    assert_eq!(fault(line.clone()), Some(Fault::Cycle));
    let without_stations = Line {
        stations: 0,
        ..line.clone()
    };
    assert_eq!(fault(without_stations), Some(Fault::Stations));
    let without_a_time = Line {
        times: vec![1],
        ..line.clone()
    };
    assert_eq!(fault(without_a_time), Some(Fault::Shape));
    let endless = Line {
        times: vec![1, u64::MAX],
        ..line
    };
    assert_eq!(fault(endless), Some(Fault::TooLarge));
}

#[test]
fn a_line_without_tasks_takes_no_time() {
    let line = Line {
        stations: 3,
        ..Default::default()
    };
    let empty = solve(&line, 1 << 20).expect("no tasks are well-formed");
    assert_eq!(
        (empty.upper, empty.lower, empty.stopped_by),
        (Some(0), 0, Ending::Proved)
    );
}

#[test]
fn small_memory_leaves_right_bounds() {
    for seed in 0..300 {
        let line = larger_line(seed);
        let best = over_closed_sets(&line);
        let outcome = solve(&line, 2_000).expect("the line is well-formed");
        assert!(
            outcome.lower <= best && outcome.upper.is_some_and(|upper| upper >= best),
            "seed {seed}"
        );
        assert!(
            matches!(outcome.stopped_by, Ending::Proved | Ending::OutOfMemory),
            "seed {seed}"
        );
    }
}

//! What no policy can beat: the horizon program by hand, and the long run with equal devices counted together.

use crate::common::command::Folder;
use stagecut::control::Control;
use stagecut::formulations::horizon::{Goal, Kind, build};
use stagecut::hybrid::exact::Front;
use stagecut::hybrid::plan::{Layout, Rule, Stage, plan_of};
use stagecut::hybrid::{Reading, Slot};
use stagecut::online::controller::{Asked, Lines, run};
use stagecut::online::known::Known;
use stagecut::online::moving::{Held, moving_ms};
use stagecut::online::policies::POLICIES;
use stagecut::online::record::Line;
use stagecut::online::scenario::Scenario;
use stagecut::online::states::State;
use stagecut::online::stationary::optimum_ms;
use stagecut::online::yardsticks::{Kinds, bound_ms};
use stagecut::solver;

/// Two states, worked by hand: with a budget of 1.5 a slot, one of the two slow slots takes its dear plan.
#[test]
fn the_horizon_program_by_hand() {
    let plans = |slow: f64| vec![(slow, vec![1.0]), (slow / 2.0, vec![2.0])];
    let kinds = [
        Kind {
            slots: 2.0,
            plans: plans(10.0),
        },
        Kind {
            slots: 1.0,
            plans: plans(4.0),
        },
    ];
    let value = |total: f64, goal: Goal| {
        let program = build(&kinds, &[total], goal);
        let scale = program.scale_ns / 1e6;
        let solved = solver::solve(program, None, None, &Control::default(), &|_| {}).expect("it solves");
        solved.bound * scale
    };
    assert!((value(4.5, Goal::WholeSlots) - 19.0).abs() < 1e-6);
    // Half a slot more: a budget of 4.5 buys 1.5 dear plans of the slow slots.
    assert!((value(4.5, Goal::Time) - 16.5).abs() < 1e-6);
    assert!(value(2.0, Goal::WholeSlots).is_infinite());
}

#[test]
fn page_and_code_name_the_same_families() {
    let kinds = [Kind {
        slots: 1.0,
        plans: vec![(1.0, vec![1.0])],
    }];
    let page = include_str!("../../formulations/horizon.md");
    for family in build(&kinds, &[1.0], Goal::WholeSlots).families() {
        assert!(page.contains(&format!("| `{family}` |")), "{family}");
    }
}

const NET: &str = r#"
[network]
layers = [
  { id = "a", forward_ms = 1.0, backward_ms = 2.0, parameter_bytes = 100 },
  { id = "b", forward_ms = 2.0, backward_ms = 4.0, parameter_bytes = 200 },
  { id = "c", forward_ms = 1.5, backward_ms = 3.0, parameter_bytes = 100 },
]
tensors = [
  { producer = "a", consumers = ["b"], bytes = 1000 },
  { producer = "b", consumers = ["c"], bytes = 500 },
]

[cluster]
device_kinds = [{ name = "gpu", count = 3 }]
link = { bandwidth_bytes_per_s = 1e6 }
"#;

const SCENARIO: &str = r#"
instance = "net.toml"
reading = "pipeline-of-groups"
slots = 8
samples = 12
batches_per_slot = 10
time_weight = 0.2

[[budgets]]
name = "dollars"
per_slot = 2.0

[prices]
gpu = { dollars = 1.0 }

[[processes]]
of = "slowdown"
factors = [1.0, 3.0]
transitions = [[0.8, 0.2], [0.4, 0.6]]

[[processes]]
of = "price"
shared = true
factors = [1.0, 2.0]
transitions = [[0.7, 0.3], [0.3, 0.7]]
"#;

/// Swaps of equal devices change no time and no cost: states that are known together have the bound of states that are told
/// apart by device, each with all points of its front.
#[test]
fn swaps_of_equal_devices_change_no_bound() {
    let folder = Folder::with("net.toml", NET);
    folder.write("scenario.toml", SCENARIO);
    let scenario = Scenario::read(&folder.path("scenario.toml")).expect("a scenario");
    let mut known = Known::new(&scenario);
    let (mut together, mut apart) = (Kinds::default(), Vec::<(State, Kind)>::new());
    let mut slots = 0;
    for state in (0..40).flat_map(|seed| scenario.states(8, seed)) {
        slots += 1;
        let (at, plans) = known.plans(&state).expect("few devices");
        together.add(at, 1.0, &plans);
        if let Some((_, kind)) = apart.iter_mut().find(|(other, _)| *other == state) {
            kind.slots += 1.0;
            continue;
        }
        let slot = scenario.slot(&state, 1.0, vec![0.0]);
        let front = Front::new(&slot).expect("few devices");
        let points = front.points();
        let plans = points
            .map(|(n, time_ms)| (time_ms, front.counts.costs(&slot, n)))
            .collect();
        apart.push((state, Kind { slots: 1.0, plans }));
    }
    assert!(together.kinds().len() < apart.len());
    let apart: Vec<Kind> = apart.into_iter().map(|(_, kind)| kind).collect();
    let budget = 2.0 * f64::from(slots);
    let program = build(&apart, &[budget], Goal::Time);
    let scale_ms = program.scale_ns / 1e6 / f64::from(slots);
    let solved = solver::solve(program, None, None, &Control::default(), &|_| {}).expect("it solves");
    let apart_ms = solved.bound * scale_ms;
    let together_ms = bound_ms(&together, &[2.0], slots as usize, &Control::default())
        .expect("it solves")
        .expect("a bound");
    assert!(
        (apart_ms - together_ms).abs() < 1e-7 * apart_ms,
        "{apart_ms} is not {together_ms}"
    );
    // Three devices in 2 states each, one price for all: 4 multisets in 2 states of the market.
    let long_run = scenario.stationary(8).expect("few states");
    assert_eq!(long_run.len(), 8);
    assert!((long_run.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
}

/// Every layout of two devices and three layers.
fn layouts(reading: Reading) -> Vec<Layout> {
    let stage = |first: usize, end: usize, devices: &[usize]| Stage {
        layers: first..end,
        devices: devices.to_vec(),
    };
    let mut layouts = vec![vec![vec![stage(0, 3, &[0])]], vec![vec![stage(0, 3, &[1])]]];
    for cut in 1..3 {
        for (a, b) in [(0, 1), (1, 0)] {
            layouts.push(vec![vec![stage(0, cut, &[a]), stage(cut, 3, &[b])]]);
        }
    }
    layouts.push(match reading {
        Reading::PipelineOfGroups => vec![vec![stage(0, 3, &[0, 1])]],
        Reading::ParallelPipelines => vec![vec![stage(0, 3, &[0])], vec![stage(0, 3, &[1])]],
    });
    layouts
}

/// The least total time of slots from this one on, with moves, of any sequence of layouts that pays at most so much.
fn least_ms(scenario: &Scenario, slots: &[Slot], last: Option<&Layout>, left: f64) -> f64 {
    let Some((slot, rest)) = slots.split_first() else {
        return 0.0;
    };
    let mut least = f64::INFINITY;
    for layout in layouts(slot.reading) {
        let Some(plan) = plan_of(slot, layout, Rule::Best) else {
            continue;
        };
        if plan.costs[0] <= left + 1e-9 {
            let held = last.map(|layout| Held {
                layout,
                stayed: &[true; 2],
            });
            let own_ms = plan.time_ms + moving_ms(scenario, slot, held, &plan.layout);
            let rest_ms = least_ms(scenario, rest, Some(&plan.layout), left - plan.costs[0]);
            least = least.min(own_ms + rest_ms);
        }
    }
    least
}

/// The clairvoyant optimum that pays for its moves, by trying every sequence of layouts, lies between the program's, whose
/// moves are free, and every policy that keeps the budget.
#[test]
fn free_moves_bound_what_pays_for_them() {
    const SLOTS: usize = 5;
    let (mut kept, mut apart) = (0, 0);
    for seed in 0..24 {
        let reading = ["pipeline-of-groups", "parallel-pipelines"][seed as usize % 2];
        let folder = Folder::with("net.toml", NET.replace("count = 3", "count = 2"));
        folder.write(
            "scenario.toml",
            SCENARIO
                .replace("pipeline-of-groups", reading)
                .replace("per_slot = 2.0", "per_slot = 2.2"),
        );
        let scenario = Scenario::read(&folder.path("scenario.toml")).expect("a scenario");
        let asked = Asked {
            policies: POLICIES.iter().collect(),
            slots: SLOTS,
            seed,
            time_weight: 0.2,
        };
        let (mut summaries, mut yardsticks) = (Vec::new(), None);
        let mut write = |line: &Line| {
            match line {
                Line::Summary(summary) => summaries.push(summary.clone()),
                Line::Yardsticks(found) => yardsticks = Some(found.clone()),
                _ => {}
            }
            Ok(())
        };
        let lines = Lines::new(&[], &mut write);
        run(&scenario, &asked, lines, &Control::default(), &|_, _| {}).expect("it runs");
        let free_ms = yardsticks
            .expect("the last line")
            .clairvoyant_ms
            .expect("few slots");
        let states = scenario.states(SLOTS, seed);
        let slots: Vec<Slot> = states
            .iter()
            .map(|state| scenario.slot(state, 1.0, vec![0.0]))
            .collect();
        let paying_ms = least_ms(&scenario, &slots, None, 2.2 * SLOTS as f64) / SLOTS as f64;
        assert!(
            free_ms <= paying_ms * (1.0 + 1e-9),
            "seed {seed}: {free_ms} above {paying_ms}"
        );
        apart += usize::from(free_ms < paying_ms * (1.0 - 1e-9));
        for summary in summaries.iter().filter(|summary| summary.keeps_budgets) {
            let average_ms = summary.average_time_ms;
            assert!(
                paying_ms <= average_ms * (1.0 + 1e-9),
                "seed {seed}: `{}` takes {average_ms}, below {paying_ms}",
                summary.policy
            );
            kept += 1;
        }
    }
    assert!(
        kept > 48 && apart > 4,
        "{kept} policies kept the budget; moves cost something in {apart} runs"
    );
}

/// Column generation has the optimum of the program with all points of all fronts, and knows when there is none.
#[test]
fn column_generation_is_enumeration() {
    let (mut solved, mut refused) = (0, 0);
    for seed in 0..40_u64 {
        let budget = [1.2, 1.6, 1.8, 2.0, 3.3][seed as usize % 5];
        let reading = ["pipeline-of-groups", "parallel-pipelines"][seed as usize % 2];
        let work_ms = 1.0 + seed as f64 / 8.0;
        let folder = Folder::with(
            "net.toml",
            NET.replace("forward_ms = 2.0", &format!("forward_ms = {work_ms}")),
        );
        let second = "[prices]\ngpu = { watts = 3.0, dollars = 1.0 }\n";
        folder.write(
            "scenario.toml",
            SCENARIO
                .replace("pipeline-of-groups", reading)
                .replace(
                    "per_slot = 2.0",
                    &format!("per_slot = {budget}\n\n[[budgets]]\nname = \"watts\"\nper_slot = 5.0"),
                )
                .replace("[prices]\ngpu = { dollars = 1.0 }\n", second),
        );
        let scenario = Scenario::read(&folder.path("scenario.toml")).expect("a scenario");
        let states = scenario.stationary(100).expect("few states");
        let control = Control::default();
        let found = optimum_ms(&scenario, &mut Known::new(&scenario), &states, &control).expect("it solves");
        let kinds: Vec<Kind> = states
            .iter()
            .map(|(state, share)| {
                let slot = scenario.slot(state, 1.0, vec![0.0; 2]);
                let front = Front::new(&slot).expect("few devices");
                let points = front.points();
                Kind {
                    slots: *share,
                    plans: points
                        .map(|(n, time_ms)| (time_ms, front.counts.costs(&slot, n)))
                        .collect(),
                }
            })
            .collect();
        let program = build(&kinds, &[budget, 5.0], Goal::Time);
        let scale_ms = program.scale_ns / 1e6;
        let all = solver::solve(program, None, None, &control, &|_| {}).expect("it solves");
        match found {
            None => {
                assert!(all.bound.is_infinite(), "seed {seed}: {}", all.bound);
                refused += 1;
            }
            Some(found_ms) => {
                let all_ms = all.bound * scale_ms;
                assert!(
                    (found_ms - all_ms).abs() < 1e-6 * all_ms,
                    "seed {seed}: {found_ms} is not {all_ms}"
                );
                solved += 1;
            }
        }
    }
    assert!(solved > 20 && refused > 5, "{solved} solved, {refused} refused");
}

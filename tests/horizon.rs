//! What no policy can beat: the horizon program by hand, and the long run with equal devices counted together.

#[path = "common/command.rs"]
mod command;

use command::Folder;
use stagecut::exact::control::Control;
use stagecut::exact::highs;
use stagecut::formulations::horizon::{Kind, build};
use stagecut::hybrid::plan::{Layout, Rule, Stage, plan_of};
use stagecut::hybrid::{Reading, Slot};
use stagecut::online::controller::{Asked, run};
use stagecut::online::known::Known;
use stagecut::online::moving::moving_ms;
use stagecut::online::policies::POLICIES;
use stagecut::online::record::Line;
use stagecut::online::scenario::Scenario;
use stagecut::online::states::State;
use stagecut::online::yardsticks::{Kinds, bound_ms};

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
    let value = |total: f64, whole: bool| {
        let program = build(&kinds, &[total], whole);
        let scale = program.scale_ns / 1e6;
        let solved = highs::solve(program, None, None, &Control::default(), &|_| {}).expect("it solves");
        solved.bound * scale
    };
    assert!((value(4.5, true) - 19.0).abs() < 1e-6);
    // Half a slot more: a budget of 4.5 buys 1.5 dear plans of the slow slots.
    assert!((value(4.5, false) - 16.5).abs() < 1e-6);
    assert!(value(2.0, true).is_infinite());
}

#[test]
fn page_and_code_name_the_same_families() {
    let kinds = [Kind {
        slots: 1.0,
        plans: vec![(1.0, vec![1.0])],
    }];
    let page = include_str!("../formulations/horizon.md");
    for family in build(&kinds, &[1.0], true).families() {
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

/// Swaps of equal devices change no time and no cost: a long sample of states, told apart by device, has the same optimum
/// per slot as its states with the devices of each in order.
#[test]
fn swaps_of_equal_devices_change_no_bound() {
    let folder = Folder::with("net.toml", NET);
    folder.write("scenario.toml", SCENARIO);
    let scenario = Scenario::read(&folder.path("scenario.toml")).expect("a scenario");
    let mut known = Known::new(&scenario);
    let mut kinds = [Kinds::default(), Kinds::default()];
    for seed in 0..40 {
        for state in scenario.states(8, seed) {
            let mut sorted = State { ..state.clone() };
            sorted.slowdown.sort_by(f64::total_cmp);
            for (kinds, state) in kinds.iter_mut().zip([state, sorted]) {
                let (at, plans) = known.plans(&state).expect("few devices");
                kinds.add(at, 1.0, plans);
            }
        }
    }
    let [apart, together] = kinds;
    assert!(together.kinds().len() < apart.kinds().len());
    let bound = |kinds: &Kinds| {
        bound_ms(kinds, &[2.0], 320, &Control::default())
            .expect("it solves")
            .expect("a bound")
    };
    let (apart_ms, together_ms) = (bound(&apart), bound(&together));
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
            let own_ms = plan.time_ms + moving_ms(scenario, slot, last, &plan.layout);
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
        run(&scenario, &asked, &[], &Control::default(), &|_, _| {}, &mut write).expect("it runs");
        let free_ms = yardsticks.expect("the last line").clairvoyant_ms.expect("few slots");
        let states = scenario.states(SLOTS, seed);
        let slots: Vec<Slot> = states
            .iter()
            .map(|state| scenario.slot(state, 1.0, vec![0.0]))
            .collect();
        let paying_ms = least_ms(&scenario, &slots, None, 2.2 * SLOTS as f64) / SLOTS as f64;
        assert!(free_ms <= paying_ms * (1.0 + 1e-9), "seed {seed}: {free_ms} above {paying_ms}");
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
    assert!(kept > 48 && apart > 4, "{kept} policies kept the budget; moves cost something in {apart} runs");
}

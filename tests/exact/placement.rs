//! Replicated placement, against an enumeration of all placements.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use stagecut::check::placement_fault;
use stagecut::control::Control;
use stagecut::exact::placement::{Found, Method, solve};
use stagecut::formulations::placement::{Asked, Intervals, links_bind};
use stagecut::placement::{LinkSpec, LinksSpec, PlacementSpec, Proof, Serving};
use stagecut::solver::{self, Stop};

use crate::oracles::placements;

/// Placements that an enumeration looks at, at most.
const MOST_PLACEMENTS: f64 = 6_000.0;

/// A small problem: kinds that are alike and not, tables that fall or do not, links that bind.
fn draw(seed: u64) -> PlacementSpec {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let layers = rng.random_range(1..=7);
    let (mut machines, mut tables) = (BTreeMap::new(), BTreeMap::new());
    let kinds = rng.random_range(1..=3);
    let falls = rng.random_bool(0.7);
    for kind in 0..kinds {
        let name = format!("k{kind}");
        machines.insert(name.clone(), rng.random_range(1..=3));
        let most = rng.random_range(1..=layers);
        let mut rate: u32 = rng.random_range(4..=60);
        let mut table = BTreeMap::new();
        for held in 1..=most {
            if falls || rng.random_bool(0.8) {
                table.insert(held.to_string(), f64::from(rate));
            }
            rate = match falls {
                true => rate - rng.random_range(0..=rate / 2),
                false => rng.random_range(0..=60),
            };
        }
        tables.insert(name, table);
    }
    let link = |rng: &mut ChaCha8Rng| match rng.random_bool(0.5) {
        true => 1e6,
        false => f64::from(rng.random_range(0..=40)),
    };
    let smallest = rng.random_bool(0.7).then(|| LinksSpec {
        between_machines: link(&mut rng),
        from_source: link(&mut rng),
        to_sink: link(&mut rng),
    });
    let mut links = Vec::new();
    for from in 0..kinds {
        for to in 0..kinds {
            if rng.random_bool(0.2) {
                let (from, to) = (format!("k{from}"), format!("k{to}"));
                let tokens_per_s = link(&mut rng);
                links.push(LinkSpec {
                    from,
                    to,
                    tokens_per_s,
                });
            }
        }
    }
    if rng.random_bool(0.2) {
        links.push(LinkSpec {
            from: "source".into(),
            to: "k0".into(),
            tokens_per_s: link(&mut rng),
        });
    }
    PlacementSpec {
        name: None,
        provenance: None,
        layers,
        machines,
        vram_gb: None,
        tokens_per_s_at_layers: tables,
        smallest_link_tokens_per_s: smallest,
        links,
        published_tokens_per_s: None,
        published_placement: None,
    }
}

fn small(seed: u64) -> Option<PlacementSpec> {
    let spec = draw(seed);
    let machines: usize = spec.machines.values().sum();
    (machines <= 6 && placements::placements(&spec) <= MOST_PLACEMENTS).then_some(spec)
}

fn solved(serving: &Serving) -> Found {
    let found = solve(serving, Method::Sweep, &Control::default(), &|_, _| {}).expect("the solver runs");
    assert_eq!(placement_fault(serving, &found.placement), None);
    found
}

/// Each problem is proved, and no placement carries more; of links that bind and those that do not, and of problems without a placement, there
/// are many.
#[test]
fn placements_agree_with_enumeration() {
    let seen = (0..2_500_u64)
        .into_par_iter()
        .filter_map(|seed| Some((seed, small(seed)?)))
        .map(|(seed, spec)| {
            let serving = Serving::new(&spec, "random").expect("it is valid");
            let best = placements::best(&spec);
            let found = solved(&serving);
            assert_eq!(found.placement.rate, best, "seed {seed}");
            let proof = if best == 0 {
                Proof::Infeasible
            } else {
                Proof::Optimal
            };
            assert_eq!(found.proof, proof, "seed {seed}");
            assert!(
                found.bound >= best && found.bound <= best + best / 10_000_000,
                "seed {seed}"
            );
            let binds = best > 0 && links_bind(&serving, best);
            [1, usize::from(best == 0), usize::from(binds)]
        })
        .reduce(|| [0; 3], |a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
    assert!(seen[0] > 1_000 && seen[1] > 100 && seen[2] > 150, "{seen:?}");
}

/// The program of intervals by itself: its best is the enumeration's, and it has no solution above.
#[test]
fn the_program_agrees_with_enumeration() {
    let compared: usize = (0..300_u64)
        .into_par_iter()
        .filter_map(|seed| Some((seed, small(seed)?)))
        .map(|(seed, spec)| {
            let best = placements::best(&spec);
            if best == 0 {
                return 0;
            }
            let serving = Serving::new(&spec, "random").expect("it is valid");
            let prices = vec![0.0; serving.kinds.len()];
            let run = |least: u64| {
                let asked = Asked {
                    least,
                    most: 100_000_000.max(2 * best),
                    prices: (&prices, 0.0),
                };
                let intervals = Intervals::build(&serving, &asked);
                let solved = solver::solve(
                    intervals.program.clone(),
                    None,
                    None,
                    &Control::default(),
                    &|_| {},
                );
                let solved = solved.expect("the solver runs");
                (solved.stop, (1.0 - solved.bound) * asked.most as f64)
            };
            let (stop, rate) = run(1);
            assert_eq!(stop, Stop::Optimal, "seed {seed}");
            assert!((rate - best as f64).abs() < 1e3, "seed {seed}: {rate} for {best}");
            assert_eq!(run(best + 1_000).0, Stop::Infeasible, "seed {seed}");
            1
        })
        .sum();
    assert!(compared > 80, "{compared}");
}

/// What a placement claims and is not is refused.
#[test]
fn wrong_placements_are_refused() {
    let mut refused = 0;
    for seed in 0..300 {
        let Some(spec) = small(seed) else { continue };
        let serving = Serving::new(&spec, "random").expect("it is valid");
        let placement = solved(&serving).placement;
        if placement.rate == 0 {
            continue;
        }
        for part in 0..6 {
            let mut wrong = placement.clone();
            let last = wrong.flows.len() - 1;
            match part {
                0 => wrong.rate += 1,
                1 => wrong.flows[last].rate += 1,
                2 => wrong.held[0].layers += 1,
                3 => wrong.flows.truncate(last),
                // No flow at all, though there is one.
                4 => (wrong.flows, wrong.rate) = (Vec::new(), 0),
                _ => wrong.held[0].start += 1,
            }
            assert!(
                placement_fault(&serving, &wrong).is_some(),
                "seed {seed}, part {part}"
            );
            refused += 1;
        }
    }
    assert!(refused > 300, "{refused}");
}

/// Helix's problem of four A100: 15 layers each, proved.
#[test]
fn helix_on_four_a100() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/serving/helix-llama30b-4xa100.json");
    if !path.exists() {
        eprintln!("skipped: no ../shared/data/serving");
        return;
    }
    let serving = Serving::read(&path).expect("it is valid");
    let found = solved(&serving);
    assert_eq!(found.proof, Proof::Optimal);
    assert_eq!(found.placement.rate, 1_044_533_345);
    assert!(found.placement.held.iter().all(|held| held.layers == 15));
}

/// A limit leaves a placement and a bound.
#[test]
fn a_limit_leaves_what_is_known() {
    let spec = small(7).or_else(|| small(8)).expect("one is small");
    let serving = Serving::new(&spec, "random").expect("it is valid");
    let control = Control {
        time_limit: Some(Duration::ZERO),
        ..Control::default()
    };
    let found = solve(&serving, Method::Sweep, &control, &|_, _| {}).expect("the solver runs");
    assert_eq!(placement_fault(&serving, &found.placement), None);
    assert!(found.bound >= placements::best(&spec));
}

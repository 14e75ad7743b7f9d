//! BRKGA: a genetic algorithm over topological orders, each cut optimally.
//!
//! X

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use std::sync::LazyLock;

use super::{Effort, Heuristic, always, if_feasible, local_moves, orders, slicing};
use crate::cost;
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub const METHOD: Heuristic = Heuristic {
    name: "brkga",
    summary: "a genetic algorithm over topological orders, each cut optimally",
    source: "A. Archer et al., ICML 2024; J. Gonçalves, M. Resende, Journal of Heuristics 17, 2011; \
             our reconstruction: decoding by optimal slicing",
    exact_for: "chains, as slicing is",
    effort: Effort::Thorough,
    applies: always,
    run,
};
fn env(n: &str, d: u64) -> u64 {
    std::env::var(n).ok().and_then(|v| v.parse().ok()).unwrap_or(d)
}
static P: LazyLock<[u64; 8]> = LazyLock::new(|| {
    [
        env("POP", 40),
        env("ELITE", 8),
        env("MUT", 8),
        env("RHO", 70),
        env("BUDGET", 4_000_000),
        env("TIES", 0),
        env("LAM", 0),
        env("SLACK", 8),
    ]
});

fn run(problem: &Problem, seed: u64) -> Option<Assignment> {
    let sliced = slicing::best_slicing(problem, seed)?.0;
    let improved = local_moves::improve(problem, sliced.clone());
    evolve(problem, seed, &[sliced, improved])
}

#[derive(Clone)]
struct Chromosome {
    keys: Vec<u64>,
    objective_ns: u64,
    assignment: Assignment,
}

/// X
pub fn evolve(problem: &Problem, seed: u64, plans: &[Assignment]) -> Option<Assignment> {
    let [pop, elite_n, mutants, rho, budget, ties, lam, slack] = *P;
    let mut best: Option<(u64, Assignment)> = plans
        .iter()
        .filter_map(|p| Some((cost::assignment_ns(problem, p), if_feasible(problem, p.clone())?)))
        .min();
    if best.is_none() {
        let (a, ns) = slicing::best_slicing(problem, seed)?;
        best = Some((ns, a));
    }
    let mut best = best?;
    let start = best.0;
    let lower = slicing::work_bound_ns(problem);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let n = problem.items.len();
    let mut next: Vec<Vec<u64>> = Vec::new();
    for plan in plans {
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|&i| (plan[i], i));
        next.push(keys_of(&order));
    }
    for o in orders::handful(problem, 4, seed) {
        next.push(keys_of(&o));
    }
    let random = |rng: &mut ChaCha8Rng| -> Vec<u64> { (0..n).map(|_| rng.next_u64()).collect() };
    while next.len() < pop as usize {
        let k = random(&mut rng);
        next.push(k);
    }
    let mut elite: Vec<Chromosome> = Vec::new();
    let mut left = budget;
    let mut gens = 0;
    let mut decs = 0;
    let mut last = 0;
    while best.0 > lower && left > 0 {
        gens += 1;
        let upper = if elite.len() < elite_n as usize {
            best.0 + best.0 / slack + 1
        } else {
            elite.last().unwrap().objective_ns + ties
        };
        let cap = left;
        let decoded: Vec<_> = next
            .par_iter()
            .map(|keys| {
                let order = orders::by_priority(problem, keys);
                slicing::slice_within(problem, &order, upper, cap)
            })
            .collect();
        decs += decoded.len();
        let mut spent = 0;
        let mut others: Vec<Vec<u64>> = Vec::new();
        let mut fresh: Vec<Chromosome> = Vec::new();
        for (keys, d) in next.drain(..).zip(decoded) {
            spent += d.intervals + n as u64;
            match d.best {
                Some((assignment, ns)) if !elite.iter().chain(&fresh).any(|e| e.assignment == assignment) => {
                    if ns < best.0 {
                        best = (ns, assignment.clone());
                        last = gens;
                    }
                    fresh.push(Chromosome {
                        keys,
                        objective_ns: ns,
                        assignment,
                    });
                }
                _ => others.push(keys),
            }
        }
        if lam > 0 {
            for c in fresh.iter_mut() {
                let better = local_moves::improve(problem, c.assignment.clone());
                let ns = cost::assignment_ns(problem, &better);
                if ns < c.objective_ns {
                    let mut order: Vec<usize> = (0..n).collect();
                    order.sort_by_key(|&i| (better[i], i));
                    *c = Chromosome {
                        keys: keys_of(&order),
                        objective_ns: ns,
                        assignment: better.clone(),
                    };
                    if ns < best.0 {
                        best = (ns, better);
                        last = gens;
                    }
                }
                spent += 10 * n as u64;
            }
        }
        left = left.saturating_sub(spent);
        elite.splice(0..0, fresh);
        elite.sort_by_key(|c| c.objective_ns);
        while elite.len() > elite_n as usize {
            others.push(elite.pop().unwrap().keys);
        }
        // offspring
        for _ in 0..mutants {
            let k = random(&mut rng);
            next.push(k);
        }
        while next.len() + (elite_n as usize) < pop as usize {
            let a = &elite[rng.random_range(0..elite.len())].keys;
            let b = &others[rng.random_range(0..others.len())];
            let child: Vec<u64> = a
                .iter()
                .zip(b)
                .map(|(&x, &y)| if rng.random_range(0..100) < rho { x } else { y })
                .collect();
            next.push(child);
        }
    }
    if std::env::var("DBG").is_ok() {
        eprintln!(
            "start {start} best {} lower {lower} gens {gens} decs {decs} last {last}",
            best.0
        );
    }
    let better = local_moves::improve(problem, best.1.clone());
    if_feasible(problem, better)
}

fn keys_of(order: &[usize]) -> Vec<u64> {
    let step = u64::MAX / order.len() as u64;
    let mut keys = vec![0; order.len()];
    for (at, &item) in order.iter().enumerate() {
        keys[item] = step * at as u64;
    }
    keys
}

//! BRKGA: a biased random-key genetic algorithm over topological orders, each cut optimally.
//!
//! A chromosome holds one random key an item. Decoded, the ready item of the smallest key comes next, and the order that
//! results is cut by [optimal slicing](super::slicing). A generation keeps its elite, draws some mutants at random, and
//! fills up with children: each key of a child comes from a parent in the elite with a chance of 0.7, else from one outside.
//!
//! Sources: A. Archer et al., *Practical performance guarantees for pipelined DNN inference*, ICML 2024, who evolve orders
//! and slice them; J. Gonçalves, M. Resende, *Biased random-key genetic algorithms for combinatorial optimization*, Journal
//! of Heuristics 17, 2011, for the algorithm and the ranges of its parameters. This is our reconstruction; ours are:
//!
//! * Children ask of a chromosome only whether it is in the elite. So each is sliced below the worst of the elite, and its
//!   value stays open where it does not get there: slicing below a limit is what makes decoding cheap.
//! * Who joins the elite is improved by [local moves](super::local_moves) and gets the keys of the improved plan. Any plan
//!   has keys: those of the order that lists its stages one after the other, whose best slicing is no worse.
//! * The first generation holds known plans and the orders that slicing tries, beside random ones.
//! * Effort is counted, not timed, and who joins is decided in the order of the generation: a seed gives the same plan on
//!   every machine, whatever the number of threads.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::{Effort, Heuristic, MustStop, Run, if_feasible, local_moves, orders, slicing};
use crate::problem::cost;
use crate::problem::{Assignment, Problem};

/// The registry's entry.
pub(crate) const METHOD: Heuristic = Heuristic {
    name: "brkga",
    summary: "the best slicing of orders that a genetic algorithm evolves, with local moves",
    source: "A. Archer et al., ICML 2024; J. Gonçalves, M. Resende, Journal of Heuristics 17, 2011; \
             our reconstruction: decoding by optimal slicing",
    exact_for: "chains, as slicing is",
    effort: Effort::Thorough,
    run: Run::Homogeneous(|_| Ok(()), run),
};

/// Chromosomes of a generation, the elite among them.
const POPULATION: usize = 40;

/// Chromosomes that stay for the next generation.
const ELITE: usize = 8;

/// Chromosomes of a generation that are random.
const MUTANTS: usize = 8;

/// Chance that a key comes from the parent in the elite.
const BIAS: f64 = 0.7;

/// Random orders in the first generation: those that slicing tries as well.
const RANDOM_ORDERS: usize = slicing::RANDOM_ORDERS;

/// Until the elite is complete, plans that cost this fraction more than the best may join.
const FIRST_MARGIN: u64 = 8;

/// Work after which evolution ends, in the [pairs](slicing::Sliced::pairs) that slicing looks at: 25 to 100 ms on one
/// core for most networks, thousands of chromosomes of 60 items or hundreds of 400.
const MOST_WORK: u64 = 3_000_000;

/// Work of putting an item in its place, beside slicing; each stage that could start at it adds one more.
const WORK_PER_ITEM: u64 = 8;

/// Generations after which evolution ends if nobody has joined the elite for so long.
const IDLE_GENERATIONS: usize = 50;

/// Chromosomes that are decoded side by side, below the same limit; more threads than these have nothing to do.
const BATCH: usize = 16;

fn run(problem: &Problem, seed: u64, must_stop: MustStop<'_>) -> Option<Assignment> {
    let (sliced, _) = slicing::best_slicing(problem, seed, must_stop)?;
    let improved = local_moves::improve_and_slice(problem, sliced.clone(), must_stop);
    evolve(problem, seed, &[sliced, improved], must_stop)
}

/// Evolves orders from those of known plans.
///
/// * `must_stop`: once it says yes, the best plan so far comes back.
///
/// Returns a feasible plan that costs no more than any feasible one of `plans`; with none of these, no more than the
/// [best slicing](slicing::best_slicing), and `None` where that is no plan either, for memory that slicing does not see. The same arguments give the same
/// plan, unless it is stopped. Ends early where the work alone shows that nothing is better.
///
/// # Complexity
///
/// Time O(w d) for w = `MOST_WORK` units of work and d transfers an item, whatever the size of the problem, but for ordering
/// at least one generation; then one climb by local moves. Of a network so large that the work does not suffice to slice
/// its orders, the best of `plans` comes back.
pub fn evolve(
    problem: &Problem,
    seed: u64,
    plans: &[Assignment],
    must_stop: MustStop<'_>,
) -> Option<Assignment> {
    let mut evolution = Evolution::new(problem, seed, plans, must_stop)?;
    let mut generation = evolution.first_generation(seed);
    // The work that is left falls with every generation.
    while evolution.goes_on() && !must_stop() {
        evolution.live(generation, must_stop);
        generation = evolution.breed();
    }
    let best = evolution.elite.swap_remove(0).assignment;
    if plans.contains(&best) || must_stop() {
        return Some(best);
    }
    Some(local_moves::improve_and_slice(problem, best, must_stop))
}

/// One random key an item.
type Keys = Vec<u64>;

struct Evolution<'a> {
    problem: &'a Problem,
    rng: ChaCha8Rng,
    /// Best first, never empty; no plan twice, so that parents differ.
    elite: Vec<Member>,
    /// The rest of the last generation.
    others: Vec<Keys>,
    /// Objective below which there is nothing.
    lower_ns: u64,
    work_left: u64,
    idle_generations: usize,
}

/// A chromosome of the elite.
struct Member {
    keys: Keys,
    assignment: Assignment,
    objective_ns: u64,
}

/// What became of a chromosome.
struct Decoded {
    /// It, improved, if it is below the limit.
    member: Option<Member>,
    work: u64,
}

impl<'a> Evolution<'a> {
    fn new(problem: &'a Problem, seed: u64, plans: &[Assignment], must_stop: MustStop<'_>) -> Option<Self> {
        let mut evolution = Self {
            problem,
            rng: ChaCha8Rng::seed_from_u64(seed),
            elite: Vec::new(),
            others: Vec::new(),
            lower_ns: slicing::work_bound_ns(problem),
            work_left: MOST_WORK,
            idle_generations: 0,
        };
        let feasible = plans.iter().filter(|plan| cost::is_feasible(problem, plan));
        for plan in feasible {
            evolution.admit(Member::of(problem, plan.clone()));
        }
        if evolution.elite.is_empty() {
            let (sliced, _) = slicing::best_slicing(problem, seed, must_stop)?;
            evolution.admit(Member::of(problem, if_feasible(problem, sliced)?));
        }
        Some(evolution)
    }

    /// Keys of the known plans and of good orders, then random ones.
    fn first_generation(&mut self, seed: u64) -> Vec<Keys> {
        let good_orders = orders::handful(self.problem, RANDOM_ORDERS, seed);
        let known = self.elite.iter().map(|member| member.keys.clone());
        let mut generation: Vec<Keys> = known
            .chain(good_orders.iter().map(|order| keys_of(order)))
            .collect();
        while generation.len() < POPULATION {
            generation.push(self.mutant());
        }
        generation
    }

    fn goes_on(&self) -> bool {
        self.work_left > 0
            && self.idle_generations < IDLE_GENERATIONS
            && self.elite[0].objective_ns > self.lower_ns
    }

    /// Decodes a generation; everyone joins the elite or the others. A generation that is stopped joins in part.
    fn live(&mut self, generation: Vec<Keys>, must_stop: MustStop<'_>) {
        let mut has_newcomer = false;
        for batch in generation.chunks(BATCH) {
            if must_stop() {
                self.others.extend(batch.iter().cloned());
                continue;
            }
            let limit_ns = self.limit_ns();
            let most_work = self.work_left / batch.len() as u64;
            let decoded: Vec<Decoded> = batch
                .par_iter()
                .map(|keys| decode(self.problem, keys, limit_ns, most_work, must_stop))
                .collect();
            for (keys, decoded) in batch.iter().zip(decoded) {
                self.work_left = self.work_left.saturating_sub(decoded.work);
                match decoded.member {
                    Some(member) => has_newcomer |= self.admit(member),
                    None => self.others.push(keys.clone()),
                }
            }
        }
        self.idle_generations = match has_newcomer {
            true => 0,
            false => self.idle_generations + 1,
        };
    }

    /// What a chromosome must stay below to join the elite, in ns.
    fn limit_ns(&self) -> u64 {
        let best_ns = self.elite[0].objective_ns;
        match self.elite.get(ELITE - 1) {
            Some(worst) => worst.objective_ns,
            None => best_ns.saturating_add(best_ns / FIRST_MARGIN + 1),
        }
    }

    /// Puts a chromosome into the elite, unless its plan is there or all there are as good; says whether it did. Whoever
    /// must go joins the others.
    fn admit(&mut self, member: Member) -> bool {
        let is_known = self
            .elite
            .iter()
            .any(|other| other.assignment == member.assignment);
        let place = self
            .elite
            .partition_point(|other| other.objective_ns <= member.objective_ns);
        if is_known || place == ELITE {
            self.others.push(member.keys);
            return false;
        }
        self.elite.insert(place, member);
        if self.elite.len() > ELITE {
            self.others.extend(self.elite.pop().map(|worst| worst.keys));
        }
        true
    }

    /// The next generation but for its elite, which stays. Forgets the others.
    fn breed(&mut self) -> Vec<Keys> {
        let others = std::mem::take(&mut self.others);
        let mut children: Vec<Keys> = (0..MUTANTS).map(|_| self.mutant()).collect();
        while children.len() < POPULATION - ELITE {
            children.push(self.child(&others));
        }
        children
    }

    fn child(&mut self, others: &[Keys]) -> Keys {
        let elite = self.rng.random_range(0..self.elite.len());
        let other = self.rng.random_range(0..others.len());
        let pairs = self.elite[elite].keys.iter().zip(&others[other]);
        pairs
            .map(|(&elite, &other)| if self.rng.random_bool(BIAS) { elite } else { other })
            .collect()
    }

    fn mutant(&mut self) -> Keys {
        self.problem.items.iter().map(|_| self.rng.next_u64()).collect()
    }
}

/// Slices the order of a chromosome and improves the plan, if it is one, stays below the limit and the work suffices.
fn decode(
    problem: &Problem,
    keys: &[u64],
    limit_ns: u64,
    most_work: u64,
    must_stop: MustStop<'_>,
) -> Decoded {
    let items = problem.items.len() as u64;
    let stages = problem.stages() as u64;
    let order = orders::by_priority(problem, keys);
    let sliced = slicing::slice_within(problem, &order, limit_ns, most_work, must_stop);
    let mut work = sliced.pairs + (WORK_PER_ITEM + stages) * items;
    let plan = sliced.best.and_then(|(plan, _)| if_feasible(problem, plan));
    let member = plan.map(|assignment| {
        // Every pass of a climb tries each item, and costs two stages anew.
        let climb = 4 * items * items / stages;
        if work + climb > most_work {
            return Member::of(problem, assignment);
        }
        work += climb;
        Member::of(problem, local_moves::improve(problem, assignment, must_stop))
    });
    Decoded { member, work }
}

impl Member {
    /// A plan with the keys of the order that lists stage by stage, each by item number.
    fn of(problem: &Problem, assignment: Assignment) -> Self {
        let mut order: Vec<usize> = (0..assignment.len()).collect();
        order.sort_by_key(|&item| (assignment[item], item));
        Self {
            keys: keys_of(&order),
            objective_ns: cost::assignment_ns(problem, &assignment),
            assignment,
        }
    }
}

/// Keys that decode to a topological order, evenly spread, as random ones are.
fn keys_of(order: &[usize]) -> Keys {
    let step = u64::MAX / order.len().max(1) as u64;
    let mut keys = vec![0; order.len()];
    for (position, &item) in order.iter().enumerate() {
        keys[item] = step * position as u64;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_an_order_rise_along_it() {
        let keys = keys_of(&[2, 0, 1]);
        assert!(keys[2] < keys[0] && keys[0] < keys[1]);
        assert!(keys[1] > u64::MAX / 2);
    }
}

//! Replicated placement: which layers each machine holds, so that most tokens a second pass.
#![doc = include_str!("../../../formulations/placement.md")]

mod covers;
mod flow;
mod links;
mod local;
mod program;
mod rules;
mod sweep;

use self::covers::{Covers, Prices};
use self::links::Links;
use self::sweep::{Answer, Sweep};
use crate::formulations::placement::links_bind;
use crate::formulations::solver::SolverError;
use crate::problem::control::Control;
use crate::problem::placement::{Held, Placement, Proof, Serving};
use crate::problem::plan::StoppedBy;

/// The best placement that was found, and how good it is.
#[derive(Clone, Debug)]
pub struct Found {
    /// What machines hold, and what passes; nothing where none was found.
    pub placement: Placement,
    /// No placement carries more.
    pub bound: u64,
    /// How the two compare.
    pub proof: Proof,
    /// Why the search ended.
    pub stopped_by: StoppedBy,
    /// What published rules reach, by their name.
    pub rules: Vec<(&'static str, u64)>,
}

/// How placements are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By the sweep; by the program what that leaves open for its size.
    Sweep,
    /// By the program alone.
    Program,
}

/// What is known.
struct Known<'a> {
    serving: &'a Serving,
    best: Placement,
    bound: u64,
    /// Prices of machines near the bound.
    near: Vec<f64>,
    /// Told of every change.
    watch: &'a dyn Fn(u64, u64),
}

impl Known<'_> {
    fn is_proved(&self) -> bool {
        self.bound.saturating_sub(self.best.rate) <= self.best.rate / program::PART
    }

    /// Takes a placement, if it carries more than the best, and says what it carries.
    fn take(&mut self, held: &[Held]) -> u64 {
        let placement = flow::placement(self.serving, held);
        let rate = placement.rate;
        if rate > self.best.rate {
            self.best = placement;
            (self.watch)(self.best.rate, self.bound);
        }
        rate
    }

    fn lower(&mut self, bound: u64) {
        if bound < self.bound {
            self.bound = bound;
            (self.watch)(self.best.rate, self.bound);
        }
    }
}

/// Finds the best placement and proves it, as far as limits let it; `watch` is told of the best rate and the bound.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
pub fn solve(
    serving: &Serving,
    method: Method,
    control: &Control,
    watch: &dyn Fn(u64, u64),
) -> Result<Found, SolverError> {
    let covers = Covers::new(serving);
    let mut known = Known {
        serving,
        best: Placement::default(),
        bound: 0,
        near: Vec::new(),
        watch,
    };
    let mut rules = Vec::new();
    let mut stopped_by = StoppedBy::Completed;
    if !covers.choices.is_empty() && serving.most_layers() >= serving.layers {
        known.bound = u64::MAX;
        rules = vec![
            ("petals", known.take(&rules::petals(serving))),
            ("swarm", known.take(&rules::swarm(serving))),
        ];
        for stages in 1..=serving.layers.min(serving.machines()) {
            known.take(&rules::filled(serving, stages));
        }
        let (bound, near) = covers.bound(control)?;
        known.near = near;
        known.lower(bound);
        if method == Method::Sweep {
            if links_bind(serving, known.bound) {
                local::improve(&mut known, control);
                bound_links(&covers, &mut known, control)?;
            }
            look(&covers, &mut known, control)?;
            stopped_by = prove(&covers, &mut known, control)?;
        }
        if method == Method::Program || stopped_by == StoppedBy::SizeLimit {
            stopped_by = program::run(&covers, &mut known, control)?;
        }
    }
    if known.best.rate > known.bound {
        return Err(SolverError {
            doing: "bounding placements",
            what: format!("{} pass, and {} at most", known.best.rate, known.bound),
        });
    }
    let proof = match (known.best.rate, known.bound) {
        (0, 0) => Proof::Infeasible,
        (0, _) => Proof::Unknown,
        _ if known.is_proved() => Proof::Optimal,
        _ => Proof::Feasible,
    };
    Ok(Found {
        placement: known.best,
        bound: known.bound,
        proof,
        stopped_by,
        rules,
    })
}

/// Lowers the bound by prices that know links, halving between the best and the bound.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
fn bound_links(covers: &Covers, known: &mut Known, control: &Control) -> Result<(), SolverError> {
    /// Part of the bound at which halving ends.
    const NEAR: u64 = 500;
    let mut open = known.best.rate;
    while known.bound.saturating_sub(open) > 1 + known.bound / NEAR && control.must_stop().is_none() {
        let asked = open + (known.bound - open).div_ceil(2);
        let prices = covers.prices(asked, control)?;
        match refuted_by_links(covers, known, (asked, &prices), control)? {
            (true, _) => known.lower(asked - 1),
            (false, None) => break,
            (false, Some(_)) => open = asked,
        }
    }
    Ok(())
}

/// Whether prices that know links refute a rate, and those prices.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
fn refuted_by_links(
    covers: &Covers,
    known: &Known,
    rate: (u64, &Prices),
    control: &Control,
) -> Result<(bool, Option<Links>), SolverError> {
    let serving = known.serving;
    let links = Links::new(covers, serving, rate, control)?;
    let machines = || serving.kinds.iter().map(|kind| kind.count);
    let refuted = links.as_ref().is_some_and(|links| links.refute(machines()));
    Ok((refuted, links))
}

/// Looks for better placements among few states, and more and more, halving between the best and the bound.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
fn look(covers: &Covers, known: &mut Known, control: &Control) -> Result<(), SolverError> {
    const WIDTHS: [usize; 3] = [3, 12, 48];
    const STEPS: u64 = 100_000;
    /// Part of the bound at which halving ends.
    const NEAR: u64 = 500;
    for width in WIDTHS {
        let mut refused = known.bound;
        while refused.saturating_sub(known.best.rate) > refused / NEAR && control.must_stop().is_none() {
            let asked = known.best.rate + (refused - known.best.rate).div_ceil(2);
            match ask(covers, known, (asked, STEPS, width), control)? {
                Answer::Found(held) if known.take(&held) >= asked => {}
                _ => refused = asked - 1,
            }
        }
    }
    Ok(())
}

/// Whether a rate is carried, by so many steps and at such a width.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
fn ask(
    covers: &Covers,
    known: &mut Known,
    (rate, steps, width): (u64, u64, usize),
    control: &Control,
) -> Result<Answer, SolverError> {
    // Those near the bound do where few states are looked at.
    let prices = match width {
        usize::MAX => covers.prices(rate, control)?,
        _ => covers.at(rate, &known.near),
    };
    if covers.refute(&prices) {
        known.lower(rate - 1);
        return Ok(Answer::None);
    }
    let sweep = |prices| Sweep::new(covers, known.serving, (rate, prices), control);
    let binds = width == usize::MAX && links_bind(known.serving, rate);
    let (by_prices, links) = match binds {
        true => refuted_by_links(covers, known, (rate, &prices), control)?,
        false => (false, None),
    };
    let is_refuted = by_prices
        || binds
            && matches!(
                sweep(prices.clone()).without_links().run(steps, width),
                Answer::None
            );
    let answer = match is_refuted {
        true => Answer::None,
        false => sweep(prices).with_links(links).run(steps, width),
    };
    if let Answer::None = answer {
        known.lower(rate - 1);
    }
    Ok(answer)
}

/// Asks for rates between the best and the bound until none is open.
///
/// # Errors
///
/// [`SolverError`] where HiGHS breaks down.
fn prove(covers: &Covers, known: &mut Known, control: &Control) -> Result<StoppedBy, SolverError> {
    /// Steps of the first questions; those that are left open get more and more.
    const FIRST_STEPS: u64 = 20_000;
    const MORE: u64 = 4;
    /// Part of the bound below which the least rate is asked for, and no middle one.
    const NEAR: u64 = 300;
    let mut steps = FIRST_STEPS;
    while known.best.rate < known.bound {
        let mut from = known.best.rate;
        while from < known.bound {
            let open = known.bound - from;
            let near = (known.bound / NEAR).max(1);
            let asked = if open <= near { from + 1 } else { from + open / 2 };
            match ask(covers, known, (asked, steps, usize::MAX), control)? {
                Answer::None => {}
                Answer::Found(held) => {
                    known.take(&held);
                    from = asked.max(known.best.rate);
                }
                Answer::Undecided(StoppedBy::SizeLimit) if open <= near => break,
                Answer::Undecided(StoppedBy::SizeLimit) => from = asked,
                Answer::Undecided(stopped_by) => return Ok(stopped_by),
            }
        }
        match steps.checked_mul(MORE) {
            Some(more) => steps = more,
            None => return Ok(StoppedBy::SizeLimit),
        }
    }
    Ok(StoppedBy::Completed)
}

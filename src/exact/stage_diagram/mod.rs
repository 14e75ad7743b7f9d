//! Search over all stages that keep a limit, as paths of a decision diagram, led by prices of items.
#![doc = include_str!("../../../formulations/stage_diagram.md")]

mod completions;
mod diagram;
mod layers;
mod prices;
mod sweep;

use crate::control::Control;
use crate::exact::stage_diagram::diagram::Diagram;
use crate::exact::stage_diagram::layers::Layers;
use crate::exact::stage_diagram::prices::Prices;
use crate::exact::stage_diagram::sweep::Sweep;
use crate::plan::StoppedBy;
use crate::problem::{Assignment, Problem};

/// What a pass found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A plan whose every stage keeps the limit.
    Found(Assignment),
    /// There is none.
    Exhausted,
    /// None among the prefixes that were kept: with more of them there may be one.
    Truncated,
    /// A limit of the search came first.
    Stopped(StoppedBy),
}

/// Looks for plans whose every stage keeps a limit.
pub struct DiagramSearch<'a> {
    problem: &'a Problem,
    control: &'a Control<'a>,
    sweep: Sweep,
    /// Those of the last limit, where the next begin; empty before the first.
    pub prices: Vec<u64>,
    effort: Effort,
    /// Prefixes kept in all passes.
    pub reached: usize,
}

impl<'a> DiagramSearch<'a> {
    /// Prepares a search that gives up after so many steps; `None` where too much would have to be remembered of the items decided.
    pub fn new(problem: &'a Problem, control: &'a Control<'a>, most_steps: u64) -> Option<Self> {
        Some(Self {
            problem,
            control,
            sweep: Sweep::new(problem)?,
            prices: Vec::new(),
            effort: Effort {
                steps: 0,
                most: most_steps,
            },
            reached: 0,
        })
    }

    /// One pass: a plan with every stage's bottleneck at most `limit_ns`, if there is one, keeping so many prefixes of each length.
    pub fn pass(&mut self, limit_ns: u64, width: usize) -> Answer {
        self.try_pass(limit_ns, width).unwrap_or_else(Answer::Stopped)
    }

    fn try_pass(&mut self, limit_ns: u64, width: usize) -> Result<Answer, StoppedBy> {
        let Self {
            problem,
            control,
            sweep,
            prices,
            effort,
            ..
        } = self;
        let mut budget = Budget {
            effort,
            control,
            unchecked: 0,
        };
        let diagram = Diagram::new(problem, sweep, limit_ns, &mut budget)?;
        let Some(prices) = Prices::new(problem, &diagram, prices, &mut budget)? else {
            return Ok(Answer::Exhausted);
        };
        let mut layers = Layers::new(problem, sweep, &diagram, &prices, width);
        let answer = layers.run(&mut budget);
        self.reached += layers.reached();
        answer
    }
}

/// Steps taken and allowed.
struct Effort {
    steps: u64,
    most: u64,
}

/// The effort and the limits of a search.
struct Budget<'e> {
    effort: &'e mut Effort,
    control: &'e Control<'e>,
    /// Steps since the last look at the clock.
    unchecked: u64,
}

impl Budget<'_> {
    /// Takes so many steps.
    ///
    /// # Errors
    ///
    /// The limit that is reached.
    fn take(&mut self, steps: u64) -> Result<(), StoppedBy> {
        const BETWEEN_CLOCK_LOOKS: u64 = 1 << 14;
        self.unchecked += steps;
        self.effort.steps += steps;
        if self.unchecked < BETWEEN_CLOCK_LOOKS {
            return Ok(());
        }
        self.unchecked = 0;
        match self.control.must_stop() {
            Some(stopped_by) => Err(stopped_by),
            None if self.effort.steps > self.effort.most => Err(StoppedBy::SizeLimit),
            None => Ok(()),
        }
    }
}

//! Search over all stages that keep a limit, as paths of a decision diagram, led by prices of items.
#![doc = include_str!("../../../formulations/stage_diagram.md")]

mod budget;
mod completions;
mod diagram;
mod layers;
mod prices;
mod sweep;

use crate::exact::stage_diagram::budget::{Budget, Effort};
use crate::exact::stage_diagram::diagram::Diagram;
use crate::exact::stage_diagram::layers::Layers;
use crate::exact::stage_diagram::prices::Prices;
use crate::exact::stage_diagram::sweep::Sweep;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::plan::StoppedBy;
use crate::search::limits::Answer;

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
                room_bytes: control.room_bytes(),
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
        let mut budget = Budget::new(effort, control);
        let diagram = Diagram::new(problem, sweep, limit_ns, &mut budget)?;
        let Some(prices) = Prices::new(problem, &diagram, prices, &mut budget)? else {
            return Ok(Answer::none_within(limit_ns));
        };
        let mut layers = Layers::new(problem, sweep, &diagram, &prices, width);
        let answer = layers.run(&mut budget);
        self.reached += layers.reached();
        answer
    }
}

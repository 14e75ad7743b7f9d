//! Linear programs that gain rows between runs.

use good_lp::IntoAffineExpression;

use super::c::Movable;
use super::exit::Inside;
use super::{Solved, SolverError, build, c, exit, prepare, read};
use crate::formulations::{Column, Program};
use crate::problem::control::Control;

/// A row that a solution breaks: `Σ coefficient · column <= most`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cut {
    /// What columns count.
    pub coefficients: Vec<(Column, f64)>,
    /// What they count for at most.
    pub most: f64,
}

/// A linear program whose runs begin where the one before ended: rows that are added leave its basis dual feasible.
pub(crate) struct GrowingProgram {
    /// None while HiGHS has it, and after HiGHS broke down.
    model: Option<Movable>,
    constant: f64,
    _inside: Inside,
}

impl GrowingProgram {
    /// Hands the program to HiGHS.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS refuses it.
    pub(crate) fn new(program: Program) -> Result<Self, SolverError> {
        let inside = Inside::enter();
        let constant = program.objective.constant();
        let mut model = build(program)?;
        prepare(&mut model)?;
        Ok(Self {
            model: Some(Movable(model)),
            constant,
            _inside: inside,
        })
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, cut: &Cut) {
        if let Some(Movable(model)) = &mut self.model {
            let coefficients = cut.coefficients.iter();
            let (columns, factors): (Vec<usize>, Vec<f64>) = coefficients
                .map(|&(column, factor)| (column.index, factor))
                .unzip();
            c::add_row(model, cut.most, &columns, &factors);
        }
    }

    /// Bounds a column anew, which leaves its basis dual feasible, too.
    pub(crate) fn limit(&mut self, column: Column, limits: [f64; 2]) {
        if let Some(Movable(model)) = &mut self.model {
            c::bound_column(model, column.index, limits);
        }
    }

    /// Minimises it as it stands. Beyond the limits of `control`, nothing is proved.
    ///
    /// # Errors
    ///
    /// [`SolverError`] where HiGHS breaks down; then the program is lost.
    pub(crate) fn solve(&mut self, control: &Control) -> Result<Solved, SolverError> {
        let Movable(model) = self.model.take().ok_or_else(|| failed("lost in a run before"))?;
        let mut watcher = |_| control.limit().is_some() || exit::must_leave();
        let solved = c::watched(model, &mut watcher, |model| model.try_solve());
        let solved = solved.map_err(|status| failed(&format!("{status:?}")))?;
        let read = read(&solved, true, control)?;
        self.model = Some(Movable(solved.into()));
        Ok(Solved {
            bound: read.bound + self.constant,
            ..read
        })
    }
}

fn failed(what: &str) -> SolverError {
    SolverError {
        doing: "solving with a new row",
        what: what.to_owned(),
    }
}

//! The program of calibration, solved, and who is left out when.

use std::collections::BTreeMap;

use crate::formulations::calibration::{Calibration, Row};
use crate::formulations::solver::{self, SolverError};
use crate::problem::control::Control;

/// Parts that are left out in turn.
const PARTS: usize = 10;

/// The figures between limits that explain some times best.
///
/// # Errors
///
/// A solver that breaks down.
pub(super) fn figures(rows: &[Row], limits: &[(f64, f64)]) -> Result<Vec<f64>, SolverError> {
    let asked = Calibration::build(rows, limits);
    let solved = solver::solve(asked.program.clone(), None, None, &Control::default(), &|_| ())?;
    let values = solved.values.ok_or(SolverError {
        doing: "calibrating",
        what: "figures between their limits were not found".into(),
    })?;
    Ok(asked.figures(&values))
}

/// For each of some measurements the part that it is left out with: equal ones have one group, and share a part.
pub(super) fn parts(groups: &[String]) -> Vec<usize> {
    let mut number: BTreeMap<&str, usize> = BTreeMap::new();
    for group in groups {
        let next = number.len();
        number.entry(group).or_insert(next);
    }
    groups
        .iter()
        .map(|group| number[group.as_str()] % PARTS)
        .collect()
}

/// What is said of each measurement by figures that were fitted to the other parts; `None` where there is no other part.
///
/// * `fit`: of the measurements that are kept, what says a time of any other.
///
/// # Errors
///
/// Those of `fit`.
pub(super) fn unseen<F: Fn(usize) -> f64, E>(
    groups: &[String],
    fit: impl Fn(&[usize]) -> Result<F, E>,
) -> Result<Vec<Option<f64>>, E> {
    let parts = parts(groups);
    let mut said = vec![None; groups.len()];
    for part in 0..PARTS {
        let (out, kept): (Vec<usize>, Vec<usize>) = (0..groups.len()).partition(|&at| parts[at] == part);
        if out.is_empty() || kept.is_empty() {
            continue;
        }
        let says = fit(&kept)?;
        out.into_iter().for_each(|at| said[at] = Some(says(at)));
    }
    Ok(said)
}

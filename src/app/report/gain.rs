//! What separate cuts gain over tied ones, in a sentence.

use super::format::{Digits, percent};
use super::{ComparisonRow, Standing};
use crate::exact::tied_cuts;
use crate::problem::plan::StoppedBy;

/// The gain of the best plan over the best one with tied cuts, as far as either is proved; nothing unless the rows have tied
/// cuts and something beside.
pub(super) fn of_separate_cuts(rows: &[ComparisonRow], digits: Digits) -> Option<String> {
    let tied = rows.iter().find(|row| row.method == tied_cuts::NAME)?;
    let others = || rows.iter().filter(|row| row.method != tied_cuts::NAME);
    let best_ms = others()
        .filter_map(|row| row.objective_ms)
        .min_by(f64::total_cmp)?;
    let tied_is_best = tied.stopped_by == Some(StoppedBy::Completed);
    let Some(tied_ms) = tied.objective_ms else {
        return tied_is_best.then(|| "no plan has tied cuts: separate cuts make one possible".into());
    };
    // A proof for separate cuts may come with the tied plan itself, where it meets a bound.
    let is_proved = rows.iter().any(|row| row.status == Standing::Optimal);
    let gain = if best_ms < tied_ms {
        (tied_ms - best_ms) / tied_ms
    } else {
        0.0
    };
    let gain = match (gain > 0.0, is_proved, tied_is_best) {
        (false, true, _) => "nothing".to_owned(),
        (false, false, _) => "nothing so far".into(),
        (true, true, true) => percent(gain),
        (true, true, false) => format!("at most {}", percent(gain)),
        (true, false, true) => format!("at least {}", percent(gain)),
        (true, false, false) => format!("{} so far", percent(gain)),
    };
    Some(format!(
        "tied cuts take {} ms: separate cuts gain {gain}",
        digits.ms(tied_ms)
    ))
}

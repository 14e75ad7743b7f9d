//! Lower bounds alone.

use super::format::Digits;
use super::text::{ASK_SOLVE, headline, sentences};
use crate::model::fault::visible;
use crate::problem::plan::{Plan, Status};

/// The bounds of a problem, the best last, in ms; or why there is no plan.
pub(crate) fn bounds(plan: &Plan) -> String {
    let best = plan.bound_ms.unwrap_or(0.0);
    let digits = Digits::for_ms(best);
    if plan.status == Status::Infeasible {
        let said = [headline(plan, digits), sentences(plan, digits), ASK_SOLVE.into()];
        return said.iter().map(|line| format!("{}\n", visible(line))).collect();
    }
    let mut rows: Vec<(&str, f64)> = plan
        .statistics
        .bounds_ms
        .iter()
        .map(|(source, &ms)| (source.name(), ms))
        .collect();
    rows.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(b.0)));
    let mut out = format!(
        "No plan of `{}` is better than {} ms\n\n",
        visible(&plan.instance),
        digits.ms(best)
    );
    let widest = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, ms) in rows {
        out += &format!("  {name:<widest$}  {:>12} ms\n", digits.ms(ms));
    }
    out
}

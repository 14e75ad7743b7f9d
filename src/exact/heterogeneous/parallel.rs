//! Two searches over ideals and devices at the same time: all labels of few ideals, and cells of ideals from coarse to fine.

use crate::exact::halves::Half;
use crate::exact::heterogeneous::search::HeterogeneousSearch;
use crate::problem::plan::StoppedBy;

/// Searches both ways from the same state, on two threads where there are two, until one of them is over or both can do no more: then what
/// both have found counts. Labels take so many steps at most.
///
/// Steps are counted, not timed. So objective, bound and status of what is proved are the same whatever the number of threads; of several
/// best plans, the one of whoever is over first is reported.
pub(super) fn search(search: &mut HeterogeneousSearch, most_steps: u64) -> StoppedBy {
    let switches = search.incumbent.control.switches;
    if !switches.ideals {
        return search.use_cells();
    }
    if !switches.parallel || rayon::current_num_threads() == 1 {
        let stopped_by = search.use_ideals(most_steps);
        let is_open = stopped_by == StoppedBy::SizeLimit && !search.incumbent.is_over();
        return if is_open { search.use_cells() } else { stopped_by };
    }
    let halves = [Half::default(), Half::default()];
    let controls = halves
        .each_ref()
        .map(|half| half.control(search.incumbent.control));
    let [mut by_ideals, mut by_cells] = controls.each_ref().map(|control| search.under(control));
    let [ideals_half, cells_half] = &halves;
    // Cells use more threads where there are any, so they must not be what a thread of theirs waits for.
    let ideals = || {
        by_ideals.use_ideals(most_steps);
        ideals_half.may_go_on(cells_half, by_ideals.incumbent.is_over());
    };
    let cells = || {
        let stopped_by = by_cells.use_cells();
        cells_half.may_go_on(ideals_half, by_cells.incumbent.is_over());
        stopped_by
    };
    let ((), stopped_by) = rayon::join(ideals, cells);
    search.incumbent.join(by_ideals.incumbent);
    search.incumbent.join(by_cells.incumbent);
    match search.incumbent.is_over() {
        true => StoppedBy::Completed,
        false => stopped_by,
    }
}

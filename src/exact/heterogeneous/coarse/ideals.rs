//! All ideals of a problem, and what their items come to.

use std::collections::HashSet;

use crate::exact::bits;
use crate::exact::ideals::growth;
use crate::problem::Problem;
use crate::problem::control::Control;
use crate::problem::cost::allocation::StageWork;
use crate::problem::plan::StoppedBy;
use crate::problem::workers::Workers;

/// An ideal.
pub(super) struct Ideal {
    /// Its items.
    pub items: Box<[u64]>,
    /// What they come to, see [`Totals`].
    pub totals: Box<[u64]>,
}

/// What totals count: for each class forward and backward time, and items that it cannot run; bytes held once, of one further version
/// of the weights, and of one micro-batch in flight.
#[derive(Clone, Copy)]
pub(super) struct Totals {
    classes: usize,
}

impl Totals {
    pub(super) fn new(workers: &Workers) -> Self {
        Self {
            classes: workers.classes.len(),
        }
    }

    /// How many there are.
    pub(super) fn len(self) -> usize {
        3 * self.classes + 3
    }

    /// Those of one item.
    fn of_item(self, problem: &Problem, item: usize) -> Box<[u64]> {
        let item = &problem.items[item];
        let of_class = item.times.iter().flat_map(|times| match times {
            Some(times) => [times.forward_ns, times.backward_ns, 0],
            None => [0, 0, 1],
        });
        of_class
            .chain([item.base_bytes, item.parameter_bytes, item.stash_bytes])
            .collect()
    }

    /// A stage with these totals, without its transfers.
    pub(super) fn work(self, totals: &[u64]) -> StageWork {
        let of_class = |totals: &[u64]| (totals[2] == 0).then_some([totals[0], totals[1]]);
        StageWork {
            times_ns: totals[..3 * self.classes].chunks(3).map(of_class).collect(),
            parameter_bytes: totals[3 * self.classes + 1],
            ..StageWork::default()
        }
    }

    /// Bytes among totals: held once, of one further version of the weights, of one micro-batch in flight.
    pub(super) fn bytes(self, totals: &[u64]) -> [u64; 3] {
        [0, 1, 2].map(|at| totals[3 * self.classes + at])
    }
}

/// All ideals, by size.
///
/// # Errors
///
/// [`StoppedBy::SizeLimit`] with more than `most`, or another limit of the search.
pub(super) fn all(
    problem: &Problem,
    totals: Totals,
    most: usize,
    control: &Control,
) -> Result<Vec<Ideal>, StoppedBy> {
    let predecessors = growth::predecessors(problem);
    let n = problem.items.len();
    let of_item: Vec<Box<[u64]>> = (0..n).map(|item| totals.of_item(problem, item)).collect();
    let mut ideals = vec![Ideal {
        items: vec![0; bits::words(n)].into(),
        totals: vec![0; totals.len()].into(),
    }];
    let is_free = |items: &[u64], item: usize| {
        let mut before = predecessors[item].iter();
        !bits::contains(items, item) && before.all(|&before| bits::contains(items, before))
    };
    let mut layer = 0..1;
    for _ in 0..n {
        let mut met = HashSet::new();
        for from in layer.clone() {
            control.check_limits()?;
            for (item, more) in of_item.iter().enumerate() {
                if !is_free(&ideals[from].items, item) {
                    continue;
                }
                let mut items = ideals[from].items.clone();
                bits::insert(&mut items, item);
                if met.contains(&items) {
                    continue;
                }
                met.insert(items.clone());
                let totals = ideals[from]
                    .totals
                    .iter()
                    .zip(more)
                    .map(|(sum, more)| sum + more)
                    .collect();
                ideals.push(Ideal { items, totals });
                if ideals.len() > most {
                    return Err(StoppedBy::SizeLimit);
                }
            }
        }
        layer = layer.end..ideals.len();
    }
    Ok(ideals)
}

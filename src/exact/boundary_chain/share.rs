//! How a transfer is shared out to the boundaries that it may cross.

use super::span::Span;
use crate::exact::boundary_chain::boundary::Totals;
use crate::formulations::staging::Windows;

/// A transfer, the boundaries that it may cross, and what is counted for it where it may cross two in a row.
#[derive(Clone)]
pub(super) struct Share<'a> {
    pub span: &'a Span,
    /// The first and the last of them, by the stages before them.
    boundaries: [usize; 2],
    /// For each of them but the last, what the stage behind it pays where it crosses there, and takes back where it crosses the next: up
    /// to all, either way.
    pub between_ns: Vec<i128>,
}

impl<'a> Share<'a> {
    /// The boundaries that a transfer may cross in plans that keep to the windows; `None` if there are none.
    pub(super) fn new(span: &'a Span, windows: &Windows) -> Option<Self> {
        let mut share = Self {
            span,
            boundaries: [1, usize::MAX],
            between_ns: Vec::new(),
        };
        let [first, last] = share.possible(windows)?;
        let all = (last - first + 1) as i128;
        // In equal shares at first.
        let between_ns = |at: usize| (span.ns * (all - 2 * (last - at) as i128)).div_euclid(all);
        share.boundaries = [first, last];
        share.between_ns = (first..last).map(between_ns).collect();
        Some(share)
    }

    fn possible(&self, windows: &Windows) -> Option<[usize; 2]> {
        let first = self
            .span
            .first
            .iter()
            .map(|&end| windows.earliest[end] + 1)
            .min()?;
        let last = self.span.last.iter().map(|&end| windows.latest[end]).max()?;
        let [first, last] = [first.max(self.boundaries[0]), last.min(self.boundaries[1])];
        (first <= last).then_some([first, last])
    }

    /// The same in narrower windows.
    pub(super) fn narrowed(mut self, windows: &Windows) -> Option<Self> {
        let [first, last] = self.possible(windows)?;
        self.between_ns = self.between_ns[first - self.boundaries[0]..][..last - first].to_vec();
        self.boundaries = [first, last];
        Some(self)
    }

    /// Counts more at boundaries that it crosses more often than their neighbours, by one part in so many for each time; whether anything
    /// changes.
    pub(super) fn learnt(&self, crosses: impl Fn(usize) -> i128, parts: i128) -> Vec<i128> {
        let first = self.boundaries[0];
        let learnt = self.between_ns.iter().enumerate().map(|(at, between_ns)| {
            let more = crosses(first + at) - crosses(first + at + 1);
            (between_ns + more * self.span.ns / parts).clamp(-self.span.ns, self.span.ns)
        });
        learnt.collect()
    }

    /// What stages next to a boundary count for it where it crosses there.
    ///
    /// The stage between two boundaries pays for what crosses one of them, and may pay nothing for what crosses both.
    pub(super) fn at(&self, stages: usize) -> Option<Totals> {
        let [first, last] = self.boundaries;
        if !(first..=last).contains(&stages) {
            return None;
        }
        let at = stages - first;
        Some(Totals {
            need_ns: if at == 0 {
                self.span.ns
            } else {
                -self.between_ns[at - 1]
            },
            carried_ns: -self.between_ns.get(at).unwrap_or(&self.span.ns),
        })
    }
}

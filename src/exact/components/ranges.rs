//! Unions of ranges of numbers.

/// Numbers that lie in some of many ranges.
pub(crate) struct RangeUnion {
    /// Ascending, with gaps between them, both ends included.
    ranges: Vec<[u64; 2]>,
}

impl RangeUnion {
    /// The union of ranges, ends included; what ends before it begins is empty.
    pub(crate) fn new(mut ranges: Vec<[u64; 2]>) -> Self {
        ranges.retain(|[from, to]| from <= to);
        ranges.sort_unstable();
        let mut union: Vec<[u64; 2]> = Vec::new();
        for [from, to] in ranges {
            match union.last_mut() {
                Some(last) if from <= last[1].saturating_add(1) => last[1] = last[1].max(to),
                _ => union.push([from, to]),
            }
        }
        Self { ranges: union }
    }

    /// The ranges, ends included.
    pub(crate) fn iter(&self) -> impl Iterator<Item = [u64; 2]> {
        self.ranges.iter().copied()
    }

    /// Whether a number lies in one.
    pub(crate) fn contains(&self, number: u64) -> bool {
        let at = self.ranges.partition_point(|[_, to]| *to < number);
        self.ranges.get(at).is_some_and(|[from, _]| *from <= number)
    }
}

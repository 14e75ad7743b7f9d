//! Ideals of a partial order, one after the other, each one item more or less than the last.

use crate::exact::bits;

/// What happens at the ideals of a [`walk`].
pub(crate) trait Visitor {
    /// An item joins, which makes the ideal with these members. False ends the walk.
    fn enter(&mut self, item: usize, ideal: &[u64]) -> bool;
    /// The item that joined last leaves again.
    fn leave(&mut self, item: usize);
}

/// Meets every ideal but the empty one, once; whether the visitor let it come to its end. `before` has the items directly
/// before each item, which come before it in number as well.
///
/// Items join in ascending numbers only: those of an ideal have one such order, and what each start of it holds is an ideal.
///
/// Time O(d + n / 64) an ideal for n items that come directly before d others each.
pub(crate) fn walk(before: &[Vec<usize>], visitor: &mut impl Visitor) -> bool {
    let mut walk = Walk::new(before);
    let mut path = Vec::new();
    let mut from = 0;
    loop {
        if let Some(item) = bits::first_from(&walk.free, from) {
            walk.enter(item);
            path.push(item);
            from = item + 1;
            if !visitor.enter(item, &walk.ideal) {
                return false;
            }
        } else {
            let Some(item) = path.pop() else {
                return true;
            };
            walk.leave(item);
            from = item + 1;
            visitor.leave(item);
        }
    }
}

/// The ideal in hand, and the items that can join it.
struct Walk {
    /// For each item, those directly behind it.
    after: Vec<Vec<usize>>,
    /// For each item, how many directly before it are not in the ideal.
    missing: Vec<usize>,
    ideal: Box<[u64]>,
    /// Items outside the ideal that nothing outside comes before.
    free: Box<[u64]>,
}

impl Walk {
    fn new(before: &[Vec<usize>]) -> Self {
        let n = before.len();
        let mut after = vec![Vec::new(); n];
        for (item, before) in before.iter().enumerate() {
            before.iter().for_each(|&other| after[other].push(item));
        }
        let words = bits::words(n).max(1);
        Self {
            after,
            missing: before.iter().map(Vec::len).collect(),
            ideal: bits::from_members(words, []),
            free: bits::from_members(words, (0..n).filter(|&item| before[item].is_empty())),
        }
    }

    fn enter(&mut self, item: usize) {
        bits::toggle(&mut self.free, item);
        bits::toggle(&mut self.ideal, item);
        for &other in &self.after[item] {
            self.missing[other] -= 1;
            if self.missing[other] == 0 {
                bits::toggle(&mut self.free, other);
            }
        }
    }

    fn leave(&mut self, item: usize) {
        for &other in &self.after[item] {
            if self.missing[other] == 0 {
                bits::toggle(&mut self.free, other);
            }
            self.missing[other] += 1;
        }
        bits::toggle(&mut self.free, item);
        bits::toggle(&mut self.ideal, item);
    }
}

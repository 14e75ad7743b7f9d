//! Ideals of a partial order, one after the other, each one item more or less than the last.

/// What happens at the ideals of a [`walk`].
pub trait Visitor {
    /// An item joins, which makes the ideal with these bits. False ends the walk.
    fn enter(&mut self, item: usize, bits: &[u64]) -> bool;
    /// The item that joined last leaves again.
    fn leave(&mut self, item: usize);
}

/// Meets every ideal but the empty one, once; whether the visitor let it come to its end. `before` has the items directly
/// before each item, which come before it in number as well.
///
/// Items join in ascending numbers only: those of an ideal have one such order, and what each start of it holds is an ideal.
///
/// Time O(d + n / 64) an ideal for n items that come directly before d others each.
pub fn walk(before: &[Vec<usize>], visitor: &mut impl Visitor) -> bool {
    let n = before.len();
    let mut after = vec![Vec::new(); n];
    for (item, before) in before.iter().enumerate() {
        before.iter().for_each(|&other| after[other].push(item));
    }
    let mut missing: Vec<usize> = before.iter().map(Vec::len).collect();
    let words = n.div_ceil(64).max(1);
    // Items outside the ideal that nothing outside comes before.
    let (mut bits, mut free) = (vec![0; words], vec![0; words]);
    let flip = |set: &mut [u64], item: usize| set[item / 64] ^= 1 << (item % 64);
    let first = |item: &usize| missing[*item] == 0;
    (0..n).filter(first).for_each(|item| flip(&mut free, item));
    let mut path = Vec::new();
    let mut from = 0;
    loop {
        if let Some(item) = next(&free, from) {
            flip(&mut free, item);
            flip(&mut bits, item);
            for &other in &after[item] {
                missing[other] -= 1;
                if missing[other] == 0 {
                    flip(&mut free, other);
                }
            }
            path.push(item);
            from = item + 1;
            if !visitor.enter(item, &bits) {
                return false;
            }
        } else {
            let Some(item) = path.pop() else {
                return true;
            };
            for &other in &after[item] {
                if missing[other] == 0 {
                    flip(&mut free, other);
                }
                missing[other] += 1;
            }
            flip(&mut free, item);
            flip(&mut bits, item);
            from = item + 1;
            visitor.leave(item);
        }
    }
}

/// The first item of a set from some number on.
fn next(set: &[u64], from: usize) -> Option<usize> {
    let mut word = from / 64;
    let mut bits = set.get(word)? & (u64::MAX << (from % 64));
    while bits == 0 {
        word += 1;
        bits = *set.get(word)?;
    }
    Some(word * 64 + bits.trailing_zeros() as usize)
}

/// The items of a set, in ascending order.
pub fn ones(set: impl IntoIterator<Item = u64>) -> impl Iterator<Item = usize> {
    let of_word = |(at, mut bits): (usize, u64)| {
        std::iter::from_fn(move || {
            let item = (bits != 0).then(|| at * 64 + bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some(item)
        })
    };
    set.into_iter().enumerate().flat_map(of_word)
}

/// The bits of a set of items, in so many words.
pub fn set(words: usize, items: impl IntoIterator<Item = usize>) -> Box<[u64]> {
    let mut bits = vec![0; words];
    items
        .into_iter()
        .for_each(|item| bits[item / 64] |= 1 << (item % 64));
    bits.into()
}

/// Numbers that lie in some of many ranges.
pub struct Ranges {
    /// Ascending, with gaps between them, both ends included.
    ranges: Vec<[u64; 2]>,
}

impl Ranges {
    /// The union of ranges, ends included; what ends before it begins is empty.
    pub fn new(mut ranges: Vec<[u64; 2]>) -> Self {
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
    pub fn iter(&self) -> impl Iterator<Item = [u64; 2]> {
        self.ranges.iter().copied()
    }

    /// Whether a number lies in one.
    pub fn contains(&self, number: u64) -> bool {
        let at = self.ranges.partition_point(|[_, to]| *to < number);
        self.ranges.get(at).is_some_and(|[from, _]| *from <= number)
    }
}

//! Sets of small numbers as bits of 64-bit words: many sets of the same size lie in one vector, a row of words for each.
//!
//! Where a set stands alone, `fixedbitset` serves.

use std::iter;

/// Words that a set of numbers below `bits` takes.
pub(super) fn words(bits: usize) -> usize {
    bits.div_ceil(64)
}

/// Whether a set holds a number.
pub(super) fn contains(set: &[u64], number: usize) -> bool {
    set[number / 64] >> (number % 64) & 1 == 1
}

/// Adds a number.
pub(super) fn insert(set: &mut [u64], number: usize) {
    set[number / 64] |= 1 << (number % 64);
}

/// Takes a number out.
pub(super) fn remove(set: &mut [u64], number: usize) {
    set[number / 64] &= !(1 << (number % 64));
}

/// Adds a number, or takes it out.
pub(super) fn set(set: &mut [u64], number: usize, is_member: bool) {
    match is_member {
        true => insert(set, number),
        false => remove(set, number),
    }
}

/// Adds a number that is not there, or takes it out.
pub(super) fn toggle(set: &mut [u64], number: usize) {
    set[number / 64] ^= 1 << (number % 64);
}

/// The set of all numbers below `bits`.
pub(super) fn full(bits: usize) -> Box<[u64]> {
    from_members(words(bits), 0..bits)
}

/// The set of some numbers, in so many words.
pub(super) fn from_members(words: usize, members: impl IntoIterator<Item = usize>) -> Box<[u64]> {
    let mut set = vec![0; words];
    members.into_iter().for_each(|number| insert(&mut set, number));
    set.into()
}

/// The numbers in a set, given word by word, in ascending order.
pub(super) fn members(set: impl IntoIterator<Item = u64>) -> impl Iterator<Item = usize> {
    let of_word = |(at, mut word): (usize, u64)| {
        iter::from_fn(move || {
            let number = (word != 0).then(|| at * 64 + word.trailing_zeros() as usize)?;
            word &= word - 1;
            Some(number)
        })
    };
    set.into_iter().enumerate().flat_map(of_word)
}

/// The first number in a set that is not below `from`.
pub(super) fn first_from(set: &[u64], from: usize) -> Option<usize> {
    let mut at = from / 64;
    let mut word = set.get(at)? & (u64::MAX << (from % 64));
    while word == 0 {
        at += 1;
        word = *set.get(at)?;
    }
    Some(at * 64 + word.trailing_zeros() as usize)
}

/// Whether a set holds nothing.
pub(super) fn is_empty(set: &[u64]) -> bool {
    set.iter().all(|word| *word == 0)
}

/// Whether all of one set is in another.
pub(super) fn is_subset(small: &[u64], large: &[u64]) -> bool {
    small.iter().zip(large).all(|(small, large)| small & !large == 0)
}

/// Whether two sets have a number in common.
pub(super) fn intersect(one: &[u64], other: &[u64]) -> bool {
    one.iter().zip(other).any(|(one, other)| one & other != 0)
}

/// The numbers in a set, in ascending order.
pub(super) fn iter(set: &[u64]) -> impl Iterator<Item = usize> {
    members(set.iter().copied())
}

/// The numbers in a set that are not in another, in ascending order.
pub(super) fn without(set: &[u64], other: &[u64]) -> impl Iterator<Item = usize> {
    members(set.iter().zip(other).map(|(set, other)| set & !other))
}

/// Adds all numbers of another set.
pub(super) fn unite(set: &mut [u64], other: &[u64]) {
    set.iter_mut().zip(other).for_each(|(set, other)| *set |= other);
}

/// How many numbers a set holds.
pub(super) fn count(set: &[u64]) -> u32 {
    set.iter().map(|word| word.count_ones()).sum()
}

/// Sets of numbers below the same bound, a row each.
#[derive(Debug, Clone)]
pub struct Rows {
    words: usize,
    flat: Vec<u64>,
}

impl Rows {
    /// So many empty sets of numbers below `bits`.
    pub(crate) fn new(rows: usize, bits: usize) -> Self {
        let words = words(bits);
        Self {
            words,
            flat: vec![0; rows * words],
        }
    }

    /// The set in a row.
    pub(crate) fn row(&self, at: usize) -> &[u64] {
        &self.flat[at * self.words..][..self.words]
    }

    /// The set in a row, to be changed.
    pub(crate) fn row_mut(&mut self, at: usize) -> &mut [u64] {
        &mut self.flat[at * self.words..][..self.words]
    }

    /// Adds the numbers of row `from` to row `to`.
    pub(crate) fn unite_rows(&mut self, to: usize, from: usize) {
        for word in 0..self.words {
            self.flat[to * self.words + word] |= self.flat[from * self.words + word];
        }
    }

    /// Rows `at` and `at + 1`, the second to be changed.
    pub(crate) fn pair_mut(&mut self, at: usize) -> (&[u64], &mut [u64]) {
        let (left, right) = self.flat.split_at_mut((at + 1) * self.words);
        (&left[at * self.words..], &mut right[..self.words])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_back_in_order_across_words() {
        let mut set = from_members(3, [130, 0, 63, 64]);
        assert_eq!(members(set.iter().copied()).collect::<Vec<_>>(), [0, 63, 64, 130]);
        assert_eq!(
            [1, 65, 131].map(|from| first_from(&set, from)),
            [Some(63), Some(130), None]
        );
        remove(&mut set, 63);
        toggle(&mut set, 64);
        toggle(&mut set, 65);
        assert!(is_subset(&set, &full(131)) && !is_subset(&full(131), &set));
        assert!(contains(&set, 65) && !contains(&set, 64));
        assert!(intersect(&set, &full(1)) && !intersect(&set[1..2], &[1]));
    }
}

//! Sets of pairs of ideals.

use fixedbitset::FixedBitSet;

use super::part::{Ideal, Part};

/// Pairs of ideals, a row for each ideal of the first part that occurs.
pub struct PairSet {
    rows: Vec<Option<Row>>,
    /// Ideals of the second part.
    width: usize,
    /// Bytes that the rows take.
    pub bytes: usize,
}

/// Ideals of the second part: a list while they are few, then a bit for each.
#[derive(Clone)]
enum Row {
    Few(Vec<Ideal>),
    Many(FixedBitSet),
}

impl PairSet {
    /// No pairs.
    pub fn new(parts: &[Part; 2]) -> Self {
        Self {
            rows: vec![None; parts[0].ideals.len()],
            width: parts[1].ideals.len(),
            bytes: 0,
        }
    }

    /// Whether a pair is there.
    pub fn contains(&self, [first, second]: [Ideal; 2]) -> bool {
        match &self.rows[first as usize] {
            None => false,
            Some(Row::Few(row)) => row.contains(&second),
            Some(Row::Many(row)) => row.contains(second as usize),
        }
    }

    /// Adds a pair that is not there.
    pub fn insert(&mut self, [first, second]: [Ideal; 2]) {
        let row = self.rows[first as usize].get_or_insert_with(|| Row::Few(Vec::new()));
        match row {
            // As many bytes as the bits, or as many as are searched in no time.
            Row::Few(few) if few.len() < (self.width / 32).min(64) => {
                few.push(second);
                self.bytes += size_of::<Ideal>();
            }
            Row::Few(few) => {
                let mut bits = FixedBitSet::with_capacity(self.width);
                few.iter()
                    .chain([&second])
                    .for_each(|&at| bits.insert(at as usize));
                *row = Row::Many(bits);
                self.bytes += self.width / 8;
            }
            Row::Many(bits) => bits.insert(second as usize),
        }
    }

    /// Takes all pairs away.
    pub fn clear(&mut self) {
        self.rows.fill(None);
        self.bytes = 0;
    }
}

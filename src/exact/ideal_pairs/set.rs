//! Sets of pairs of ideals.

use fixedbitset::FixedBitSet;

use crate::exact::components::component::Component;
use crate::exact::components::ideal::Ideal;
use crate::exact::tuning::TUNING;

/// Pairs of ideals, a row for each ideal of the first component that occurs.
pub(super) struct PairSet {
    /// For each ideal of the first component, the number of its row, if it has one, and nothing else: untouched memory costs nothing.
    row_of: Vec<u32>,
    rows: Vec<Row>,
    /// Ideals of the second component.
    width: usize,
    /// Bytes that the rows take.
    pub bytes: usize,
}

/// Ideals of the second component: a list while they are few, then a bit for each.
#[derive(Clone)]
enum Row {
    Few(Vec<Ideal>),
    Many(FixedBitSet),
}

impl PairSet {
    /// No pairs.
    pub(super) fn new(components: &[Component; 2]) -> Self {
        Self {
            row_of: vec![0; components[0].len()],
            rows: Vec::new(),
            width: components[1].len(),
            bytes: 0,
        }
    }

    /// Whether a pair is there.
    pub(super) fn contains(&self, [first, second]: [Ideal; 2]) -> bool {
        let row = (self.row_of[first as usize] as usize).checked_sub(1);
        match row.map(|row| &self.rows[row]) {
            None => false,
            Some(Row::Few(row)) => row.contains(&second),
            Some(Row::Many(row)) => row.contains(second as usize),
        }
    }

    /// Adds a pair that is not there.
    pub(super) fn insert(&mut self, [first, second]: [Ideal; 2]) {
        let row = &mut self.row_of[first as usize];
        if *row == 0 {
            self.rows.push(Row::Few(Vec::new()));
            *row = self.rows.len() as u32;
        }
        let row = &mut self.rows[*row as usize - 1];
        match row {
            // As many bytes as the bits, or as many as are searched in no time.
            Row::Few(few) if few.len() < (self.width / 32).min(TUNING.most_listed_pairs_of_a_row) => {
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
    pub(super) fn clear(&mut self) {
        self.row_of.fill(0);
        self.rows.clear();
        self.bytes = 0;
    }
}

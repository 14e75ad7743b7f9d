//! Tables of weights that several layers read, such as the embedding of words that is the head as well.

use std::collections::BTreeMap;

use super::Network;

/// A table that layers share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedTable {
    /// Its name.
    pub name: String,
    /// The layers that read it, by position, ascending: at least two.
    pub layers: Vec<usize>,
}

impl Network {
    /// The tables that several layers share, by name. Time O(layers log layers).
    pub(crate) fn shared_tables(&self) -> Vec<SharedTable> {
        let mut readers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, layer) in self.layers.iter().enumerate() {
            if let Some(name) = &layer.shared {
                readers.entry(name).or_default().push(at);
            }
        }
        let tables = readers.into_iter().filter(|(_, layers)| layers.len() > 1);
        tables
            .map(|(name, layers)| SharedTable {
                name: name.to_owned(),
                layers,
            })
            .collect()
    }
}

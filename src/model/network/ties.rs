//! Ties that keep more together than their own layers: what lies between tied layers lies with them, since data flow from stage to stage.

use std::collections::BTreeMap;

use super::Network;
use super::items::contract;
use crate::model::fault::printable;

/// Forward layers that share a stage because of a tie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tied {
    /// The tie; where several overlap, the first of them.
    pub tie: String,
    /// The layers that it names, by position.
    pub named: Vec<usize>,
    /// All layers that it keeps together, sorted.
    pub together: Vec<usize>,
}

impl Tied {
    /// Layers that no tie names and that lie with those that it names.
    pub(crate) fn layers_between(&self) -> usize {
        self.together.len() - self.named.len()
    }

    /// The tie with the layers that it names and how many come with them, in words that are fit for a terminal.
    pub(crate) fn in_words(&self, network: &Network) -> String {
        let name = |&at: &usize| format!("`{}`", network.layers[at].id);
        let named = match self.named.as_slice() {
            [first, last] => format!("{} and {}", name(first), name(last)),
            [first, .., last] => format!("{} .. {} ({} layers)", name(first), name(last), self.named.len()),
            named => named.iter().map(name).collect(),
        };
        let between = match self.layers_between() {
            0 => String::new(),
            1 => ", and the layer between them".into(),
            more => format!(", and the {more} layers between them"),
        };
        printable(&format!("tie `{}` keeps {named} together{between}", self.tie))
    }
}

impl Network {
    /// What the ties of forward layers keep together, where they name at least two of them; that of most layers first.
    ///
    /// Time O((layers + tensors and their consumers) log layers).
    pub(crate) fn tied(&self) -> Vec<Tied> {
        let is_forward = |at: usize| !self.layers[at].backward;
        let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, layer) in self.layers.iter().enumerate().filter(|&(at, _)| is_forward(at)) {
            if let Some(tie) = &layer.tie {
                members.entry(tie.as_str()).or_default().push(at);
            }
        }
        members.retain(|_, members| members.len() > 1);
        if members.is_empty() {
            return Vec::new();
        }
        let mut order = Vec::new();
        for tensor in self.tensors.iter().filter(|tensor| is_forward(tensor.producer)) {
            let consumers = tensor.consumers.iter().filter(|&&to| is_forward(to));
            order.extend(consumers.map(|&to| (tensor.producer, to)));
        }
        let pairs = members
            .values()
            .flat_map(|members| members.windows(2).map(|pair| (pair[0], pair[1])));
        let items = contract(self.layers.len(), pairs, &order);
        let mut found: BTreeMap<usize, Tied> = BTreeMap::new();
        for (tie, own) in members {
            let item = items.item_of[own[0]];
            let tied = found.entry(item).or_insert_with(|| Tied {
                tie: tie.to_owned(),
                named: Vec::new(),
                together: items.members[item].clone(),
            });
            tied.named.extend(own);
        }
        let mut found: Vec<Tied> = found.into_values().collect();
        found.iter_mut().for_each(|tied| tied.named.sort_unstable());
        found.sort_by_key(|tied| std::cmp::Reverse(tied.together.len()));
        found
    }

    /// Layers that neither read nor feed another, by position, where there are others to be ordered with.
    #[cfg(feature = "cli")]
    pub(crate) fn unordered(&self) -> Vec<usize> {
        let mut is_ordered = vec![false; self.layers.len()];
        for tensor in self.tensors.iter().filter(|tensor| !tensor.consumers.is_empty()) {
            is_ordered[tensor.producer] = true;
            tensor.consumers.iter().for_each(|&to| is_ordered[to] = true);
        }
        match self.layers.len() {
            0 | 1 => Vec::new(),
            all => (0..all).filter(|&at| !is_ordered[at]).collect(),
        }
    }

    /// That nothing orders some layers, in a sentence that is fit for a terminal; `None` where tensors order all.
    #[cfg(feature = "cli")]
    pub(crate) fn unordered_in_words(&self) -> Option<String> {
        let unordered = self.unordered();
        let name = |&at: &usize| format!("`{}`", self.layers[at].id);
        let names = match unordered.as_slice() {
            [] => return None,
            [only] => name(only),
            [first, last] => format!("{} and {}", name(first), name(last)),
            [first, .., last] => format!("{} .. {}", name(first), name(last)),
        };
        let (count, all) = (unordered.len(), self.layers.len());
        let which = match count == all {
            true => format!("none of the {all} layers reads another"),
            false => format!("{count} of {all} layers read no other and are read by none"),
        };
        let all = format!("{which} ({names}): nothing orders them, unless `tensors` say what flows between");
        Some(printable(&all))
    }
}

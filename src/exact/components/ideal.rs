//! Ideals of a component, and stages between pairs of them.

/// Position of an ideal in its component, by growing work.
pub(crate) type Ideal = u32;

/// Which way a search takes stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Towards {
    /// From the last stage: ideals shrink.
    Start,
    /// From the first stage: ideals grow.
    End,
}

impl Towards {
    /// Of two ideals, or two pairs, at the ends of a stage, the larger one first.
    pub(crate) fn larger_first<T>(self, from: T, to: T) -> [T; 2] {
        match self {
            Self::Start => [from, to],
            Self::End => [to, from],
        }
    }
}

/// The stage between two pairs of ideals: what is in `whole` and not in `rest`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairStage {
    /// The larger ideals.
    pub whole: [Ideal; 2],
    /// The smaller ideals.
    pub rest: [Ideal; 2],
}

impl PairStage {
    /// The stage that leads from one pair to another.
    pub(crate) fn new(towards: Towards, from: [Ideal; 2], to: [Ideal; 2]) -> Self {
        let [whole, rest] = towards.larger_first(from, to);
        Self { whole, rest }
    }
}

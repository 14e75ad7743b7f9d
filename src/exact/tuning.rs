//! Every number that the exact engine was tuned by, with the reason of each.

use std::time::Duration;

/// Limits of effort and of size. None of them changes an answer; each decides how soon it comes.
///
/// A *step* is one look at a stage, an item or a pair of slices: about 1 to 100 ns.
pub(crate) struct Tuning {
    /// Programs of the anchored stage bound: each rules out the items of a stage, so a problem that needs more is of another kind.
    pub programs_of_anchors: usize,
    /// Branch-and-bound nodes of each program of the three-block bound.
    pub nodes_of_three_blocks: u64,
    /// Extensions of a stage before anything slower: hundredths of a second's work.
    pub steps_of_ideals_first: u64,
    /// Extensions after which the rest is left to the program beside the ideals: some tenths of a second's work.
    pub steps_of_ideals_beside: u64,
    /// Pairs of slices that are passed over before anything slower: seconds of work.
    pub steps_of_pairs: u64,
    /// Pairs of slices that are passed over beside the program.
    pub steps_of_pairs_beside: u64,
    /// Pairs of slices of a relaxed problem: some seconds of work.
    pub steps_of_relaxed_pairs: u64,
    /// Ideals of a component that a coarser problem leaves: enough for plans near the bound.
    pub coarse_ideals: usize,
    /// Pairs of slices of a coarser problem: some tenths of a second's work.
    pub steps_of_coarse_pairs: u64,
    /// How long the ideals are alone: a program that is begun cannot be stopped at once, and most ideals need less.
    pub head_start_of_ideals: Duration,
    /// Places for items, stages times items, beyond which a program takes longer to build than ideals to search: it comes last
    /// and alone. A transformer of 20,000 operators takes 0.5 s so, 2.2 s with a program beside.
    pub places_of_programs: usize,
    /// Binaries that are few: programs of this size are mostly solved at the root, in thousandths of a second.
    pub few_binaries: usize,
    /// Nodes after which a program of few binaries is left for later.
    pub nodes_of_few_binaries: u64,
    /// Solutions that cost no less than the incumbent after all, after which the solver's tolerance is too wide for a proof.
    pub solutions_excluded: usize,
    /// Runs of a program of heterogeneous workers that found nothing better and proved nothing either, after which it gives up.
    pub retreats: u64,
    /// How far below the incumbent each of them asks beyond the last, relatively: a few times the solver's tolerance.
    pub retreat: f64,
    /// Steps of a pass over pairs of ideals at first: hundredths of a second's work.
    pub steps_of_a_pass: u64,
    /// The same with blocking transfers, about a second's: the time of a pass grows steadily with its limit there, so that lower ones
    /// tell less.
    pub steps_of_a_blocking_pass: u64,
    /// How many times as many steps a pass may take where no lower limit tells more.
    pub growth_of_passes: u64,
    /// How many times as many with blocking transfers, where it asks for anything better: it may be the last.
    pub growth_of_last_blocking_pass: u64,
    /// What is open is asked for at once where it is a smaller share of the incumbent than one in so many.
    pub asked_at_once: u64,
    /// Halvings of what is open without a plan after which a pass asks for anything better.
    pub halvings: usize,
    /// The same with blocking transfers, where all passes take as long.
    pub halvings_if_blocking: usize,
    /// Corridors around an incumbent: ideals on either side, and limits without a plan after which anything better is asked for.
    pub corridors: [(usize, usize); 3],
    /// Steps of a pass in one: some tenths of a second's work.
    pub steps_nearby: u64,
    /// Passes in one that may take longer.
    pub stops_nearby: usize,
    /// What is open is no longer halved there where it is a smaller share of the incumbent than one in so many.
    pub not_halved_nearby: u64,
    /// Pendant items take at most one part in so many of a stage.
    pub pendant_share: u64,
    /// Heterogeneous workers: steps over ideals and devices before a program with few places, tenths of a second's work.
    pub steps_of_devices_first: u64,
    /// The same before a program with many places: minutes of work.
    pub steps_of_devices: u64,
    /// Places for items that are few: stages times items times choices.
    pub few_places_of_devices: usize,
    /// Stages that exhaustive search looks at before the program: a second's work.
    pub stages_of_tree_first: u64,
}

/// The numbers in use.
pub(crate) const TUNING: Tuning = Tuning {
    programs_of_anchors: 8,
    nodes_of_three_blocks: 50,
    steps_of_ideals_first: 200_000,
    steps_of_ideals_beside: 5_000_000,
    steps_of_pairs: 20_000_000_000,
    steps_of_pairs_beside: 100_000_000_000,
    steps_of_relaxed_pairs: 4_000_000_000,
    coarse_ideals: 100_000,
    steps_of_coarse_pairs: 50_000_000,
    head_start_of_ideals: Duration::from_millis(50),
    places_of_programs: 100_000,
    few_binaries: 160,
    nodes_of_few_binaries: 1,
    solutions_excluded: 8,
    retreats: 6,
    retreat: 1e-8,
    steps_of_a_pass: 10_000_000,
    steps_of_a_blocking_pass: 200_000_000,
    growth_of_passes: 8,
    growth_of_last_blocking_pass: 4,
    asked_at_once: 1 << 20,
    halvings: 8,
    halvings_if_blocking: 3,
    corridors: [(64, 7), (256, 5), (1024, 4)],
    steps_nearby: 20_000_000,
    stops_nearby: 3,
    not_halved_nearby: 4096,
    pendant_share: 100,
    steps_of_devices_first: 20_000_000,
    steps_of_devices: 4_000_000_000,
    few_places_of_devices: 2_000,
    stages_of_tree_first: 200_000,
};

//! Constants that decide where exact searches spend their time and memory. Answers stay right with other values; they come sooner
//! or later.
//!
//! Each says what the value rests on: a measurement, a size that follows from the machine, or nothing but judgement ("not
//! measured").

use std::time::Duration;

/// How much effort a round of ideals and program beside each other takes at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Pairs of slices that are passed over without transfers, before anything else.
    pub work_alone: u64,
    /// Pairs of slices that are passed over.
    pub pairs: u64,
    /// Work of the tree search over ideals.
    pub tree: u64,
    /// Steps over the stages of a diagram.
    pub stages: u64,
    /// Extensions of a stage.
    pub ideals: u64,
    /// Whether the search with labels, for iterations, has its turn.
    pub labels: bool,
    /// Branch-and-bound nodes of each program; `None` for all it takes.
    pub nodes: Option<u64>,
}

impl Round {
    /// More effort for both halves.
    pub(crate) fn larger(self) -> Self {
        let larger = |effort: u64| effort.saturating_mul(TUNING.growth_within_a_round);
        Self {
            // Asked once a round.
            work_alone: 0,
            labels: false,
            pairs: larger(self.pairs),
            tree: larger(self.tree),
            stages: larger(self.stages),
            ideals: larger(self.ideals),
            nodes: self.nodes.map(larger),
        }
    }
}

/// Declares the constants: name, type, value and reason of each in one place.
macro_rules! tuning {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $value:expr,)+) => {
        /// See the module.
        pub(crate) struct Tuning {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        /// The values in use.
        pub(crate) const TUNING: Tuning = Tuning { $($name: $value,)+ };
    };
}

tuning! {
    // ideals/

    /// Steps of a growing stage between two looks at the clock, some 10 microseconds: with fewer the clock would cost more than the steps,
    /// with many more a search would stop late. Not measured.
    growth_steps_between_clock_looks: u64 = 1 << 12,
    /// Items before one that is left whose predecessors are barred from the stage too. They prune what costs too much for good: with all of them
    /// every step takes as long as the network is large. 10,000 operators in 32 stages take as many steps with 8 as with all, and 0.5 s of
    /// processor time instead of 6.2 s; 60 wide layers in 4 stages reach 4 % fewer ideals in as many steps with 8, and as many with 32.
    items_barred_at_once: usize = 16,
    /// Bytes of a reached ideal beside its two bit sets, with what a vector and a hash table that double leave free: estimated from
    /// the sizes of their entries.
    bytes_of_a_reached_ideal: usize = 192,

    // stage_diagram/

    /// Nodes of a diagram, at most: some tenths of a second to follow.
    most_diagram_nodes: usize = 400_000,
    /// Bytes of a node with the least labels, each node of a layer in tables that double: estimated from the sizes of their entries.
    bytes_of_a_diagram_node: usize = 2048,
    /// Steps that a node counts for, beside those of its labels.
    steps_of_a_diagram_node: u64 = 64,
    /// Labels of a diagram, about.
    labels_of_a_diagram: usize = 8_000_000,
    /// Room for one of them: its 16 bytes, and as much again for three others that come and go.
    bytes_for_a_label: usize = 64,
    /// Labels of a node, at least and at most: with fewer, loads are rounded down by more.
    labels_of_a_node: [usize; 2] = [64, 512],
    /// Rounds in which prices are raised, at most: from work alone, and from those for another limit.
    rounds_of_prices: [usize; 2] = [12, 4],
    /// Rounds in a row that gain little, after which prices are left alone.
    idle_rounds_of_prices: usize = 2,
    /// Sets of items kept of each number of stages, in the first passes.
    prefixes_at_first: usize = 100,
    /// How many times as many the next passes keep.
    growth_of_prefixes: usize = 10,
    /// What is open is halved down to this part of the limit.
    not_halved_by_diagrams: u64 = 1000,
    /// What part of the slack a round must gain.
    least_gain_of_a_round: u64 = 50,

    // unordered_items

    /// Ideals of the ordered items, at most: pairs of them are looked at one by one, which takes a second for the 2,906 of BERT's training graph.
    most_ideals_beside_unordered: usize = 4_000,
    /// Unordered items that exchange tensors with each other, at most: all sets of them are looked at. Not measured.
    most_unordered_in_a_group: u32 = 8,
    /// Unordered items decided in all: about a second's work (ResNet-50 training in 4 stages takes a third of it).
    steps_of_unordered_items: u64 = 20_000_000,

    // components/

    /// Ideals of one component that are listed if all of them are. Beyond, passes hardly ever end in time, and the program has the
    /// machine to itself.
    most_ideals: usize = 300_000,
    /// Ideals of one component that are listed if only those are that lie near the bound: with more a problem is still tried, at the cost of
    /// memory and of longer passes. Not measured.
    most_ideals_near_bound: usize = 1_000_000,
    /// Ideals visited for each one that may be listed. A visit takes some 30 ns (EfficientNet, 13.8 million ideals), so that all
    /// take less than a second.
    visits_per_listed_ideal: usize = 32,
    /// Where ideals near the bound are too many, the factor by which the limit moves towards the bound: a larger one finds a list that is
    /// short enough in fewer trials, and may leave out more than it must. Not measured.
    limit_shrink_factor: u64 = 4,

    // cut_states/

    /// Pairs of ideals before a boundary that are looked at one by one in a round: hundredths of a second's work.
    most_pairs_of_a_round: usize = 1 << 17,
    /// Pairs of leaves looked at in the time of one pair of inner nodes: it shares the work of a round between the two. Not measured.
    leaf_pairs_per_node_pair: usize = 64,
    /// Levels of a tree that one thread bounds at a time: more make for less overhead a thread, fewer for work that is shared out more
    /// evenly. Not measured.
    levels_of_a_block: usize = 8,
    /// One part in so many of the slack must go in a round for another round to follow: more rounds leave fewer cut states, each at the cost
    /// of another look at all of them. Not measured.
    slack_share_for_another_round: u64 = 8,
    /// One part in so many of the slack must go with a lower limit for its cut states to be looked for; below that those of the looser limit
    /// are taken, which are more than need be but known. Not measured.
    slack_share_for_lower_limit: u64 = 24,

    // ideal_pairs/

    /// Pairs of ideals beyond which plans near the incumbent are looked for first: for Inception v3 on our CPU in 8 stages the best
    /// of them is optimal after 1.6 s.
    pairs_for_corridors: usize = 10_000_000,
    /// Pairs of a layer that beam searches keep, one search after the other: a wide beam finds more plans and takes longer, so narrow ones
    /// come first. Not measured.
    beam_widths: [usize; 3] = [8, 64, 512],
    /// Where dominated pairs cannot be told, successors that a beam search takes of each pair: more of them leave a better choice for the
    /// next layer, and cost time on this one. Not measured.
    beam_successors: usize = 8,
    /// Where they can, how many times as much as the average a stage of a beam search may leave idle of its limit: a small factor leaves few
    /// stages to look at, but may miss those that a plan needs. Not measured.
    beam_idle_factor: u64 = 4,
    /// A prime by which a beam search starts at another successor for each pair.
    beam_stride: usize = 7919,
    /// Steps of a layer that is taken whatever the other end costs: a millisecond's work.
    steps_of_a_cheap_layer: u64 = 1_000_000,
    /// Bytes of the set of pairs met from one end: with more a longer pass is possible, in memory that other steps need too. Not measured.
    most_bytes_of_met_pairs: usize = 1 << 30,
    /// Ideals at the far ends of slices that are kept at a time, four bytes each: memory against listing them again. Not measured.
    most_reachable_ideals: usize = 100_000_000,
    /// Pairs of a layer that tell what the next one costs: a larger sample chooses the cheaper end more surely, and costs more itself. Not
    /// measured.
    pairs_sampled_for_cost: usize = 16,
    /// Ideals looked at, more or less, for the stages from a batch of pairs: it makes batches small where ideals are many, since memory is
    /// given back only between batches. Not measured.
    ideals_of_a_batch: usize = 4_000_000,
    /// Pairs in a batch, at least and at most: enough that all threads have work, and not so many that a search stops late. Not measured.
    pairs_of_a_batch: [usize; 2] = [8, 512],
    /// Pairs with the same second ideal that a thread goes on from at a time: they share what is looked up for that ideal, while smaller
    /// groups are shared out more evenly. Not measured.
    pairs_of_a_group: usize = 32,
    /// Steps between two looks at the clock: some milliseconds.
    pair_steps_between_clock_looks: u64 = 1_000_000,
    /// Pairs in a row of a set of pairs that stay a list, at most: so few are searched as fast as bits are found.
    most_listed_pairs_of_a_row: usize = 64,
    /// Leaf pairs looked at one by one for a layer, and node pairs refined, at most: beyond, a pass is given up before it takes time and
    /// memory that a lower limit would spare. Not measured.
    layer_leaf_and_node_pairs: [usize; 2] = [1 << 20, 1 << 21],
    /// The same in a beam search, which looks at a sample of the rest: fewer, since it is to be quick. Not measured.
    beam_leaf_and_node_pairs: [usize; 2] = [1 << 17, 1 << 15],
    /// Pairs, counted with those they may be reached from, that are looked at between two looks at the clock: more keep all threads at work,
    /// fewer let a search stop in time. Not measured.
    reached_pairs_between_clock_looks: usize = 1 << 24,
    /// Pairs looked at between two looks at the clock, at least, so that threads have something to share. Not measured.
    least_pairs_between_clock_looks: usize = 64,
    /// Steps that looking at a stage between two pairs counts for, so that limits of steps mean about the same time whatever a pass does: on
    /// slow-1064 of the cases 200 million stages took 12 s, where as many pairs that had been met before take half a second.
    steps_of_a_stage: u64 = 32,
    /// Steps that looking at a pair of nodes counts for, likewise. Not measured.
    steps_of_a_node_pair: u64 = 8,

    // presolve/

    /// Order pairs that a round follows to tell which item before another is the last: tenths of a second's work. Measured networks take less
    /// than a hundredth of it.
    steps_of_absorbing: usize = 20_000_000,

    // bounds/

    /// Items and consumers looked at in cuts around single items: tenths of a second's work.
    most_cut_steps: usize = 10_000_000,
    /// Dual feasible functions that count parts, up to so many parts of a stage: an item smaller than one part counts for nothing, and few
    /// stages hold as many items of a kind. Not measured.
    parts_of_dual_feasible: u64 = 100,
    /// Works that are taken for small, the smallest first, in as many functions. Not measured.
    thresholds_of_dual_feasible: usize = 1_000,

    // homogeneous/ and heterogeneous/

    /// Programs of the anchored stage bound: each rules out the items of a stage, so a problem that needs more is of another kind.
    programs_of_anchors: usize = 8,
    /// Relaxations of a boundary in a chain of them, and items and transfers looked at in all of these, at most: two seconds' work,
    /// twenty seconds', and minutes' (NASNet in 8 stages, 1,250 items, has a gap of 0.5 % within the first two).
    efforts_of_chains: [[u64; 2]; 3] = [[32, 1_000_000], [1_000, 12_000_000], [1_000, 80_000_000]],
    /// Places for items, stages times items, beyond which the second effort comes before the first round of ideals and program, not behind:
    /// random networks of 120 layers in 8 stages are proved by that round in seconds, NASNet in none of them.
    places_of_chains_first: usize = 5_000,
    /// One part in so many of these relaxations is taken in the first rounds. Not measured.
    nodes_of_quick_chains: usize = 16,
    /// Rounds with few relaxations, and with all of them. Not measured.
    rounds_of_chains: [usize; 2] = [8, 4],
    /// Steps by which shares of a transfer change are one part in so many of it at first, and smaller from round to round. Not
    /// measured.
    parts_of_first_step_of_shares: i128 = 4,
    /// What is open is halved down to this part of the limit by chains of boundaries.
    not_halved_by_chains: u64 = 4096,
    /// Branch-and-bound nodes of each program of the three-block bound.
    nodes_of_three_blocks: u64 = 50,
    /// Extensions of a stage before anything slower: hundredths of a second's work.
    steps_of_ideals_first: u64 = 200_000,
    /// Extensions of a stage in a problem too large for a program, before the thorough steps: some tenths of a second's work.
    steps_of_ideals_next: u64 = 5_000_000,
    /// Searches over ideals before anything slower: tenths of a second each; more pairs of ideals where transfers are blocking, since
    /// cut states leave few of them to look at closely (GoogLeNet in 6 stages takes 1.2 s so, 2.3 s where the program comes between).
    short_rounds: [Round; 2] = [
        Round { work_alone: 0, pairs: 20_000_000, tree: 60_000_000, stages: 2_000_000, ideals: 200_000, labels: false, nodes: Some(0) },
        Round { work_alone: 0, pairs: 500_000_000, tree: 60_000_000, stages: 30_000_000, ideals: 200_000, labels: false, nodes: Some(0) },
    ],
    /// Rounds of ideals and program beside each other, each with about ten times the effort of the last: tenths of a second, seconds,
    /// and whatever it takes. The program of the last round ends with a proof alone.
    rounds: [Round; 3] = [
        Round { work_alone: 4_000_000_000, pairs: 2_000_000_000, tree: 600_000_000, stages: 300_000_000, ideals: 5_000_000, labels: true, nodes: Some(500) },
        Round { work_alone: 0, pairs: 5_000_000_000, tree: 6_000_000_000, stages: 3_000_000_000, ideals: 50_000_000, labels: false, nodes: Some(50_000) },
        Round { work_alone: 0, pairs: 500_000_000_000, tree: u64::MAX, stages: 50_000_000_000, ideals: 500_000_000, labels: false, nodes: None },
    ],
    /// How many times as much one half of a round does than before, where it is done and the other, ideals or program, is not.
    growth_within_a_round: u64 = 4,
    /// Pairs of slices that are passed over without transfers, or without pendant items: before a small program, before another one, and
    /// once that was too little, some seconds of work (EfficientNet without transfers in 8 stages takes more than half of them). With the
    /// first, slow-1171 of the cases is proved in 2 s of processor time; the second takes 4 s before the program begins, which needs 0.7 s.
    steps_of_relaxed_pairs: [u64; 3] = [20_000_000, 200_000_000, 4_000_000_000],
    /// How long the ideals are alone: a program that is begun cannot be stopped at once, and most ideals need less.
    head_start_of_ideals: Duration = Duration::from_millis(50),
    /// Places for items, stages times items, beyond which a program takes longer to build than ideals to search: it comes last
    /// and alone. A transformer of 20,000 operators takes 0.5 s so, 2.2 s with a program beside.
    places_of_programs: usize = 100_000,
    /// Places up to which a program is small: its turn comes before long ones of ideals alone. slow-1021, slow-1116 and slow-1171 of the
    /// cases, with about 100, take some tenths of a second so, and more than 10 s otherwise; most measured networks have a thousand and more.
    places_of_small_programs: usize = 300,
    /// Solutions that cost no less than the incumbent after all, after which the solver's tolerance is too wide for a proof.
    solutions_excluded: usize = 8,

    // virtual_stages/

    /// Steps of the exchange between devices, before the searches that prove, and again before the program: one second and three.
    steps_of_chunk_exchange: [u64; 2] = [1 << 23, 1 << 25],
    /// Limits out of its reach, one after the other, that end it.
    failures_of_chunk_exchange: u32 = 100,

    /// Steps of the search over chains whose items repeat, before the others: seconds. 96 blocks of two kinds in turn, in 32 chunks, are not
    /// proved with 2^27.
    steps_of_repeated_chains: u64 = 1 << 29,
    /// Steps of the search over chains where devices have more than two chunks, before the program: ten seconds. 96 uneven blocks in three chunks
    /// on each of eight devices take one second, in four chunks more than a minute.
    steps_of_chunk_chains: u64 = 1 << 28,
    /// Steps of the search over ideals and loads before the program, a second or so. Not measured.
    steps_of_chunk_ideals: u64 = 1 << 20,
    /// Stages with modes that make no better plan after all, after which the same is said. Each takes a run; not measured.
    modal_stages_excluded: usize = 500,
    /// Runs of a program of heterogeneous workers that found nothing better and proved nothing either, after which it gives up.
    retreats: u64 = 6,
    /// How far below the incumbent each of them asks beyond the last, relatively: a few times the solver's tolerance.
    retreat: f64 = 1e-8,
    /// Steps of a pass over pairs of ideals at first: hundredths of a second's work.
    steps_of_a_pass: u64 = 10_000_000,
    /// The same with blocking transfers, about a second's: the time of a pass grows steadily with its limit there, so that lower ones
    /// tell less.
    steps_of_a_blocking_pass: u64 = 200_000_000,
    /// How many times as many steps a pass may take where no lower limit tells more.
    growth_of_passes: u64 = 8,
    /// How many times as many with blocking transfers, where it asks for anything better: it may be the last.
    growth_of_last_blocking_pass: u64 = 4,
    /// What is open is asked for at once where it is a smaller share of the incumbent than one in so many.
    asked_at_once: u64 = 1 << 20,
    /// The same for passes over cells, which take about as long for any limit.
    asked_at_once_over_cells: u64 = 50,
    /// Halvings of what is open without a plan after which a pass asks for anything better.
    halvings: usize = 8,
    /// The same with blocking transfers, where all passes take as long.
    halvings_if_blocking: usize = 3,
    /// Corridors around an incumbent: ideals on either side, and limits without a plan after which anything better is asked for.
    corridors: [(usize, usize); 3] = [(64, 7), (256, 5), (1024, 4)],
    /// Steps of a pass in one: some tenths of a second's work.
    steps_nearby: u64 = 20_000_000,
    /// Passes in one that may take longer.
    stops_nearby: usize = 3,
    /// What is open is no longer halved there where it is a smaller share of the incumbent than one in so many.
    not_halved_nearby: u64 = 4096,
    /// Pendant items take at most one part in so many of a stage.
    pendant_share: u64 = 100,
    /// Heterogeneous workers: ideals that cells may hold: some hundred megabytes. Not measured.
    most_ideals_in_cells: usize = 1_000_000,
    /// Cells, of which all pairs are looked at. Not measured.
    most_cells: usize = 1 << 16,
    /// Cells that are parted into quarters, not halves.
    cells_in_quarters: usize = 512,
    /// Cells that the passes keep that look for a plan only, before one that keeps all.
    cells_of_a_dive: [usize; 2] = [64, 512],
    /// States of devices that sets of bits are kept of.
    most_device_states: usize = 4096,
    /// Heterogeneous workers: steps over ideals and devices before anything else: hundredths of a second.
    steps_before_cells: u64 = 200_000,
    /// The same beside cells: a second's work (ResNet-50 training on 16 devices of four kinds takes most of it, and four seconds from coarse
    /// to fine).
    steps_beside_cells: u64 = 5_000_000,
    /// Heterogeneous workers: steps over ideals and devices before a program with few places: some seconds of work.
    steps_of_devices_first: u64 = 5_000_000,
    /// The same before a program with many places: minutes of work.
    steps_of_devices: u64 = 1_000_000_000,
    /// Places for items that are few: stages times items times choices.
    few_places_of_devices: usize = 2_000,
    /// Stages that exhaustive search looks at before the program: a second's work.
    stages_of_tree_first: u64 = 200_000,
    /// Assignments, in part or whole, that exhaustive search looks at where workers are alike: tenths of a second before programs are
    /// built, some seconds at last. Not measured.
    steps_of_assignments: [u64; 2] = [100_000, 5_000_000],
    /// Work of the tree search over ideals, turn by turn: tenths of a second, then some seconds.
    work_of_tree: [u64; 2] = [100_000_000, 2_500_000_000],
    /// Nodes of the search over ideals and free devices before anything else, some seconds of work; and behind cells, minutes: 17 unlike
    /// devices (ALWABP tonge 49) are neither done with the first, nor ever with ideals.
    nodes_of_levels: [u64; 2] = [20_000_000, 1_000_000_000],
}

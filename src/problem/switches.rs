//! What an exact search is made of, each part with a switch: all on, unless a developer asks what one is worth.

/// Declares the switches, with the list of their names and access by name: one line a switch.
macro_rules! switches {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Which parts an exact search may use. Whatever is off, answers stay right: searches take longer, or prove less.
        ///
        /// Every switch is held against brute force by `tests/exact/exact.rs`, which takes them from [`Switches::NAMES`], and what each
        /// is worth is measured by `benches/ablation`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Switches {
            $($(#[doc = $doc])+ pub $name: bool,)+
        }

        impl Switches {
            /// The names of all switches.
            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// Everything on.
            pub const ALL: Self = Self { $($name: true,)+ };

            /// Everything off.
            pub const NONE: Self = Self { $($name: false,)+ };

            /// The switch of that name.
            pub fn get_mut(&mut self, name: &str) -> Option<&mut bool> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }
        }
    };
}

switches! {
    /// Quick heuristics before anything else.
    incumbents,
    /// The thorough heuristic between the quick steps and the slow ones.
    evolution,
    /// Rebalancing before each round of searches over ideals: stages share out their items two at a time.
    rebalance,
    /// Items that no plan of interest can separate become one.
    apart,
    /// Items join the neighbour that pays for them anyway.
    absorb,
    /// Symmetry breaking: items that could change places in any plan keep to an order.
    symmetry,
    /// Prefix variables outside an item's stage window are fixed.
    windows,
    /// Dual feasible functions: bounds on how items fit stages.
    dual_feasible,
    /// The anchored stage bound.
    anchored,
    /// What the first stages can carry, boundary by boundary, where transfers are blocking.
    boundary_chain,
    /// What is proved without transfers, for overlapped ones.
    work_alone,
    /// Searches over ideals that account for memory that ties stages together.
    joint_memory,
    /// What is proved where stages hold no more than if the passes of every layer lay together, for memory that ties stages together.
    passes_together,
    /// What the least period says of an iteration by its formula.
    period,
    /// What is proved without pendant items: those that hang on one other alone.
    pendant_items,
    /// The mixed-integer program.
    program,
    /// The program beside the ideals, on a second thread.
    parallel,
    /// The dynamic program over ideals, in the portfolio; with heterogeneous workers over ideals and devices.
    ideals,
    /// The search over stages as paths of a decision diagram, led by prices.
    stage_diagram,
    /// The dynamic program over ideals with labels, for iterations.
    labelled_ideals,
    /// The dynamic program over ideals of ordered items and sets of unordered ones.
    unordered_items,
    /// The dynamic program over pairs of ideals.
    ideal_pairs,
    /// Feasible cut states: pairs of ideals that cannot lie before a boundary, for what must cross it and others, are left out.
    cut_states,
    /// Pairs of ideals are left out where another is reached that can only be better.
    dominance,
    /// Beam search over pairs of ideals: with a few of each layer, where all of them are too many.
    beam,
    /// The tree search over ideals, where there are no transfers.
    ideal_tree,
    /// With heterogeneous workers and without transfers: the search over ideals and free devices, level by level.
    device_levels,
    /// With heterogeneous workers: the dynamic program over ideals and devices from coarse to fine.
    coarse_to_fine,
    /// Exhaustive search over few items; where workers are alike, of what all else leaves open.
    exhaustive,
    /// With iterations of devices that are alike: every stage between two ideals.
    iteration_ideals,
    /// With iterations: paths over cells of ideals, where stages between ideals are too many.
    ideal_cells,
    /// With iterations: loose items lie with their readers, where ideals are too many.
    loose_items,
    /// With modes: the least devices of what is ahead of a label.
    modal_ahead,
    /// With modes: stages that no better plan can have are left out of later passes.
    modal_windows,
    /// With virtual stages and iterations: ranges of what chunks may hold of whole items.
    count_ranges,
    /// With virtual stages and iterations: how many items of a kind each device holds at most, asked device by device.
    count_totals,
    /// With virtual stages: what devices pay for transfers and can hold of a chain, in few runs.
    device_runs,
    /// With virtual stages: the exchange between devices, from the best quick plan.
    chunk_exchange,
    /// With virtual stages: the search over chains whose items repeat.
    repeated_chunks,
    /// With virtual stages: the search over where each round of a chain has come to.
    chunk_chains,
    /// With virtual stages: the search over ideals and loads.
    chunk_ideals,
}

impl Default for Switches {
    fn default() -> Self {
        Self::ALL
    }
}

impl Switches {
    /// Everything but the parts of these names.
    ///
    /// # Errors
    ///
    /// The first name that is none.
    pub fn without<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, &'a str> {
        let mut switches = Self::ALL;
        for name in names {
            *switches.get_mut(name).ok_or(name)? = false;
        }
        Ok(switches)
    }
}

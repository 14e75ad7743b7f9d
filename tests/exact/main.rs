//! Proofs: every exact method against brute force, oracles, known optima and each other.

#[path = "../common/mod.rs"]
mod common;
#[path = "../oracles/mod.rs"]
mod oracles;

mod allocation_exact;
mod allocation_programs;
mod allocation_tied;
mod boundary_chain;
mod cases;
mod chunk_iterations;
mod compose;
mod constraints;
mod context;
mod copies;
mod device_levels;
mod dual_feasible;
mod exact;
mod experts;
mod frozen;
mod ideal_pairs;
mod ideal_tree;
mod idle_items;
mod iteration;
mod joint;
mod joint_chunks;
mod joint_memory;
mod joint_starts;
mod known_optima;
mod laws;
mod link_levels;
mod modal_chunks;
mod modal_iteration;
mod modal_program;
mod modes;
mod optimal_plans;
mod oracles_agree;
mod placement;
mod prompts;
mod random;
mod regions;
mod room;
mod room_groups;
mod runs;
mod separate;
mod separate_chains;
mod separate_gain;
mod sharding;
mod shares;
mod solver;
mod stage_diagram;
mod steps;
mod tie_breaking;
mod ties;
mod virtual_stages;
mod weights;

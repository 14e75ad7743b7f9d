//! Small random problems of workers that differ, the same for the same seed.

use stagecut::instance::Instance;
use stagecut::options::Cuts;
use stagecut::problem::Problem;
use stagecut::spec::InstanceSpec;

use super::draw::{Scope, draw};
use super::problem_of;

/// A small mixed problem with tied cuts and anything else in it, or `None` where the draw is an input fault or workers are alike
/// after all.
pub fn random_mixed(seed: u64) -> Option<(Instance, Problem)> {
    problem_of(&mixed_spec(seed)).filter(|(_, problem)| problem.workers.is_some())
}

/// A mixed problem of 10 to 14 layers that asks for a period, too large for brute force, or `None` where the draw is faulty or workers
/// are alike after all.
pub fn larger_mixed(seed: u64) -> Option<(Instance, Problem)> {
    let scope = Scope {
        layers: [10, 14],
        chain: false,
        mixed: true,
        cuts: Some(Cuts::Tied),
    };
    let spec = draw(format!("larger-mixed-{seed}"), seed, scope);
    problem_of(&spec).filter(|(_, problem)| problem.workers.is_some() && problem.formula().is_bottleneck())
}

/// A network of 3 to 6 layers on 1 to 3 kinds of device, with tied cuts and options of any kind. Every third one is a chain.
pub fn mixed_spec(seed: u64) -> InstanceSpec {
    let scope = Scope {
        layers: [3, 6],
        chain: seed.is_multiple_of(3),
        mixed: true,
        cuts: Some(Cuts::Tied),
    };
    draw(format!("mixed-{seed}"), seed, scope)
}

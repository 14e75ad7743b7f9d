//! Generated instances: the same for a seed, as large as asked, and valid.

use stagecut::exact::control::Control;
use stagecut::generate::transformer::{Transformer, transformer};
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::PipelineOptions;
use stagecut::plan::Status;
use stagecut::problem::Problem;
use stagecut::settings::Settings;

fn asked(operators: u32, seed: u64) -> Transformer {
    Transformer {
        operators,
        hidden: 512,
        sequence: 128,
        micro_batch: 2,
        stages: 8,
        seed,
    }
}

#[test]
fn a_seed_gives_one_instance() {
    assert_eq!(transformer(&asked(500, 7)), transformer(&asked(500, 7)));
    assert_ne!(transformer(&asked(500, 7)), transformer(&asked(500, 8)));
}

#[test]
fn whole_blocks_reach_the_size_asked_for() {
    for operators in [1, 500, 3000] {
        let layers = transformer(&asked(operators, 0)).network.layers;
        // A block has 14 forward operators, as many backward ones, and 8 updates.
        assert!(layers.len() >= operators as usize && layers.len() < operators as usize + 36);
        assert!(layers.iter().any(|layer| layer.id.ends_with(".update")));
    }
}

/// The forward operator, its backward one and the update of its parameters are one item; the engine proves the cut.
#[test]
fn ties_hold_forward_backward_and_update_together() {
    let spec = transformer(&asked(1000, 0));
    let instance = Instance::from_spec(&spec).expect("a valid instance");
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).expect("valid settings");
    let problem = Problem::new(&instance, settings).expect("a valid problem");
    assert_eq!(problem.items.len() * 36, spec.network.layers.len() * 14);
    let exact = methods::find("exact").expect("a registered method");
    let plan = exact
        .run(&instance, &problem, &Control::default())
        .expect("HiGHS works");
    assert_eq!(plan.status, Status::Optimal);
}

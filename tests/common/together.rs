//! Problems of cut and order together, and the chunks of a cut by way of its plan.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stagecut::bound_source::BoundSource;
use stagecut::instance::Instance;
use stagecut::joint::{Question, Weights};
use stagecut::options::{Cuts, MemoryLimit, Mode, Objective, Schedule};
use stagecut::plan::{Outcome, Plan, Statistics, StoppedBy};
use stagecut::problem::{Assignment, Problem};
use stagecut::schedule::{Chunks, Moves, Placement, chunks_of_plan, take_memory};
use stagecut::spec::InstanceSpec;

use crate::common::draw::{Scope, add_parts, draw};

/// A small network to train of so many layers, with or without transfers and memory; every third is a chain.
pub fn spec(seed: u64, layers: [usize; 2]) -> InstanceSpec {
    let scope = Scope {
        layers,
        chain: seed.is_multiple_of(3),
        mixed: false,
        cuts: Some(Cuts::Tied),
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut spec = draw(format!("joint-{seed}"), seed, scope);
    spec.pipeline.mode = Some(Mode::Training);
    spec.pipeline.objective = Some(Objective::Period);
    spec.pipeline.schedule = Some(Schedule::OneFOneB);
    spec.pipeline.stages = Some(6);
    spec.pipeline.devices = Some(6);
    spec.pipeline.memory_limit = Some(MemoryLimit::from(None));
    if seed.is_multiple_of(4) {
        let bytes = rng.random_range(10..=60);
        spec.pipeline.memory_limit = Some(MemoryLimit::Bytes(bytes));
        for layer in &mut spec.network.layers {
            layer.stash_bytes = f64::from(rng.random_range(0..=10u8));
            layer.parameter_bytes = f64::from(rng.random_range(0..=2u8));
        }
    }
    // Two of three have gradients of weights, drawn layer by layer; of the others every second.
    if !(seed / 3).is_multiple_of(3) {
        let parts = std::iter::repeat_with(|| match rng.random_range(0..4) {
            0 => 0.0,
            1 => 1.0,
            _ => rng.random(),
        });
        add_parts(&mut spec.network.layers, parts);
    }
    spec
}

/// What is asked of it, at random.
pub fn question(random: &mut impl Rng, instance: &Instance, problem: &Problem) -> Question {
    let virtual_stages = 1 + usize::from(random.random_range(0..3) == 0);
    let room = random.random_range(0..3) == 0 && problem.settings.memory_limit.is_none();
    Question {
        devices: random.random_range(1..=3),
        virtual_stages,
        placement: if random.random() {
            Placement::V
        } else {
            Placement::Loop
        },
        micro_batches: random.random_range(1..=3),
        weights: match random.random_range(0..5) {
            0 => Weights::Whole,
            1 => Weights::Share(0.5),
            2 => Weights::Share(0.37),
            _ => Weights::of(instance, problem, None),
        },
        room: room.then(|| random.random_range(1..=4)),
    }
}

/// The chunks of a cut by way of its plan; `None` where weights leave no room.
pub fn chunks_of(
    instance: &Instance,
    problem: &Problem,
    question: &Question,
    cut: &Assignment,
) -> Option<Chunks> {
    let outcome = Outcome {
        allocation: Some(cut.clone().into()),
        bound_ns: 0,
        bound_source: BoundSource::None,
        stopped_by: StoppedBy::Completed,
        statistics: Statistics::default(),
    };
    // Devices of several chunks say themselves what moves between them; what they hold is a matter of the order.
    let limit = problem.settings.memory_limit;
    let problem = &match question.virtual_stages {
        1 => problem.clone(),
        chunks => {
            let mut known = problem.clone();
            known.settings.micro_batches = Some(question.micro_batches as u64);
            known.chunked(question.devices, chunks, question.placement)
        }
    };
    let mut plan = Plan::new(instance, problem, "other", outcome);
    plan.problem.memory_limit = Some(MemoryLimit::from(limit));
    let moves = Moves {
        devices: Some(plan.stages.len() / question.virtual_stages),
        placement: question.placement,
        weight_share: match question.weights {
            Weights::Share(share) => Some(share),
            Weights::Whole => Some(0.0),
            Weights::Told(_) => None,
        },
    };
    let mut chunks = chunks_of_plan(&plan, &moves).expect("a plan for training");
    // A plan says what its layers say, which a question may leave out.
    match question.weights {
        Weights::Whole => chunks.may_split = false,
        Weights::Share(_) | Weights::Told(_) => assert!(chunks.may_split),
    }
    match (question.room, limit) {
        (None, Some(limit)) => {
            let taken = take_memory(&mut chunks, &plan, instance);
            let mut resident = vec![0; chunks.devices()];
            for (item, &stage) in problem.items.iter().zip(cut) {
                resident[chunks.chunks[stage].device] += item.base_bytes;
            }
            let fits = resident.iter().all(|&bytes| bytes <= limit);
            assert_eq!(taken.is_ok(), fits, "{taken:?}");
            fits.then_some(chunks)
        }
        (room, _) => {
            chunks.room.iter_mut().for_each(|own| *own = room);
            Some(chunks)
        }
    }
}

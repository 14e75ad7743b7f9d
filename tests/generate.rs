//! Generated instances: the same for a seed, as large as asked, and valid.

use stagecut::control::Control;
use stagecut::generate::random::{Random, random};
use stagecut::generate::transformer::{Attention, Granularity, PRESETS, Precision, Transformer, transformer};
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::PipelineOptions;
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::{LayerSpec, ModeSpec};

fn asked(operators: u32, seed: u64) -> Transformer {
    Transformer {
        operators: Some(operators),
        hidden: Some(512),
        sequence: Some(128),
        micro_batch: Some(2),
        stages: 8,
        spread: 0.1,
        seed,
        ..Transformer::default()
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
        // A block has 12 forward operators, as many backward ones, and 8 updates.
        assert!(layers.len() >= operators as usize && layers.len() < operators as usize + 32);
        assert!(layers.iter().any(|layer| layer.id.ends_with(".update")));
    }
}

/// Solves to proof.
fn prove(asked: &Transformer) -> (Plan, usize) {
    let spec = transformer(asked);
    let instance = Instance::from_spec(&spec).expect("a valid instance");
    let settings = Settings::resolve(&instance, &PipelineOptions::default()).expect("valid settings");
    let problem = Problem::new(&instance, settings).expect("a valid problem");
    let exact = methods::find("exact").expect("a registered method");
    let plan = exact
        .run(&instance, &problem, &Control::default())
        .expect("HiGHS works");
    assert_eq!(plan.status, Status::Optimal, "{asked:?}");
    (plan, problem.items.len())
}

/// The forward operator, its backward one and the update of its parameters are one item; the engine proves the cut.
#[test]
fn ties_hold_forward_backward_and_update_together() {
    let asked = asked(1000, 0);
    let (_, items) = prove(&asked);
    assert_eq!(items * 32, transformer(&asked).network.layers.len() * 12);
}

fn preset(name: &str) -> Transformer {
    Transformer {
        preset: PRESETS.iter().find(|preset| preset.name == name),
        stages: 8,
        ..Transformer::default()
    }
}

/// Parameters in billions. Where the published model's head shares the embedding, the instance has a copy of it.
#[test]
fn presets_have_the_published_number_of_parameters() {
    let published = [
        ("bert-base", 0.110, true),
        ("bert-large", 0.335, true),
        ("gpt2", 0.124, true),
        ("gpt2-xl", 1.558, true),
        ("gpt3-175b", 175.0, true),
        ("llama2-7b", 6.738, false),
        ("llama2-70b", 68.977, false),
        ("llama3-8b", 8.030, false),
        ("llama3-70b", 70.554, false),
        ("llama3-405b", 405.853, false),
    ];
    assert_eq!(published.len(), PRESETS.len());
    for (name, billions, shared) in published {
        let asked = preset(name);
        let preset = asked.preset.unwrap_or_else(|| panic!("no preset {name}"));
        let layers = transformer(&asked).network.layers;
        let bytes: f64 = layers.iter().map(|layer| layer.parameter_bytes).sum();
        let copy = f64::from(preset.vocabulary) * f64::from(preset.hidden);
        let found = (bytes / 2.0 - if shared { copy } else { 0.0 }) / 1e9;
        // Biases, BERT's segments and its pooler are left out: 1.1 % of its smaller model.
        assert!((found / billions - 1.0).abs() < 0.012, "{name}: {found}");
    }
}

/// Forward, a token takes two FLOPs a parameter of a matrix, and four a number of width in every layer and token that it attends to;
/// backward twice as much, and for attention two and a half times.
#[test]
fn presets_have_the_work_that_their_parameters_imply() {
    for model in PRESETS {
        let spec = transformer(&preset(model.name));
        let flops = |granularity| {
            let asked = Transformer {
                granularity,
                ..preset(model.name)
            };
            let layers = transformer(&asked).network.layers;
            let work = layers.iter().filter_map(|layer| layer.work.clone());
            work.fold((0.0, 0.0), |(forward, backward), work| {
                (forward + work.forward_flops, backward + work.backward_flops)
            })
        };
        let in_matrices = spec
            .network
            .layers
            .iter()
            .filter(|layer| !layer.id.starts_with("embedding"));
        let parameters: f64 = in_matrices.map(|layer| layer.parameter_bytes / 2.0).sum();
        let (layers, hidden) = (f64::from(model.layers), f64::from(model.hidden));
        let tokens = f64::from(model.sequence);
        let expected = 2.0 * parameters * tokens + 4.0 * layers * tokens * tokens * hidden;
        for granularity in [Granularity::Operator, Granularity::Block] {
            let (forward, backward) = flops(granularity);
            // Operators between the matrices add up to 2 % in the smallest model.
            assert!(
                (forward / expected - 1.0).abs() < 0.03,
                "{}: {forward}",
                model.name
            );
            assert!(
                (1.7..2.2).contains(&(backward / forward)),
                "{}: {backward}",
                model.name
            );
        }
    }
}

#[test]
fn options_change_a_preset() {
    let asked = Transformer {
        layers: Some(2),
        precision: Some(Precision::Fp32),
        granularity: Granularity::Block,
        ..preset("llama3-8b")
    };
    let spec = transformer(&asked);
    let ids: Vec<&str> = spec
        .network
        .layers
        .iter()
        .map(|layer| layer.id.as_str())
        .collect();
    assert_eq!(ids, ["embedding", "b0", "b1", "head"]);
    // Attention with 8 of 32 heads for keys and values, three matrices of the MLP, two scales.
    let (h, f) = (4096.0, 14_336.0);
    let numbers = h * h * 2.5 + 3.0 * h * f + 2.0 * h;
    assert_eq!(spec.network.layers[1].parameter_bytes, 4.0 * numbers);
    assert_eq!(spec.network.tensors[0].bytes, Some(8192.0 * h * 4.0));
}

/// Blocks of a preset.
fn block(asked: &Transformer) -> LayerSpec {
    let layers = transformer(asked).network.layers;
    layers
        .into_iter()
        .find(|layer| layer.id == "b0")
        .expect("a block")
}

fn mode<'a>(layer: &'a LayerSpec, tensor: usize, recompute: &str) -> &'a ModeSpec {
    let is_it = |mode: &&ModeSpec| {
        mode.tensor == Some(tensor) && mode.recompute.as_deref().unwrap_or("none") == recompute
    };
    layer.modes.iter().find(is_it).expect("a mode")
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * other.abs()
}

/// By hand: 36 bytes a number of width and token in 16 bits, 24 of them split, and attention matrices of heads * sequence beside them.
#[test]
fn modes_of_a_block_are_those_of_megatron() {
    let asked = Transformer {
        attention: Attention::Materialised,
        granularity: Granularity::Block,
        ..preset("gpt3-175b")
    };
    let block = block(&asked);
    assert_eq!(block.modes.len(), 4 * 3);
    let state = 2048.0 * 12_288.0;
    let matrices = 2.0 * 2.0 * 96.0 * 2048.0 * 2048.0;
    let parameters = 2.0 * 12.0 * 12_288.0 * 12_288.0;
    for tensor in [1, 2, 4, 8] {
        let t = tensor as f64;
        let [none, selective, full] = ["none", "selective", "full"].map(|name| mode(&block, tensor, name));
        assert!(near(none.stash_bytes, state * (12.0 + 24.0 / t) + matrices / t));
        assert!(near(selective.stash_bytes, state * (12.0 + 24.0 / t)));
        assert!(near(full.stash_bytes, 2.0 * state));
        assert!(near(full.stash_bytes + full.workspace_bytes, none.stash_bytes));
        assert!(near(
            none.parameter_bytes,
            parameters / t + 2.0 * 2.0 * 2.0 * 12_288.0
        ));
        let reduced = if tensor > 1 { 2.0 * state } else { 0.0 };
        assert_eq!(none.collective_bytes, 4.0 * reduced);
        assert_eq!(selective.collective_bytes, 4.0 * reduced);
        assert_eq!(full.collective_bytes, 6.0 * reduced);
        let [none, selective, full] = [none, selective, full].map(|mode| mode.work.clone().unwrap());
        assert!(near(
            full.backward_flops,
            none.backward_flops + none.forward_flops
        ));
        assert!(selective.backward_flops > none.backward_flops);
        assert_eq!(none.forward_flops, full.forward_flops);
    }
    let [one, eight] = [1, 8].map(|tensor| mode(&block, tensor, "none").work.clone().unwrap());
    assert!((7.9..8.0).contains(&(one.forward_flops / eight.forward_flops)));
    // The layer itself is the first of its modes.
    assert_eq!(Some(one), block.work);
}

#[test]
fn flash_attention_and_sequence_parallelism_keep_less() {
    let asked = Transformer {
        sequence_parallel: true,
        granularity: Granularity::Block,
        ..preset("gpt3-175b")
    };
    let block = block(&asked);
    assert_eq!(block.modes.len(), 4 * 2);
    let state = 2048.0 * 12_288.0;
    for tensor in [1, 2, 4, 8] {
        let t = tensor as f64;
        assert!(near(mode(&block, tensor, "none").stash_bytes, state * 36.0 / t));
        assert!(near(mode(&block, tensor, "full").stash_bytes, state * 2.0 / t));
    }
    // Degrees split the heads of keys and values.
    let asked = Transformer {
        tensor: Some(vec![8, 3, 2]),
        granularity: Granularity::Block,
        ..preset("llama3-8b")
    };
    let modes = &transformer(&asked).network.layers[1].modes;
    let degrees: Vec<_> = modes.iter().map(|mode| mode.tensor).collect();
    assert_eq!(degrees, [Some(2), Some(2), Some(8), Some(8)]);
}

/// Operators with modes are one network with those without: forward, backward and update of each have every degree.
#[test]
fn operators_have_modes_where_they_are_asked_for() {
    let plain = transformer(&preset("llama3-8b")).network.layers;
    assert!(plain.iter().all(|layer| layer.modes.is_empty()));
    let asked = Transformer {
        tensor: Some(vec![1, 4]),
        ..preset("llama3-8b")
    };
    let layers = transformer(&asked).network.layers;
    assert_eq!(layers.len(), plain.len());
    for (layer, plain) in layers.iter().zip(&plain) {
        assert_eq!(layer.work, plain.work);
        assert_eq!(layer.modes.len(), 2, "{}", layer.id);
        assert_eq!(mode(layer, 1, "none").work, plain.work);
    }
    let reduced = |layers: &[LayerSpec], part: &str| -> f64 {
        let of_part = layers
            .iter()
            .filter(|layer| layer.id.starts_with(part) && !layer.modes.is_empty());
        of_part.map(|layer| mode(layer, 4, "none").collective_bytes).sum()
    };
    let blocks = transformer(&Transformer {
        granularity: Granularity::Block,
        ..asked
    });
    for part in ["embedding", "b7", "head"] {
        assert_eq!(
            reduced(&layers, part),
            reduced(&blocks.network.layers, part),
            "{part}"
        );
    }
    assert!(reduced(&layers, "b7") > 0.0);
}

/// GPT-3 operator by operator: 3,083 layers.
#[test]
fn ninety_six_blocks_are_proved_in_8_16_and_32_stages() {
    let mut before = f64::INFINITY;
    for stages in [8, 16, 32] {
        let (plan, items) = prove(&Transformer {
            stages,
            spread: 0.1,
            ..preset("gpt3-175b")
        });
        assert_eq!(items, 96 * 12 + 4);
        let period = plan.objective_ms.expect("an optimal plan");
        assert!(period < before);
        before = period;
    }
}

#[test]
fn random_networks_are_valid_and_as_asked() {
    for seed in 0..20 {
        let chain = Random {
            layers: 15,
            reach: 1,
            seed,
            ..Random::default()
        };
        let spec = random(&chain);
        assert_eq!(spec, random(&chain));
        let instance = Instance::from_spec(&spec).unwrap();
        assert_eq!(instance.network.layers.len(), 15);
        for tensor in &instance.network.tensors {
            assert_eq!(tensor.consumers, [tensor.producer + 1], "a reach of 1 is a chain");
        }
        let branching = random(&Random { reach: 4, ..chain });
        assert_ne!(branching, spec);
        for tensor in &Instance::from_spec(&branching).unwrap().network.tensors {
            let near = |&consumer: &usize| (1..=4).contains(&(consumer - tensor.producer));
            assert!(tensor.consumers.iter().all(near));
        }
    }
}

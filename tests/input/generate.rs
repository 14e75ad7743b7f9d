//! Generated instances: the same for a seed, as large as asked, and valid.

use stagecut::control::Control;
use stagecut::fault::InputError;
use stagecut::generate::random::{Random, random};
use stagecut::generate::transformer::{self, Attention, Granularity, PRESETS, Phase, Precision, Transformer};
use stagecut::instance::Instance;
use stagecut::methods;
use stagecut::options::PipelineOptions;
use stagecut::plan::{Plan, Status};
use stagecut::problem::Problem;
use stagecut::settings::Settings;
use stagecut::spec::{InstanceSpec, LayerSpec, ModeSpec};

/// A network that can be built.
fn transformer(asked: &Transformer) -> InstanceSpec {
    transformer::transformer(asked).expect("heads that come out even")
}

fn asked(operators: u32, seed: u64) -> Transformer {
    Transformer {
        operators: Some(operators),
        hidden: Some(512),
        sequence: Some(128),
        micro_batch: Some(2),
        stages: Some(8),
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
        stages: Some(8),
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
    // Degrees come in order.
    let asked = Transformer {
        tensor: Some(vec![8, 2]),
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
            stages: Some(stages),
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

/// What is wrong with a network that cannot be built: places and remedies.
fn refused(asked: &Transformer) -> Vec<(String, String)> {
    let InputError { faults, .. } =
        transformer::transformer(asked).expect_err("heads that do not come out even");
    let told = faults.into_iter().map(|fault| {
        let hint = fault.kind.hint().unwrap_or_default();
        (fault.at.to_string(), hint.to_string())
    });
    told.collect()
}

#[test]
fn heads_that_do_not_come_out_even_are_refused() {
    let model = || preset("llama3-70b");
    let told = |place: &str, remedy: &str| vec![(place.to_owned(), format!("try `{remedy}`"))];
    let heads = Transformer {
        heads: Some(63),
        ..model()
    };
    assert_eq!(refused(&heads), told("heads", "heads=64"));
    let key_value_heads = Transformer {
        key_value_heads: Some(7),
        ..model()
    };
    assert_eq!(
        refused(&key_value_heads),
        told("key_value_heads", "key_value_heads=8")
    );
    let tensor = Transformer {
        tensor: Some(vec![2, 3]),
        granularity: Granularity::Block,
        ..model()
    };
    assert_eq!(refused(&tensor), told("tensor", "tensor=2"));
    // A preset's heads may not fit another width.
    let hidden = Transformer {
        hidden: Some(8200),
        ..model()
    };
    assert_eq!(refused(&hidden)[0].0, "heads");
    // Heads that nobody gives fit any width.
    for hidden in [1, 7, 100, 1000, 1025] {
        let asked = Transformer {
            hidden: Some(hidden),
            layers: Some(1),
            ..Transformer::default()
        };
        let spec = transformer(&asked);
        Instance::from_spec(&spec).expect("a valid instance");
    }
}

#[test]
fn nobody_else_types_options_into_a_file() {
    let spec = transformer(&Transformer {
        stages: None,
        ..preset("llama3-70b")
    });
    assert_eq!(spec.pipeline, PipelineOptions::default());
    let asked = Transformer {
        stages: Some(6),
        micro_batches: Some(24),
        ..preset("llama3-70b")
    };
    let typed = PipelineOptions {
        stages: Some(6),
        micro_batches: Some(24),
        ..PipelineOptions::default()
    };
    assert_eq!(transformer(&asked).pipeline, typed);
}

#[test]
fn blocks_give_the_name() {
    for granularity in [Granularity::Block, Granularity::Operator] {
        let spec = transformer(&Transformer {
            layers: Some(80),
            vocabulary: Some(1000),
            granularity,
            ..Transformer::default()
        });
        assert_eq!(spec.name.as_deref(), Some("transformer-80"));
    }
}

/// A step of the optimiser belongs to an iteration: its part is the same in both granularities, and is halved with twice the micro-batches.
#[test]
fn the_step_of_the_optimiser_is_shared_out() {
    let bytes = |granularity, micro_batches| {
        let spec = transformer(&Transformer {
            granularity,
            micro_batches,
            ..preset("llama2-7b")
        });
        let works = spec.network.layers.into_iter().filter_map(|layer| layer.work);
        works.map(|work| work.backward_bytes).sum::<f64>()
    };
    let without = bytes(Granularity::Block, None);
    // Seven numbers of 16 bits for each of 6.738 billion parameters.
    let step = 7.0 * 2.0 * 6.738e9;
    for (micro_batches, part) in [(1, 1.0), (2, 0.5), (64, 1.0 / 64.0)] {
        for granularity in [Granularity::Block, Granularity::Operator] {
            let more = bytes(granularity, Some(micro_batches)) - without;
            assert!((more / (part * step) - 1.0).abs() < 1e-3, "{more} of {step}");
        }
    }
    assert!(near(
        bytes(Granularity::Operator, None),
        bytes(Granularity::Operator, Some(1))
    ));
}

/// An instance on a device that takes 3 us to launch and links of 10 us.
fn served(asked: &Transformer) -> Instance {
    let mut spec = transformer(asked);
    let cluster = spec.cluster.as_mut().expect("a cluster");
    cluster.device_kinds[0].launch_ms = Some(0.003);
    cluster.link.as_mut().expect("a link").latency_ms = 0.01;
    Instance::from_spec(&spec).expect("a valid instance")
}

#[test]
fn a_request_is_its_prompt_and_a_pass_for_each_token_but_the_first() {
    const WRITTEN: u32 = 9;
    let model = |change: Transformer| Transformer {
        preset: PRESETS.iter().find(|preset| preset.name == "llama3-8b"),
        granularity: Granularity::Block,
        tensor: Some(vec![1, 4]),
        micro_batch: Some(2),
        ..change
    };
    let phase = |phase: Phase, context: u32| {
        served(&model(Transformer {
            phase: Some(phase),
            context: Some(context),
            ..Transformer::default()
        }))
    };
    let read = phase(Phase::Prefill, 1_000);
    // In the mean half of what is written stands before.
    let write = phase(Phase::Decode, 1_000 + WRITTEN / 2);
    let request = served(&model(Transformer {
        prefill_tokens: Some(1_000),
        decode_tokens: Some(WRITTEN),
        ..Transformer::default()
    }));
    let passes = u64::from(WRITTEN - 1);
    let of = |instance: &Instance, layer: usize, mode: usize| {
        let mode = &instance.network.layers[layer].modes[mode];
        (
            mode.times[0].expect("a time").forward_ns,
            mode.collective_bytes,
            mode.cache,
        )
    };
    for layer in 0..read.network.layers.len() {
        for mode in 0..2 {
            let [one, other, both] = [&read, &write, &request].map(|instance| of(instance, layer, mode));
            assert!(
                both.0.abs_diff(one.0 + passes * other.0) <= passes,
                "{both:?}, {one:?}, {other:?}"
            );
            assert_eq!(both.1, one.1 + passes * other.1);
            assert_eq!(both.2, one.2);
        }
    }
    assert_eq!(
        request.cluster.link.latency_ns,
        u64::from(WRITTEN) * read.cluster.link.latency_ns
    );
    let of = request.network.micro_batch.expect("its tokens");
    assert_eq!((of.tokens, of.passes), (2.0 * 1_008.0, 9));
    assert_eq!(
        (request.pipeline.sequences, request.pipeline.context),
        (Some(2), Some(1_009))
    );
}

//! What frameworks ship, on the test cases of their own projects: lists and stacks that they cut, and what they refuse.

use crate::common::problem_of;
use serde_json::{Value, json};
use stagecut::cost;
use stagecut::heuristics::block_counts::{Ends, megatron, sglang, torchtitan, vllm};
use stagecut::heuristics::{accelerate, deepspeed, equal_size, find, torchgpipe};
use stagecut::problem::Problem;

fn never() -> bool {
    false
}

/// The parts of a list that end there.
fn parts<T: Clone>(list: &[T], ends: &[usize]) -> Vec<Vec<T>> {
    let starts = [0].into_iter().chain(ends.iter().copied());
    starts
        .zip(ends)
        .map(|(start, &end)| list[start..end].to_vec())
        .collect()
}

/// A chain of layers of a millisecond, by name and bytes of parameters.
fn chain(layers: &[(String, u64)], stages: usize) -> Problem {
    let specs: Vec<Value> = layers
        .iter()
        .map(|(id, bytes)| json!({ "id": id, "forward_ms": 1.0, "parameter_bytes": bytes }))
        .collect();
    let tensors: Vec<Value> = layers
        .windows(2)
        .map(|pair| json!({ "producer": pair[0].0, "consumers": [pair[1].0] }))
        .collect();
    let spec = json!({
        "schema": "stagecut-instance/1",
        "network": { "layers": specs, "tensors": tensors },
        "cluster": { "device_kinds": [{ "name": "gpu", "count": stages }] },
        "pipeline": { "stages": stages, "communication": "ignored", "memory_limit": "none", "mode": "inference" },
    });
    let spec = serde_json::from_value(spec).expect("a specification");
    problem_of(&spec).expect("a problem").1
}

/// A transformer: embedding, blocks of two layers each, and head.
fn stack(blocks: usize, stages: usize) -> Problem {
    let mut layers = vec![("embedding".to_owned(), 5)];
    for block in 0..blocks {
        layers.extend([(format!("h.{block}.attn"), 2), (format!("h.{block}.mlp"), 2)]);
    }
    layers.push(("head".to_owned(), 5));
    chain(&layers, stages)
}

/// How many items of a method's plan lie on each stage.
fn counts(problem: &Problem, method: &str) -> Option<Vec<usize>> {
    let plan = find(method)
        .expect("a method")
        .plan(problem, 0, &never)?
        .assignment;
    assert!(cost::is_feasible(problem, &plan), "{method}");
    let mut counts = vec![0; problem.stages()];
    plan.iter().for_each(|&stage| counts[stage] += 1);
    Some(counts)
}

/// tests/unit/runtime/utils/test_partition.py of DeepSpeed: `test_short_partition_uniform`, `test_easy_balance_uniform`.
#[test]
fn deepspeeds_uniform_partition() {
    assert_eq!(deepspeed::uniform(2, 4), [1, 2, 2, 2]);
    assert_eq!(deepspeed::uniform(8, 4), [2, 4, 6, 8]);
    // The remainder goes to the first parts.
    assert_eq!(deepspeed::uniform(10, 4), [3, 6, 8, 10]);
}

/// The same file: `test_valid_partition`, `test_short_partition`, `test_easy_balance_balanced`, `test_int_balanced`,
/// `test_float_balanced`, `test_float_midheavy`, `test_balance_bert`; times ten where the weights are fractions.
#[test]
fn deepspeeds_balanced_partition() {
    let balanced = |weights: &[u64], parts| deepspeed::balanced(weights, parts, &never).expect("no limit");
    assert_eq!(balanced(&[1; 10], 1), [10]);
    assert_eq!(balanced(&[1; 2], 4), [1, 2, 2, 2]);
    assert_eq!(balanced(&[1; 8], 4), [2, 4, 6, 8]);
    assert_eq!(balanced(&[0, 1, 2, 3, 3, 3], 4), [3, 4, 5, 6]);
    assert_eq!(balanced(&[0, 11, 19, 30, 30, 30], 4), [3, 4, 5, 6]);
    assert_eq!(balanced(&[0, 11, 300, 30], 3), [2, 3, 4]);
    let block = [12_596_224; 24];
    let bert = [&[52_559_872][..], &block, &[0, 52_559_872]].concat();
    let ends = balanced(&bert, 8);
    assert_eq!((ends.len(), ends[7]), (8, 27));
    assert!(ends.windows(2).all(|pair| pair[0] < pair[1]), "{ends:?}");
}

/// `test_float_lastheavy`, which DeepSpeed skips and whose answer comes out all the same; and what the program does not find, worked
/// out by running the recurrence beside all cuts: neither the least bottleneck nor always the least spread.
#[test]
fn deepspeed_minimises_neither() {
    let sums = |weights: &[u64], ends: &[usize]| -> Vec<u64> {
        let parts = parts(weights, ends);
        parts.iter().map(|part| part.iter().sum()).collect()
    };
    let found = |weights: &[u64], count| {
        let ends = deepspeed::balanced(weights, count, &never).expect("no limit");
        sums(weights, &ends)
    };
    assert_eq!(found(&[0, 11, 19, 30, 300], 2), [60, 300]);
    // The spread of 3 is least, and the bottleneck could be 4.
    assert_eq!(found(&[1, 4, 2, 2], 3), [5, 2, 2]);
    assert_eq!(sums(&[1, 4, 2, 2], &[1, 2, 4]), [1, 4, 4]);
    // A spread of 6, where one of 5 is there.
    let weights = [6, 2, 5, 7, 2, 9, 7];
    assert_eq!(found(&weights, 4), [13, 9, 9, 7]);
    assert_eq!(sums(&weights, &[2, 4, 6, 7]), [8, 12, 11, 7]);
}

/// tests/test_balance.py of torchgpipe: `test_blockpartition`, `test_blockpartition_zeros`, `test_blockpartition_short_sequence`.
#[test]
fn torchgpipes_block_partition() {
    let solve = |sequence: &[u64], blocks| torchgpipe::solve(sequence, blocks, &never);
    let sequence = [1, 2, 3, 4, 5, 6];
    let ends = solve(&sequence, 2).expect("blocks");
    assert_eq!(parts(&sequence, &ends), [vec![1, 2, 3, 4], vec![5, 6]]);
    assert_eq!(solve(&[0, 0], 2), Some(vec![1, 2]));
    assert_eq!((solve(&[], 1), solve(&[42], 2)), (None, None));
}

/// The same file: `test_balance_by_time`, whose layers sleep, and `test_balance_by_size_param`, whose layers are `Linear(i + 1, i + 2)`.
#[test]
fn torchgpipe_balances_by_time_and_size() {
    let layers = |bytes: [u64; 6]| -> Vec<(String, u64)> {
        bytes
            .iter()
            .enumerate()
            .map(|(i, &bytes)| (format!("layer{i}x"), bytes))
            .collect()
    };
    let mut sizes = [0; 6];
    (1..=6).for_each(|i| sizes[i - 1] = 4 * (i as u64 + 1) * (i as u64 + 1));
    assert_eq!(
        counts(&chain(&layers(sizes), 2), "torchgpipe-size"),
        Some(vec![4, 2])
    );
    sizes.reverse();
    assert_eq!(
        counts(&chain(&layers(sizes), 2), "torchgpipe-size"),
        Some(vec![2, 4])
    );
    let mut problem = chain(&layers([0; 6]), 2);
    (0..6).for_each(|i| problem.items[i].forward_ns = 10_000_000 * (i as u64 + 1));
    assert_eq!(counts(&problem, "torchgpipe-time"), Some(vec![4, 2]));
}

/// Small sequences of few values: the blocks are a partition, and sums beyond the smallest element differ by at most the largest.
#[test]
fn torchgpipes_blocks_are_balanced() {
    let mut state: u64 = 7;
    let mut draw = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..20_000 {
        let sequence: Vec<u64> = (0..1 + draw(12)).map(|_| draw(5) * draw(4)).collect();
        let blocks = 1 + draw(sequence.len() as u64) as usize;
        let ends = torchgpipe::solve(&sequence, blocks, &never).expect("enough elements");
        assert_eq!(ends[blocks - 1], sequence.len());
        let smallest = sequence.iter().min().unwrap();
        let largest = sequence.iter().max().unwrap() - smallest;
        let sums: Vec<u64> = parts(&sequence, &ends)
            .iter()
            .map(|part| part.iter().map(|element| element - smallest).sum())
            .collect();
        let spread = sums.iter().max().unwrap() - sums.iter().min().unwrap();
        assert!(spread <= largest, "{sequence:?}: {sums:?}");
    }
}

/// tests/distributed/test_pipeline_partition.py of vLLM: `test_uneven_auto_partition`; the docstring of the rule.
#[test]
fn vllms_even_split() {
    for (blocks, stages, expected) in [
        (2, 2, &[1, 1][..]),
        (3, 2, &[2, 1]),
        (3, 3, &[1, 1, 1]),
        (4, 3, &[1, 2, 1]),
        (5, 3, &[2, 2, 1]),
        (22, 4, &[5, 6, 6, 5]),
        (23, 4, &[6, 6, 6, 5]),
    ] {
        assert_eq!(
            vllm(blocks, stages).as_deref(),
            Ok(expected),
            "{blocks}, {stages}"
        );
    }
}

/// SGLang took vLLM's tests over with its rule and changed the rule since: the last stages take the remainder, as its docstring says.
#[test]
fn sglangs_even_split() {
    for (blocks, stages, expected) in [
        (2, 2, &[1, 1][..]),
        (3, 2, &[1, 2]),
        (4, 3, &[1, 1, 2]),
        (5, 3, &[1, 2, 2]),
        (36, 8, &[4, 4, 4, 4, 5, 5, 5, 5]),
    ] {
        assert_eq!(
            sglang(blocks, stages).as_deref(),
            Ok(expected),
            "{blocks}, {stages}"
        );
    }
}

/// tests/unit_tests/transformer/test_transformer_block.py of Megatron-LM: `TestPipelineParallelTransformerBlock.test_layer_builder`, the
/// cases without virtual stages. It asks that all layers are built; which stage builds how many follows from its comments.
#[test]
fn megatrons_splits() {
    let ends = |first, last, embedding, loss| Ends {
        first,
        last,
        embedding,
        loss,
    };
    let none = Ends::default();
    let split = |first: usize, middle: usize, stages: usize, last: usize| {
        [vec![first], vec![middle; stages - 2], vec![last]].concat()
    };
    for (blocks, stages, told, expected) in [
        (60, 5, ends(None, Some(4), false, false), split(14, 14, 5, 4)),
        (60, 8, ends(Some(6), Some(6), false, false), split(6, 8, 8, 6)),
        (64, 4, none, split(16, 16, 4, 16)),
        (60, 6, ends(Some(5), None, false, false), split(5, 11, 6, 11)),
        (63, 4, ends(None, None, true, false), split(15, 16, 4, 16)),
        (63, 4, ends(None, None, false, true), split(16, 16, 4, 15)),
        (62, 4, ends(None, None, true, true), split(15, 16, 4, 15)),
    ] {
        assert_eq!(
            megatron(blocks, stages, told),
            Ok(expected),
            "{blocks}, {stages}, {told:?}"
        );
    }
    for (blocks, stages, told) in [
        (101, 8, ends(Some(13), Some(13), false, false)),
        (65, 4, none),
        (65, 4, ends(None, None, true, true)),
        (61, 4, ends(Some(12), None, false, false)),
        (2, 4, none),
        (60, 6, ends(Some(5), Some(5), true, false)),
    ] {
        assert!(
            megatron(blocks, stages, told).is_err(),
            "{blocks}, {stages}, {told:?}"
        );
    }
}

/// torchtitan has no test of its rule's numbers. Its docstring has the first case; the others are those of AReaL, which took the rule
/// over: tests/test_fsdp_pipeline_parallel.py, `TestGenerateHFFqnPerModelPart`.
#[test]
fn torchtitans_split() {
    for (stages, blocks, weights, expected) in [
        (2, 3, [2, 2], &[2, 1][..]),
        (1, 4, [1, 1], &[4]),
        (2, 4, [1, 1], &[2, 2]),
        (4, 8, [1, 1], &[2, 3, 2, 1]),
        (2, 8, [1, 1], &[4, 4]),
        (3, 6, [1, 1], &[2, 3, 1]),
        (2, 4, [2, 2], &[2, 2]),
        (2, 4, [0, 1], &[3, 1]),
        (4, 6, [1, 1], &[1, 2, 2, 1]),
    ] {
        assert_eq!(
            torchtitan(blocks, stages, weights).as_deref(),
            Ok(expected),
            "{stages}, {blocks}, {weights:?}"
        );
    }
    for (stages, blocks, weights) in [(10, 4, [1, 1]), (4, 4, [5, 1]), (4, 4, [1, 5])] {
        assert!(
            torchtitan(blocks, stages, weights).is_err(),
            "{stages}, {blocks}, {weights:?}"
        );
    }
    let sum: usize = torchtitan(32, 8, [1, 1]).expect("a split").iter().sum();
    assert_eq!(sum, 32);
}

/// tests/test_modeling_utils.py of Accelerate: `test_get_balanced_memory` and `test_infer_auto_device_map`, for a model of modules of 64, 72
/// and 100 bytes, and three of them one after the other.
#[test]
fn accelerates_device_map() {
    let model = [64, 72, 100];
    for (given, expected) in [
        ([200, 200], [200, 200]),
        ([300, 300], [215, 300]),
        ([300, 500], [215, 500]),
    ] {
        assert_eq!(accelerate::balanced_memory(&model, 0, &given), expected);
    }
    assert_eq!(accelerate::device_map(&model, &[200, 200]), Some(vec![0, 1, 1]));
    assert_eq!(
        accelerate::device_map(&model, &[200, 172, 200]),
        Some(vec![0, 1, 1])
    );
    let thrice = model.repeat(3);
    assert_eq!(
        accelerate::device_map(&thrice, &[500, 500]),
        Some(vec![0, 0, 0, 0, 0, 1, 1, 1, 1])
    );
    // Models that are not split.
    assert_eq!(
        accelerate::device_map(&[236; 3], &[500, 500]),
        Some(vec![0, 1, 1])
    );
    // Something would go to the CPU.
    assert_eq!(accelerate::device_map(&model, &[100, 100]), None);
}

/// PiPPy's tests run programs on several processes; these are worked out by hand from `_split_on_size_threshold_with_max_stages`.
#[test]
fn pytorchs_equal_sizes() {
    let split = |sizes: &[u64], stages| equal_size::split(sizes, stages);
    assert_eq!(split(&[1; 8], 4), Some(vec![2, 4, 6, 8]));
    // What has no parameters, such as an activation, goes with what follows the cut.
    assert_eq!(split(&[2, 0, 2, 0, 2, 0], 3), Some(vec![1, 3, 6]));
    // Larger than a part: a stage of its own, where nothing is filled yet.
    assert_eq!(split(&[9, 1, 1, 1], 2), Some(vec![1, 4]));
    assert_eq!(split(&[1, 9, 1, 1], 2), Some(vec![1, 4]));
    // No more cuts than stages, and too few are an error.
    assert_eq!(split(&[4, 4, 4, 3], 3), Some(vec![1, 2, 4]));
    assert_eq!(split(&[1, 1, 1, 9], 4), None);
}

/// Blocks are laid whole, the embedding first and the head last.
#[test]
fn stacks_are_cut_between_blocks() {
    // 10 blocks of two layers, an embedding and a head, on 4 stages.
    let problem = stack(10, 4);
    for (method, blocks) in [
        ("vllm-even", Some([2, 3, 3, 2])),
        ("sglang-even", Some([2, 2, 3, 3])),
        ("torchtitan", Some([2, 3, 3, 2])),
        ("megatron-even", None),
        ("megatron-counted", Some([2, 3, 3, 2])),
        // Layers take equally long, so that ends with embedding and head are best with less.
        ("megatron-ends", Some([2, 3, 3, 2])),
    ] {
        let expected = blocks.map(|[a, b, c, d]| vec![2 * a + 1, 2 * b, 2 * c, 2 * d + 1]);
        assert_eq!(counts(&problem, method), expected, "{method}");
    }
    let refused = find("megatron-even").unwrap().applies(&problem);
    assert!(refused.is_err_and(|why| why.to_string().contains("divide evenly")));
    assert_eq!(
        counts(&stack(8, 4), "deepspeed-type"),
        counts(&stack(8, 4), "vllm-even")
    );
    assert_eq!(counts(&problem, "deepspeed-uniform"), Some(vec![6, 6, 5, 5]));
}

/// What the rules say that they are exact for: equal blocks alone, and with an embedding and a head that take as long as one.
#[test]
fn counts_are_exact_for_what_they_say() {
    let mut tried = 0;
    for (blocks, stages) in (2..16).flat_map(|blocks| (1..=blocks.min(6)).map(move |stages| (blocks, stages)))
    {
        let layers = (0..blocks).map(|block| (format!("h.{block}"), 2));
        let alone: Vec<(String, u64)> = layers.clone().collect();
        let ends = |name: &str| (name.to_owned(), 2);
        let whole: Vec<(String, u64)> = [ends("embedding")]
            .into_iter()
            .chain(layers)
            .chain([ends("head")])
            .collect();
        let counting_blocks = [
            "vllm-even",
            "sglang-even",
            "megatron-even",
            "megatron-ends",
            "deepspeed-uniform",
        ];
        let counting_ends = ["torchtitan", "megatron-counted", "deepspeed-uniform"];
        let alone = (chain(&alone, stages), blocks);
        let whole = (chain(&whole, stages), blocks + 2);
        let cases = counting_blocks.map(|method| (method, &alone)).into_iter();
        for (method, (problem, layers)) in cases.chain(counting_ends.map(|method| (method, &whole))) {
            // Its middle stages are all alike, and its ends take a block at least.
            let is_exact = method != "megatron-ends" || layers % stages == 0;
            if let Some(counts) = counts(problem, method).filter(|_| is_exact) {
                let most = counts.iter().max().copied();
                assert_eq!(
                    most,
                    Some(layers.div_ceil(stages)),
                    "{method}, {blocks} blocks, {stages} stages"
                );
                tried += 1;
            }
        }
    }
    assert!(tried > 400, "{tried}");
}

/// A rule that counts blocks says why it does not apply to a network that has none; no rule parts the passes of a layer.
#[test]
fn undefined_problems_are_refused() {
    let layers: Vec<(String, u64)> = (1..=6).map(|i| (format!("conv{i}"), i)).collect();
    let unlike = chain(&layers, 3);
    for method in [
        "vllm-even",
        "sglang-even",
        "torchtitan",
        "megatron-even",
        "deepspeed-type",
    ] {
        let refused = find(method).unwrap().applies(&unlike);
        assert!(
            refused.is_err_and(|why| why.to_string().contains("no stack")),
            "{method}"
        );
    }
    for method in [
        "deepspeed-uniform",
        "deepspeed-parameters",
        "torchgpipe-time",
        "accelerate-balanced",
    ] {
        assert_eq!(find(method).unwrap().applies(&unlike), Ok(()), "{method}");
    }
    let spec = crate::common::random_spec(1, false);
    let mut seen = 0;
    for cuts in [stagecut::options::Cuts::Tied, stagecut::options::Cuts::Separate] {
        let mut spec = spec.clone();
        spec.pipeline.cuts = Some(cuts);
        let Some((_, problem)) = problem_of(&spec) else {
            continue;
        };
        if !problem.ties.is_empty() {
            let refused = find("deepspeed-uniform").unwrap().applies(&problem);
            assert!(refused.is_err_and(|why| why.to_string().contains("cuts=\"tied\"")));
            seen += 1;
        }
    }
    assert!(seen > 0);
}

"""A model and devices in, degrees, memory and flags out."""

import json

import pytest

import stagecut

LLAMA = {
    "model_type": "llama", "vocab_size": 4096, "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 8192,
}


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    return path


def test_a_model_is_planned(config):
    found = stagecut.plan(config, cluster="h100-nodes", devices=4, global_batch=4, sequence=1024, target="megatron", time_limit=120)
    assert found.plan.status == "optimal" and found.gap == 0.0
    assert "--pipeline-model-parallel-size" in found.flags and found.layout in found.flags
    assert found.tensor * found.pipeline * found.replicas <= 4 and found.micro_batch in (1, 2, 4)
    parts = [value for name, value in found.memory.items() if name.endswith("_bytes")]
    assert sum(parts) == found.memory["bytes"]
    assert found.plan.check() and found.plan.export("megatron") == found.flags
    assert "tokens/s" in str(found) and found.mfu > 0
    for other in found.otherwise:
        assert other["iteration_ms"] is None or other["iteration_ms"] >= found.iteration_ms
    assert [size["micro_batch"] for size in found.sizes][0] == 1


def test_what_is_wrong_is_told(config):
    with pytest.raises(stagecut.InputError, match="global_batch"):
        stagecut.plan(config, cluster="h100-nodes", devices=4, global_batch=4, micro_batches=4)
    with pytest.raises(stagecut.InputError, match="micro_batch"):
        stagecut.plan(config, cluster="h100-nodes", devices=4, global_batch=4, micro_batch=[3])
    with pytest.raises(stagecut.Infeasible):
        stagecut.plan(config, cluster="h100-nodes", devices=2, global_batch=4, memory_limit="1MB", target="megatron")


def test_progress_is_told(config):
    events = []
    stagecut.plan(config, cluster="h100-nodes", devices=2, global_batch=2, micro_batch=1, target="megatron", progress=events.append)
    assert events and events[0].micro_batch == 1

"""A published model as what one device of its groups computes: a chain of layers with times.

Works of layers are those of `stagecut import`, a layer a block. Of these, what tensor and expert parallelism leave to a device: its mode of
the tensor degree, and of the experts' weights the part that it holds, since every device reads its own experts alone. Times are rooflines at
the rates of an H100 in 16 bits, whatever the layout is for.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from common import STAGECUT

FLOPS_PER_S, MEMORY_BYTES_PER_S = 989e12, 3.35e12  # as in the preset `h100-bf16`
NVLINK_BYTES_PER_S = 450e9  # inside of a tensor group
NETWORK_BYTES_PER_S = 50e9  # between stages


def network(config, row):
    """The chain for a row of settings, as `stagecut` reads it."""
    tensor, expert = row["tp"], row["ep"]
    imported = imported_network(config, row)
    layers = [layer(one, config, tensor, expert) for one in imported["layers"]]
    if row["mtp"]:
        layers.insert(-1, predictor(layers, config, row))
    ids = [one["id"] for one in layers]
    # Each device of a tensor group sends its part of the sequence.
    sent = row["micro_batch"] * row["sequence"] * config["hidden_size"] * 2 / tensor
    tensors = [{"producer": a, "consumers": [b], "bytes": sent} for a, b in zip(ids, ids[1:])]
    cluster = {"device_kinds": [{"name": "h100"}], "link": {"bandwidth_bytes_per_s": NETWORK_BYTES_PER_S}}
    return {"name": row["model"], "network": {"layers": layers, "tensors": tensors}, "cluster": cluster}


def imported_network(config, row):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(config))
        command = [STAGECUT, "import", path, "--sequence", row["sequence"], "--micro-batch", row["micro_batch"], "--tensor", row["tp"], "--quiet"]
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True, text=True)
    network = json.loads(done.stdout)["network"]
    # What predicts further tokens is added below, the same way for all models.
    network["layers"] = [one for one in network["layers"] if not one["id"].startswith("mtp")]
    return network


def layer(one, config, tensor, expert):
    """What a device does of a layer, in ms."""
    own = one
    if tensor > 1:
        own = next(mode for mode in one["modes"] if mode.get("tensor", 1) == tensor and "recompute" not in mode)
    work = dict(own["work"])
    if one.get("operator") == "moe":
        # Weights are read forward, read backward, and their gradients written.
        elsewhere = expert_bytes(config) / tensor * (1 - 1 / expert)
        work["forward_bytes"] -= elsewhere
        work["backward_bytes"] -= 2 * elsewhere
    reduced = 2 * (tensor - 1) / tensor * own.get("collective_bytes", 0) / NVLINK_BYTES_PER_S
    times = {way: roofline(work, way) + 1e3 * reduced / 2 for way in ("forward", "backward")}
    return {"id": one["id"], "operator": one.get("operator", ""), "forward_ms": times["forward"], "backward_ms": times["backward"]}


def expert_bytes(config):
    count = config.get("n_routed_experts") or config["num_experts"]
    inner = config.get("moe_intermediate_size") or config["intermediate_size"]
    return 2 * count * 3 * config["hidden_size"] * inner


def roofline(work, way):
    """What takes turns one after the other, and what that leaves."""
    total, *kernels = [(part.get(way + "_flops", 0), part.get(way + "_bytes", 0)) for part in (work, *work.get("kernels", []))]
    rest = [all - sum(own) for all, own in zip(total, zip(*kernels))] if kernels else total
    return 1e3 * sum(max(flops / FLOPS_PER_S, moved / MEMORY_BYTES_PER_S) for flops, moved in (rest, *kernels))


def predictor(layers, config, row):
    """A block, the product that joins state and embedding before it, and the head once more, whose table it shares."""
    block, head = layers[-2], layers[-1]
    joined = 2 * row["micro_batch"] * row["sequence"] * 2 * config["hidden_size"] ** 2 / row["tp"] / FLOPS_PER_S * 1e3
    return {"id": "mtp", "operator": "mtp", "forward_ms": block["forward_ms"] + joined + head["forward_ms"],
            "backward_ms": block["backward_ms"] + 2 * joined + head["backward_ms"]}

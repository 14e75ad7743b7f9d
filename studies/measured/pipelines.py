"""What `stagecut` says of a pipeline whose stages' times are known: the iteration as it is simulated, and what each stage holds."""
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from common import STAGECUT


@dataclass
class Stage:
    """A stage, or a chunk of a device that holds several. Seconds of a micro-batch on one replica; bytes of one device."""
    forward_s: float
    backward_s: float
    # To hand the output of a micro-batch to the next stage, and as long for its gradient back.
    transfer_s: float = 0.0
    replicas: int = 1
    # fp32, to which the program adds the gradient and both states of Adam.
    parameter_bytes: float = 0.0
    # Kept for each micro-batch in flight.
    stash_bytes: float = 0.0
    # Held once.
    resident_bytes: float = 0.0


def run(stages, micro_batches, chunks=1):
    """The plan as `stagecut check --evaluate` completes it: `run.iteration_ms`, and `stages` with `memory_bytes` and `in_flight`.

    1F1B, or the interleaved order where devices hold several chunks; transfers take the time of both sides. `micro_batches` are those
    of all replicas together.
    """
    replicas = max(stage.replicas for stage in stages)
    last = len(stages) - 1
    layers, tensors, plan = [], [], []
    for at, stage in enumerate(stages):
        costs = {"forward_ms": 1e3 * stage.forward_s, "backward_ms": 1e3 * stage.backward_s, "parameter_bytes": stage.parameter_bytes,
                 "stash_bytes": stage.stash_bytes, "resident_bytes": stage.resident_bytes}
        # Replicas are chosen among modes. What they exchange is added by who asks, whose links depend on the message.
        modes = {"modes": [{**costs, "tensor": 1, "gradient_bytes": 0}]} if replicas > 1 else {}
        layers.append({"id": f"stage{at}", **costs, **modes})
        if at < last:
            tensors.append({"producer": f"stage{at}", "consumers": [f"stage{at + 1}"], "transfer_ms": 1e3 * stage.transfer_s})
        plan.append({"layers": [f"stage{at}"], **({"mode": {"tensor": 1, "replicas": stage.replicas}} if replicas > 1 else {})})
    pipeline = {"objective": "iteration", "micro_batches": micro_batches, "communication": "blocking", "stages": len(stages) // chunks,
                "all_stages": True, "schedule": "interleaved" if chunks > 1 else "1f1b", "memory_limit": "none"}
    pipeline |= {"precision": "fp32", "optimizer": "adam"}
    pipeline |= {"replicas": sorted({stage.replicas for stage in stages})} if replicas > 1 else {}
    pipeline |= {"virtual_stages": chunks} if chunks > 1 else {}
    devices = sum(stage.replicas for stage in stages) // chunks
    cluster = {"device_kinds": [{"name": "gpu", "count": devices}], "link": {"bandwidth_bytes_per_s": 1e12}}
    network = {"layers": layers, "tensors": tensors}
    return evaluate({"name": "measured", "network": network, "cluster": cluster, "pipeline": pipeline}, plan)


def evaluate(instance, stages):
    with tempfile.TemporaryDirectory() as folder:
        instance_file, stages_file, plan_file = (Path(folder) / name for name in ("instance.json", "stages.json", "plan.json"))
        instance_file.write_text(json.dumps(instance))
        stages_file.write_text(json.dumps(stages))
        command = [STAGECUT, "check", "--evaluate", instance_file, stages_file, "--output", plan_file, "--quiet"]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))} ended with {ended.returncode}: {ended.stderr}{ended.stdout}")
        return json.loads(plan_file.read_text())

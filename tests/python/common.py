"""What the tests of the Python side share: paths, the tools as modules and as commands, and plans."""

import argparse
import importlib.util
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODELS = pathlib.Path(__file__).with_name("models.py")
STAGECUT = ROOT / "target" / "release" / "stagecut"
TEMPLATES = ROOT / "src" / "export" / "templates"

# Two threads of torch on two cores, next to whatever else runs, wait for each other more than they compute.
os.environ["OMP_NUM_THREADS"] = "1"


def module(path):
    """A script as a module of its own, whatever it is called."""
    spec = importlib.util.spec_from_file_location(f"under_test_{path.stem}", path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def python(*arguments):
    """Runs a script; returns (exit code, stdout, stderr)."""
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, timeout=500)
    return done.returncode, done.stdout, done.stderr


def profile_options(**changed):
    """Options of tools/profile_torch.py for one sweep."""
    values = {
        "device": "cpu",
        "mode": "training",
        "granularity": "operator",
        "depth": None,
        "recompute": False,
        "warmup": 1,
        "repeats": 1,
        "clock": "wall",
    }
    return argparse.Namespace(**{**values, **changed})


def stagecut(*arguments):
    """Runs the built binary; returns its stdout."""
    done = subprocess.run([STAGECUT, *map(str, arguments)], capture_output=True, text=True, timeout=500)
    if done.returncode:
        raise AssertionError(f"stagecut {' '.join(map(str, arguments))} exits {done.returncode}: {done.stderr}")
    return done.stdout


def solved(instance, stages, plan):
    """Writes the best plan with exactly so many stages to the file `plan`."""
    stagecut("solve", instance, "--stages", stages, "--all-stages", "--format", "json", "--output", plan)
    return plan


def random_stages(instance, count, seed):
    """Layers by stage, in an order that keeps every tensor flowing forward but is not the order of the program."""
    chance = random.Random(seed)
    layers = [layer["id"] for layer in instance["network"]["layers"]]
    parents = {layer: [] for layer in layers}
    for tensor in instance["network"]["tensors"]:
        for consumer in tensor["consumers"]:
            parents[consumer].append(tensor["producer"])
    tied = {layer["id"]: layer["tie"] for layer in instance["network"]["layers"] if "tie" in layer}
    stage_of = {}
    for layer in layers:
        first = max((stage_of[parent] for parent in parents[layer]), default=1)
        stage_of[layer] = min(count, first + (chance.random() < 1.5 * count / len(layers)))
    if tied:
        raise ValueError("ties are not random")
    stages = [[layer for layer in layers if stage_of[layer] == k] for k in range(1, count + 1)]
    return [stage for stage in stages if stage]


def plan_literal(stages, mode="training"):
    """What `stagecut export` puts into a template, for stages given as lists of layers."""
    listed = [{"index": i + 1, "devices": [f"cpu:{i + 1}"], "layers": layers} for i, layers in enumerate(stages)]
    return {"schema": "stagecut-export/1", "instance": "test", "mode": mode, "stages": listed}


def filled(template, plan, path):
    """A template with a plan in it, as a script."""
    text = (TEMPLATES / template).read_text()
    profiler = (ROOT / "tools" / "profile_torch.py").read_text()
    shared = profiler.split("export --to torch` share ---\n")[1].split("# --- End of the shared part ---\n")[0]
    text = text.replace("# --- Here stands the shared part of tools/profile_torch.py ---\n", shared)
    text = text.replace("# --- Here stands templates/torch_run.py ---\n", (TEMPLATES / "torch_run.py").read_text())
    if text.count("PLAN = {}\n") != 1:
        raise AssertionError(f"{template} must have one line `PLAN = {{}}`")
    path.write_text(text.replace("PLAN = {}\n", f"PLAN = {json.dumps(plan, indent=4)}\n"))
    return path


def exporter():
    """The exported program as a module, without a plan yet."""
    with tempfile.TemporaryDirectory() as folder:
        return module(filled("torch.py", {}, pathlib.Path(folder) / "torch.py"))


def plan_in(script):
    """The plan in an exported script."""
    _, rest = script.read_text().split("\nPLAN = ", 1)
    return json.JSONDecoder().raw_decode(rest)[0]

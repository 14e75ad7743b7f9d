#!/usr/bin/env python3
"""Traces a PyTorch model with torch.profiler, its modules named as `stagecut import` reads them. Needs torch 2.6 or newer.

    python tools/trace_torch.py torchvision:vgg16 -o trace.json
    python tools/trace_torch.py model.py:build --depth 2 --device cuda -o trace.json
    stagecut import trace.json --output net.json

Models are named as for `tools/profile_torch.py`. Modules at `--depth` (or above it, where they hold none) are ranges of the trace: `NAME/forward`, and
`NAME/backward` from when gradients of the outputs are there to when those of the inputs are. Floating-point inputs of the model are made to want gradients, since
PyTorch calls the hook of a module without any too early. In a program of your own, `annotate(modules)` is all that a trace needs beside the profiler.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import torch
from torch.profiler import ProfilerActivity, profile, record_function

import profile_torch


def annotate(modules):
    """Names the passes of modules, `(name, module)` each, in whatever the profiler sees from now on."""
    for name, module in modules:
        passes = Passes(name)
        module.register_forward_pre_hook(lambda *_, passes=passes: passes.begin("forward"))
        module.register_forward_hook(lambda *_, passes=passes: passes.end("forward"))
        module.register_full_backward_pre_hook(lambda *_, passes=passes: passes.begin("backward"))
        module.register_full_backward_hook(lambda *_, passes=passes: passes.end("backward"))


class Passes:
    """Ranges of a module that are open."""

    def __init__(self, name):
        self.name = name
        self.open = {}

    def begin(self, which):
        self.end(which)
        self.open[which] = record_function(f"{self.name}/{which}")
        self.open[which].__enter__()

    def end(self, which):
        if which in self.open:
            self.open.pop(which).__exit__(None, None, None)


def layers(model, depth):
    """Modules at a depth, in the order in which they are defined."""
    found = []

    def walk(name, module, left):
        children = list(module.named_children())
        if left == 0 or not children:
            found.append((name, module))
            return
        for child, inner in children:
            walk(f"{name}.{child}" if name else child, inner, left - 1)

    walk("", model, depth)
    return found


def trace(model, inputs, options):
    model.to(options.device).train()
    args, kwargs = profile_torch.arguments(profile_torch.to_device(inputs, torch.device(options.device)))
    annotate(layers(model, options.depth))
    for value in profile_torch.tree_leaves((args, kwargs)):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            value.requires_grad_()
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if options.device == "cuda" else [])

    def step():
        outputs = profile_torch.tree_leaves(model(*args, **kwargs))
        sum(value.float().mean() for value in outputs if isinstance(value, torch.Tensor) and value.requires_grad).backward()

    step()
    with profile(activities=activities) as profiler:
        for _ in range(options.steps):
            step()
    profiler.export_chrome_trace(str(options.output))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("model", help="torchvision:NAME, transformers:NAME or FILE.py:FUNCTION")
    add("-o", "--output", type=pathlib.Path, required=True)
    add("--depth", type=int, default=1, help="of the modules that are layers [default: 1]")
    add("--steps", type=int, default=5, help="iterations to trace [default: 5]")
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--batch", type=int, default=1)
    add("--sequence", type=int, default=128)
    options = parser.parse_args()
    try:
        trace(*profile_torch.load(options.model, options.batch, options.sequence), options)
    except profile_torch.Fault as fault:
        sys.exit(f"error: {fault}")


if __name__ == "__main__":
    main()

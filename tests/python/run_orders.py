"""Runs exported orders, one after the other, in the processes of one group, and holds losses and gradients of each against the
unsplit model. For `test_schedules_torch.py`, which starts it under torch.distributed.run.

    run_orders.py FOLDER MODEL SCRIPT...

Every rank writes to FOLDER: `rank-R.at` says which script it runs, `rank-R.json` what came of all of them."""

import json
import pathlib
import sys

import common
import torch
import torch.distributed


def held_against_the_whole(script, build, rank):
    """The largest differences of losses and gradients, and the parameters that got gradients on this rank."""
    module = common.module(script)
    micro_batches = module.PLAN["micro_batches"]
    model, inputs = build()
    stages = module.split(model, inputs)
    schedule = module.scheduled(stages, rank, torch.device("cpu"), micro_batches, module.square)
    flat = whole_batch(inputs, micro_batches)
    losses = module.iteration(schedule, rank, flat, micro_batches)
    mine = {id(p) for stage, of in zip(stages, module.ranks()) if of == rank for p in stage.parameters()}
    gradients = {name: p.grad for name, p in model.named_parameters() if id(p) in mine and p.grad is not None}
    unsplit, inputs = build()
    expected = torch.stack(module.whole(unsplit, inputs, flat, micro_batches))
    wanted = dict(unsplit.named_parameters())
    differences = [float((gradient - wanted[name].grad).abs().max()) for name, gradient in gradients.items()]
    return {
        "losses": float((torch.stack(losses) - expected).abs().max()) if losses else None,
        "gradients": max(differences, default=0.0),
        "largest": max(float(p.grad.abs().max()) for p in wanted.values()),
        "parameters": sorted(gradients),
        "all": sorted(wanted),
        "stages": [index for index, of in enumerate(module.ranks()) if of == rank],
    }


def whole_batch(inputs, micro_batches):
    """Micro-batches that differ, one after the other, of the shapes of the example inputs."""
    torch.manual_seed(7)
    drawn = [
        torch.randn(micro_batches * len(value), *value.shape[1:], dtype=value.dtype)
        if value.is_floating_point()
        else torch.randint(5, (micro_batches * len(value), *value.shape[1:]))
        for value in inputs.values()
    ]
    return drawn


def main():
    folder, model, *scripts = sys.argv[1:]
    folder = pathlib.Path(folder)
    build = getattr(common.module(common.MODELS), model)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    results = {}
    for script in map(pathlib.Path, scripts):
        (folder / f"rank-{rank}.at").write_text(script.stem)
        results[script.stem] = held_against_the_whole(script, build, rank)
        (folder / f"rank-{rank}.json").write_text(json.dumps(results))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

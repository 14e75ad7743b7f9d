"""Under torchrun: trains a small model with DeepSpeed, cut by an exported partition, for two iterations.

    train_deepspeed.py PARTITION.py FUNCTION_OF_MODELS

Rank 0 prints, as JSON, the modules that each rank built and the losses of DeepSpeed and of the whole model. An iteration
is one micro-batch: with more, DeepSpeed 0.18.9 without a GPU adds up other gradients than torch, for plain layers too.
"""

import json
import pathlib
import sys

import common
import deepspeed
import torch
from torch import nn

RATE = 0.1


class One(nn.Module):
    """A stage that takes and gives one tensor, as DeepSpeed's modules do."""

    def __init__(self, stage):
        super().__init__()
        self.stage = stage

    def forward(self, value):
        (value,) = self.stage(value)
        return value


def micro_batch(like):
    """A micro-batch, the same on every rank and in every iteration, with its target."""
    torch.manual_seed(2)
    return torch.randn_like(like), torch.randn_like(like)


def planned(partition, function):
    """Bounds and losses of the planned pipeline under DeepSpeed."""
    export = common.exporter()
    export.PLAN = common.plan_literal(partition.PLAN["modules"])
    model, inputs = getattr(common.module(common.MODELS), function)()
    layers = [One(stage) for stage in export.split(model, inputs, True)]
    net = partition.PlannedPipelineModule(layers=layers, loss_fn=nn.MSELoss())
    options = {
        "train_micro_batch_size_per_gpu": len(inputs),
        "gradient_accumulation_steps": 1,
        "optimizer": {"type": "SGD", "params": {"lr": RATE}},
    }
    engine, *_ = deepspeed.initialize(model=net, config=options)
    losses = [float(engine.train_batch(iter([micro_batch(inputs)])).detach()) for _ in range(2)]
    own = [layers.index(module) for module in net.forward_funcs]
    everyone = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(everyone, own)
    return everyone, losses


def whole(function):
    """Losses of the model in one piece."""
    model, inputs = getattr(common.module(common.MODELS), function)()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        value, target = micro_batch(inputs)
        loss = nn.functional.mse_loss(model(value), target)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def main():
    partition, function = common.module(pathlib.Path(sys.argv[1])), sys.argv[2]
    # Its collective over shared memory would be compiled first; gloo does as well for a test.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo")
    modules, losses = planned(partition, function)
    if torch.distributed.get_rank() == 0:
        print("RESULT", json.dumps({"modules": modules, "planned": losses, "whole": whole(function)}))
    torch.distributed.destroy_process_group()


main()

#!/usr/bin/env python3
"""Splits a PyTorch model into the stages of a plan. Written by `stagecut export --to torch`; needs torch 2.6 or
newer, and 2.10 for --pipeline without GPUs or with an order.

    python THIS.py torchvision:googlenet --check               # stages against the whole model, on the CPU
    python THIS.py model.py:build --check                      # your own: `build()` returns (model, example inputs)
    torchrun --nproc-per-node STAGES THIS.py torchvision:googlenet --pipeline --micro-batches 8
    torchrun --nproc-per-node STAGES THIS.py model.py:build --pipeline --check    # loss and gradients against the whole

From a program of your own:

    stages = split(model, inputs)                              # one module a stage; they share the model's parameters
    outputs = run(stages, inputs)                              # one after the other
    stage = pipeline(stages, index, device)                    # a torch.distributed.pipelining.PipelineStage
    schedule = scheduled(stages, rank, device, micro_batches, loss)    # 1F1B, or the order that was exported

The model is captured with torch.export, so a stage holds for the shapes of `inputs`, which are one micro-batch. A stage
takes, in order, the tensors that cross the boundary before it, and returns those that cross the boundary after it; a
tensor that a later stage reads passes through the stages between.
"""

PLAN = {}

# --- Here stands the shared part of tools/profile_torch.py ---


class Stage(torch.nn.Module):
    """One stage: from the tensors that cross the boundary before it to those that cross the boundary after it."""

    def __init__(self, part, takes, gives):
        super().__init__()
        self.module = part.module
        self.takes, self.gives = [node.name for node in takes], [node.name for node in gives]
        self.reads, self.makes = [node.name for node in part.inputs], [node.name for node in part.outputs]
        self.overwritten = {node.name for node in part.overwritten}
        self.types = [node.meta["val"].dtype for node in takes]

    def forward(self, *values):
        at_hand = dict(zip(self.takes, values, strict=True))
        # What a schedule hands over is the root of its stage's gradients, and autograd forbids to overwrite that.
        given = [
            value.clone() if name in self.overwritten else value
            for name, value in ((name, at_hand[name]) for name in self.reads)
        ]
        made = self.module(*given)
        at_hand.update(zip(self.makes, made, strict=True))
        return tuple(at_hand[name] for name in self.gives)


def split(model, inputs, training=None):
    """One module a stage of the plan, for micro-batches of the shape of `inputs`; in the plan's mode by default."""
    training = PLAN["mode"] == "training" if training is None else training
    graph_module = capture(model, inputs, training)
    parts = cut(graph_module, stage_of_operators(operators(graph_module)))
    nodes = list(graph_module.graph.nodes)
    results = [node for node in tree_leaves(nodes[-1].args) if isinstance(node, torch.fx.Node)]
    home = {node: -1 for node in nodes if node.op == "placeholder"}
    home.update((node, i) for i, part in enumerate(parts) for node in part.outputs)
    if not all(node in home for node in results):
        raise Fault("the model returns a parameter or a constant, which no stage computes")
    last_reader = {node: i for i, part in enumerate(parts) for node in part.inputs}
    last_reader.update((node, len(parts)) for node in results)
    boundaries = [
        [node for node in nodes if node in home and home[node] < i <= last_reader.get(node, -1)]
        for i in range(1, len(parts))
    ]
    boundaries = [[node for node in nodes if node.op == "placeholder"], *boundaries, results]
    return [Stage(part, boundaries[i], boundaries[i + 1]) for i, part in enumerate(parts)]


def stage_of_operators(named):
    """The stage of every operator. A layer of the plan is named after its first operator and ends before the next one."""
    stage_of_layer = {layer: stage["index"] for stage in PLAN["stages"] for layer in stage["layers"]}
    missing = sorted(stage_of_layer.keys() - set(named.values()))
    if missing:
        raise Fault(
            f"the model has no operator `{missing[0]}`, nor {len(missing) - 1} more of the plan's layers; "
            "was it profiled with the same model, mode (--mode) and release of torch?"
        )
    stage, stage_of = None, {}
    for node, name in named.items():
        stage = stage_of_layer.get(name, stage)
        if stage is None:
            raise Fault(f"the model begins with `{name}`, which is no layer of the plan")
        stage_of[node] = stage
        for parent in node.all_input_nodes:
            if stage_of.get(parent, stage) > stage:
                raise Fault(f"`{named[parent]}` is planned after `{name}`, which reads it")
    return stage_of


def run(stages, inputs):
    """The model's output tensors, computed stage by stage."""
    values = tree_leaves(arguments(inputs))
    for stage in stages:
        values = stage(*values)
    return values


def check(model, inputs, training):
    """The largest difference between the model's outputs and those of its stages, relative to the largest output."""
    stages = split(model, inputs, training)
    args, kwargs = arguments(inputs)
    with torch.no_grad():
        torch.manual_seed(0)
        whole = [leaf for leaf in tree_leaves(model(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
        torch.manual_seed(0)
        split_up = run(stages, inputs)
    if len(whole) != len(split_up):
        raise Fault(f"the model has {len(whole)} output tensors, its stages {len(split_up)}")
    scale = max(float(tensor.abs().max()) for tensor in whole) or 1.0
    differences = [float((a - b).abs().max()) for a, b in zip(whole, split_up)]
    return stages, max(differences) / scale


# --- Here stands templates/torch_run.py ---


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="torchvision:NAME, transformers:NAME or FILE.py:FUNCTION")
    parser.add_argument(
        "--check", action="store_true", help="compare with the whole model; exit 1 if it differs"
    )
    parser.add_argument("--pipeline", action="store_true", help="run one training iteration under torchrun")
    parser.add_argument("--batch", type=int, default=4, help="samples in a micro-batch [default: 4]")
    parser.add_argument(
        "--sequence", type=int, default=128, help="tokens in a sample, for transformers [default: 128]"
    )
    parser.add_argument(
        "--micro-batches", type=int, help="for --pipeline [default: those of the exported order, else 4]"
    )
    parser.add_argument(
        "--mode", choices=["training", "inference"], help="as the model was profiled [default: the plan's]"
    )
    parser.add_argument("--tolerance", type=float, default=1e-5, help="largest relative difference [default: 1e-5]")
    options = parser.parse_args()
    torch.manual_seed(0)
    model, inputs = load(options.model, options.batch, options.sequence)
    if options.pipeline:
        micro_batches = options.micro_batches or PLAN.get("micro_batches", 4)
        return run_pipeline(model, inputs, micro_batches, options.tolerance if options.check else None)
    training = (options.mode or PLAN["mode"]) == "training"
    stages, difference = check(model, inputs, training)
    for planned, stage in zip(PLAN["stages"], stages):
        parameters = sum(p.numel() for p in stage.parameters())
        devices = ", ".join(planned["devices"])
        print(
            f"stage {planned['index']} on {devices}: {len(planned['layers'])} layers, {parameters} parameters, "
            f"takes {len(stage.takes)} tensors, gives {len(stage.gives)}"
        )
    print(f"largest relative difference to the whole model: {difference:.3g}")
    if options.check and not difference <= options.tolerance:
        raise Fault(
            f"the stages differ from the whole model by more than {options.tolerance:g}; operators that draw "
            "random numbers may run in another order than in the whole: compare with dropout 0"
        )


if __name__ == "__main__":
    try:
        main()
    except Fault as fault:
        sys.exit(f"error: {fault}")

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

# --- Begin of the part that tools/profile_torch.py and the export share, word for word ---
import argparse
import importlib.util
import operator
import pathlib
import sys

import torch
from torch.utils._pytree import tree_leaves


class Fault(Exception):
    """Something the user can put right; shown without a traceback."""


# Published configurations, by the names they are known under; any other name is a transformers model type.
TRANSFORMERS = {
    "bert-base-uncased": ("bert", {}),
    "bert-large-uncased": (
        "bert",
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    ),
    "gpt2": ("gpt2", {}),
    "gpt2-medium": ("gpt2", {"n_embd": 1024, "n_layer": 24, "n_head": 16}),
}


def load(spec, batch, sequence):
    """The model that `spec` names, with random weights, and one micro-batch of inputs (a tensor, tuple or dict)."""
    kind, separator, name = spec.rpartition(":")
    if separator and kind == "torchvision":
        return load_torchvision(name, batch)
    if separator and kind == "transformers":
        return load_transformers(name, batch, sequence)
    if separator and kind.endswith(".py"):
        return load_file(pathlib.Path(kind), name)
    raise Fault(f"`{spec}` names no model; give torchvision:NAME, transformers:NAME or FILE.py:FUNCTION")


def load_torchvision(name, batch):
    try:
        from torchvision import models
    except ImportError as error:
        raise Fault(f"torchvision is missing ({error}); install it beside torch") from error
    # Auxiliary classifiers are left out: they are no part of the pipeline.
    options = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
    try:
        model = models.get_model(name, weights=None, **options)
    except ValueError as error:
        raise Fault(f"torchvision has no model `{name}`; `torchvision.models.list_models()` lists them") from error
    pixels = 299 if name == "inception_v3" else 224
    return model, torch.randn(batch, 3, pixels, pixels)


def load_transformers(name, batch, sequence):
    try:
        from transformers import AutoConfig, AutoModel
    except ImportError as error:
        raise Fault(f"transformers is missing ({error}); install it beside torch") from error
    model_type, overrides = TRANSFORMERS.get(name, (name, {}))
    try:
        # A folder or file holds a configuration; weights are never fetched.
        local = pathlib.Path(name).exists()
        config = AutoConfig.from_pretrained(name) if local else AutoConfig.for_model(model_type, **overrides)
        config.use_cache = False
        model = AutoModel.from_config(config)
    except (ValueError, KeyError, OSError) as error:
        known = ", ".join(TRANSFORMERS)
        raise Fault(f"`{name}` is no configuration file, model type of transformers or one of {known}") from error
    return model, {"input_ids": torch.randint(config.vocab_size, (batch, sequence))}


def load_file(path, function):
    if not path.is_file():
        raise Fault(f"there is no file `{path}`")
    module_spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(module)
    if not callable(getattr(module, function, None)):
        raise Fault(f"`{path}` has no function `{function}`")
    made = getattr(module, function)()
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], torch.nn.Module)):
        raise Fault(f"`{path}:{function}` must return (torch.nn.Module, example inputs), not {type(made).__name__}")
    return made


def arguments(inputs):
    """Inputs as positional and keyword arguments: a dict is keywords, a tuple or list positions, anything else one."""
    if isinstance(inputs, dict):
        return (), inputs
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


def capture(model, inputs, training):
    """The model as a flat graph of operators in the order it runs them, for these inputs; parameters are shared."""
    args, kwargs = arguments(inputs)
    # A program that was exported before runs one way, whether it trains or not.
    exported = getattr(model, "exported", None)
    try:
        if not isinstance(exported, torch.export.ExportedProgram):
            model.train(training)
            exported = torch.export.export(model, args, kwargs)
        graph_module = exported.module()
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise Fault(f"torch.export cannot capture the model: {first}") from error
    graph = graph_module.graph
    for node in reversed(graph.nodes):
        is_check = node.target is torch.ops.aten._assert_tensor_metadata.default or node.target == "_guards_fn"
        if is_check and not node.users:
            graph.erase_node(node)
    fold_constants(graph_module)
    for node in reversed(graph.nodes):
        # The parts of a tuple follow it directly, so that none but tensors pass between layers.
        if node.target is operator.getitem:
            node.args[0].append(node)
    for node in list(graph.nodes):
        # BatchNorm counts batches just before it runs; the counter moves behind, where it belongs to its module's layer.
        if node.op == "call_function" and not node.users and node.next.op == "call_function":
            node.next.append(node)
    others = {node.op for node in graph.nodes} - {"placeholder", "get_attr", "call_function", "output"}
    if others:
        raise Fault(f"the captured graph has nodes that cannot be split: {', '.join(sorted(others))}")
    return graph_module


class NO_SCHEMA:
    """Stands for the schema of a function that is no operator of torch."""

    returns = ()
    is_mutable = False


def schema(node):
    return getattr(node.target, "_schema", NO_SCHEMA)


def mutates(node):
    """Whether a node writes to its first argument."""
    return schema(node).is_mutable


def fold_constants(graph_module):
    """Computes once what depends on no input, parameter or random number, such as masks and positions."""
    graph = graph_module.graph
    random = torch.Tag.nondeterministic_seeded
    constant, varying = set(), set()
    while True:
        constant.clear()
        for node in graph.nodes:
            if node.op == "get_attr":
                is_constant = not isinstance(operator.attrgetter(node.target)(graph_module), torch.nn.Parameter)
            else:
                is_constant = (
                    node.op == "call_function"
                    and random not in getattr(node.target, "tags", ())
                    and all(parent in constant for parent in node.all_input_nodes)
                    and not (mutates(node) and node.args[0].op == "get_attr")
                )
            if is_constant and node not in varying:
                constant.add(node)
        # What is written to later is no constant either.
        written = {n.args[0] for n in graph.nodes if n not in constant and mutates(n)} & constant
        if not written:
            break
        varying |= written
    interpreter = torch.fx.Interpreter(graph_module)
    with torch.no_grad():
        for node in graph.nodes:
            if node in constant:
                interpreter.env[node] = interpreter.run_node(node)
    computed = [node for node in graph.nodes if node in constant and node.op == "call_function"]
    for node in computed:
        readers = [user for user in node.users if user not in constant]
        if readers:
            name = f"constant_{node.name}"
            graph_module.register_buffer(name, interpreter.env[node])
            with graph.inserting_before(node):
                stored = graph.get_attr(name)
            node.replace_all_uses_with(stored, delete_user_cb=lambda user: user in readers)
    for node in reversed(computed):
        graph.erase_node(node)


def operators(graph_module):
    """The operators in the order they run, each with its name: module path, `/`, operator, and a number if that repeats."""
    seen, named = {}, {}
    for node in graph_module.graph.nodes:
        if node.op != "call_function":
            continue
        name = module_path(node) + "/" + operator_name(node)
        name = name.lstrip("/")
        seen[name] = seen.get(name, -1) + 1
        named[node] = f"{name}_{seen[name]}" if seen[name] else name
    return named


def module_path(node):
    """The path of the innermost module that a node belongs to; empty for the model itself."""
    modules = list((node.meta.get("nn_module_stack") or {}).values())
    return modules[-1][0] if modules else ""


def operator_name(node):
    is_torch = schema(node) is not NO_SCHEMA
    return schema(node).name.split("::")[1] if is_torch else getattr(node.target, "__name__", "operator")


class Part:
    """A part of a graph as a module, with the outer nodes that it reads, those of them that it overwrites, and the inner
    nodes that others read."""

    def __init__(self, module, inputs, outputs, overwritten):
        self.module, self.inputs, self.outputs, self.overwritten = module, inputs, outputs, overwritten


def cut(graph_module, part_of):
    """The parts of a graph, in order of their keys in `part_of`, which maps every operator to its part's key."""
    results = tree_leaves(next(node for node in graph_module.graph.nodes if node.op == "output").args)
    members = {}
    for node in graph_module.graph.nodes:
        if node in part_of:
            members.setdefault(part_of[node], []).append(node)
    parts = []
    for key in sorted(members):
        inside = set(members[key])
        graph, copies, inputs = torch.fx.Graph(), {}, []
        for node in members[key]:
            for parent in node.all_input_nodes:
                if parent not in inside and parent.op != "get_attr" and parent not in copies:
                    copies[parent] = graph.placeholder(parent.name)
                    inputs.append(parent)
        for node in members[key]:
            for parent in node.all_input_nodes:
                if parent.op == "get_attr" and parent not in copies:
                    copies[parent] = graph.get_attr(parent.target)
            copies[node] = graph.node_copy(node, copies.__getitem__)
        is_result = {node for node in results if isinstance(node, torch.fx.Node)}
        outputs = [n for n in members[key] if n in is_result or any(user not in inside for user in n.users)]
        graph.output(tuple(copies[node] for node in outputs))
        overwritten = {origin(node, inside) for node in members[key] if mutates(node)}.intersection(inputs)
        parts.append(Part(torch.fx.GraphModule(graph_module, graph), inputs, outputs, overwritten))
    return parts


def origin(node, inside):
    """The node whose memory a result lies in, followed back through the nodes `inside`."""
    while node in inside and any(result.alias_info for result in schema(node).returns):
        node = node.args[0]
    return node


# --- End of the shared part ---


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

#!/usr/bin/env python3
"""Measures a PyTorch model, operator by operator, and writes an instance for stagecut. Needs torch 2.6 or newer.

    python tools/profile_torch.py torchvision:googlenet -o googlenet.json
    python tools/profile_torch.py transformers:bert-base-uncased --batch 2 --sequence 256 -o bert.json
    python tools/profile_torch.py model.py:build --device cuda --mode inference -o model.json
    python tools/profile_torch.py transformers:gpt2 --granularity module --depth 2 --recompute -o gpt2.json
    stagecut solve googlenet.json --stages 4

Models of torchvision and transformers are built by name, with random weights: nothing is fetched. `model.py:build` is a
function of yours without arguments that returns (torch.nn.Module, example inputs); the inputs, one micro-batch, are a
tensor, a tuple of positional arguments or a dict of keyword arguments.

How it measures. torch.export captures the operators in the order they run. A layer is an operator together with the
views of its result (or, with --granularity module, a run of operators of one module), and is named after its first
operator: module path, `/`, operator. A sweep runs all layers forward and then all backward, as training does, each on
inputs that are cut off from the layer before, and times each one; a layer's time is the median over the sweeps. Weight
gradients accumulate, as over the micro-batches of an iteration. Parameters that two layers share are a table of which each
stage that needs it holds a copy (`shared`), such as the embedding of words that is the head as well; those that more share tie these.

weight_ms    The part of a layer's backward time that is gradients of weights, for which no other layer waits: what is left of it without
             the gradients of the layer's inputs, which sweeps of their own measure (torch.autograd.grad), and all of it where no input
             has one. As the difference of two medians it is kept from 0 to the whole. Layers without parameters have none.
frozen       Layers whose parameters have `requires_grad` off, all of them, and with some parameter of the model so those without parameters
             that have no backward pass: nothing before them is trained.
stash_bytes  What autograd saves in the layer, without parameters and buffers. A tensor that several layers save, such as
             the input of one that is the output of another, counts once, at the first of them; where a cut parts
             the two, both stages hold it, and the later one's copy is not counted.
modes        With --recompute: a layer that keeps more than its inputs is also run as torch.utils.checkpoint runs it. That mode,
             `full`, keeps the inputs alone, and its backward time, forward once more, is measured like the others. Both
             of two layers that read one tensor count it, where autograd would save it once.
micro_batch  Tokens, where the model reads `input_ids`, and FLOPs of its products: reports say tokens a second and the part of peak.
work         FLOPs are those of matrix products, convolutions and attention (torch.utils.flop_counter). Bytes are what
             each operator reads and writes; backward, its inputs and the gradients of its outputs and inputs. With
             `--cluster a100` and the like, stagecut makes rooflines of them.
"""

# --- Begin of the part that the programs of `stagecut export --to torch` share ---
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

import collections
import contextlib
import datetime
import json
import platform
import re
import statistics
import time

import torch.utils.checkpoint
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count


class Layer:
    """A run of operators that is measured and planned as one."""

    def __init__(self, name, nodes):
        self.name, self.nodes = name, nodes
        self.part = None
        self.forward_ms, self.backward_ms = [], []
        # Of the backward pass as far as it makes the gradients of inputs.
        self.input_ms = []
        # Of the backward pass behind a forward one that is run again.
        self.again_ms = []
        self.stash_bytes = self.input_bytes = 0
        # Whether some of its inputs has a gradient.
        self.hands_on = False
        self.flops = {"forward": 0, "backward": 0, "inputs": 0}

    def learns(self):
        """Whether it has parameters, and a backward pass."""
        return bool(self.backward_ms) and any(parameter.requires_grad for parameter in self.part.module.parameters())

    def is_frozen(self):
        """Whether training leaves all its parameters as they are; of a layer without parameters, whether nothing flows back through it."""
        learns = [parameter.requires_grad for parameter in self.part.module.parameters()]
        return not any(learns) if learns else not self.backward_ms

    def can_run_again(self):
        """Whether running it twice gives the same, and there is something to gain."""
        return not self.part.overwritten and self.input_bytes < self.stash_bytes


def checkpointed(layer, inputs):
    """What a layer makes, when nothing but its inputs is kept for the backward pass."""
    return torch.utils.checkpoint.checkpoint(layer.part.module, *inputs, use_reentrant=False)


def is_view(node):
    """Whether an operator only looks at its input in another way, or makes nothing that others read."""
    if node.target is operator.getitem or not node.users:
        return True
    return any(result.alias_info and not result.alias_info.is_write for result in schema(node).returns)


def group(graph_module, granularity, depth):
    """The layers: runs of consecutive operators, so that no two layers read from each other."""
    layers, module, inside = [], None, set()
    for node, name in operators(graph_module).items():
        own_module = ".".join(module_path(node).split(".")[:depth])
        parents = [parent for parent in node.all_input_nodes if parent.op != "get_attr"]
        # Operators of the model itself, outside any module, stay apart.
        same = granularity == "module" and own_module != "" and own_module == module
        if layers and (same or (is_view(node) and all(parent in inside for parent in parents))):
            layers[-1].nodes.append(node)
        else:
            layers.append(Layer(name, [node]))
            module, inside = own_module, set()
        inside.add(node)
    parts = cut(graph_module, {node: i for i, layer in enumerate(layers) for node in layer.nodes})
    for layer, part in zip(layers, parts, strict=True):
        layer.part = part
    return layers


class Sweep:
    """Runs the layers one by one, forward and backward, and times them."""

    def __init__(self, graph_module, layers, inputs, training, device, clock=time.perf_counter):
        nodes = list(graph_module.graph.nodes)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        self.inputs = dict(zip(placeholders, tree_leaves(arguments(inputs)), strict=True))
        self.results = [node for node in tree_leaves(nodes[-1].args) if isinstance(node, torch.fx.Node)]
        self.layers, self.training, self.device, self.clock = layers, training, device, clock
        kept = [*graph_module.parameters(), *graph_module.buffers()]
        self.not_stashed = {tensor.untyped_storage().data_ptr() for tensor in kept}

    def run(self, step, taking_inventory=False, again=False, inputs_only=False):
        """One sweep; `step()` is called after each layer. An inventory counts stash and FLOPs instead of time; `again` runs the
        layers that can forget what they made so, and times how long they are backward; `inputs_only` leaves out the gradients of
        parameters."""
        is_plain = not again and not inputs_only
        values, tape = dict(self.inputs), []
        for layer in self.layers:
            leaves = [cut_off(values[node]) for node in layer.part.inputs]
            # A leaf cannot be overwritten, and the next sweep needs what it shares.
            inputs = zip(layer.part.inputs, leaves)
            given = [leaf.clone() if node in layer.part.overwritten else leaf for node, leaf in inputs]
            forgets = again and layer.can_run_again()
            with self.inventory(layer, "forward", taking_inventory and is_plain):
                milliseconds, made = self.timed(lambda: checkpointed(layer, given) if forgets else layer.part.module(*given))
            if taking_inventory:
                layer.input_bytes = tensor_bytes(leaves)
                layer.hands_on = any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)
            if is_plain:
                layer.forward_ms.append(milliseconds)
            values.update(zip(layer.part.outputs, made, strict=True))
            tape.append((layer, leaves, made))
            step()
        if not self.training:
            return
        gradients = {node: torch.ones_like(values[node]) for node in self.results if values[node].requires_grad}
        del values
        while tape:
            layer, leaves, made = tape.pop()
            pairs = [(value, gradients[node]) for node, value in zip(layer.part.outputs, made) if node in gradients]
            if pairs:
                run = input_gradients if inputs_only else backward
                with self.inventory(layer, "inputs" if inputs_only else "backward", taking_inventory):
                    milliseconds, _ = self.timed(lambda: run(pairs, layer.part.inputs, leaves, gradients))
                if is_plain:
                    layer.backward_ms.append(milliseconds)
                elif inputs_only:
                    layer.input_ms.append(milliseconds)
                elif layer.can_run_again():
                    layer.again_ms.append(milliseconds)
            step()

    def timed(self, function):
        self.synchronize()
        start = self.clock()
        result = function()
        self.synchronize()
        return (self.clock() - start) * 1e3, result

    def synchronize(self):
        if self.device.type != "cpu":
            getattr(torch, self.device.type).synchronize()

    @contextlib.contextmanager
    def inventory(self, layer, phase, active):
        """Counts FLOPs and, forward, what autograd saves."""
        if not active:
            yield
            return

        def save(tensor):
            storage = tensor.untyped_storage()
            # Everything saved lives until its layer has run backward, so that no address is used twice.
            if phase == "forward" and storage.data_ptr() not in self.not_stashed:
                self.not_stashed.add(storage.data_ptr())
                layer.stash_bytes += storage.nbytes()
            return tensor

        counter = FlopCounterMode(display=False, custom_mapping=ATTENTION)
        with counter, torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
            yield
        layer.flops[phase] = counter.get_total_flops()


def attention_flops(query, key, value, *_, out_shape=None, **__):
    return sdpa_flop_count(query, *heads_of(query, key, value))


def attention_backward_flops(grad_out, query, key, value, *_, out_shape=None, **__):
    return sdpa_backward_flop_count(grad_out, query, *heads_of(query, key, value))


def heads_of(query, *shapes):
    """Shapes of keys and values as often as queries read them: grouped queries share a head, and each computes with it."""
    return [(*shape[:-3], query[-3], *shape[-2:]) for shape in shapes]


# Attention on the CPU has an operator of its own, which torch's counter does not know, and it refuses grouped queries anywhere.
ATTENTION = {
    getattr(torch.ops.aten, f"_scaled_dot_product_{kind}{direction}"): count
    for kind in ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention")
    for direction, count in (("", attention_flops), ("_backward", attention_backward_flops))
}


def cut_off(value):
    """The same numbers, outside the graph that made them; their gradient is wanted where theirs was."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().requires_grad_(value.requires_grad)


def backward(pairs, nodes, leaves, gradients):
    """Backward propagation of one layer; adds the gradients of its inputs to `gradients`."""
    tensors, outer = zip(*pairs)
    torch.autograd.backward(tensors, outer)
    for node, leaf in zip(nodes, leaves):
        if isinstance(leaf, torch.Tensor) and leaf.grad is not None:
            gradients[node] = gradients[node] + leaf.grad if node in gradients else leaf.grad


def input_gradients(pairs, nodes, leaves, gradients):
    """The same without the gradients of parameters."""
    learned = [(node, leaf) for node, leaf in zip(nodes, leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not learned:
        return
    tensors, outer = zip(*pairs)
    found = torch.autograd.grad(tensors, [leaf for _, leaf in learned], outer, allow_unused=True)
    for (node, _), gradient in zip(learned, found):
        if gradient is not None:
            gradients[node] = gradients[node] + gradient if node in gradients else gradient


def whole_ms(model, inputs, training, sweep):
    """The time of the model as a whole, forward and, in training, backward."""
    args, kwargs = arguments(inputs)

    def iteration():
        outputs = [leaf for leaf in tree_leaves(model(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
        if training:
            learned = [output for output in outputs if output.requires_grad]
            torch.autograd.backward(learned, [torch.ones_like(output) for output in learned])

    return sweep.timed(iteration)[0]


def tensor_bytes(value):
    return sum(leaf.numel() * leaf.element_size() for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))


def traffic(layer, value_of):
    """Bytes that the layer's operators read and write, forward and backward."""
    forward = backward = weight = 0
    for node in layer.nodes:
        if is_view(node):
            continue
        made = tensor_bytes(value_of(node))
        if operator_name(node) == "embedding":
            # Of the table the rows looked up; their gradient fills a whole table.
            forward += 2 * made
            backward += made + tensor_bytes(value_of(node.args[0]))
            weight += made + tensor_bytes(value_of(node.args[0]))
            continue
        read = [value_of(parent) for parent in node.all_input_nodes]
        learned = [value for value in read if isinstance(value, torch.Tensor) and value.is_floating_point()]
        forward += made + tensor_bytes(read)
        backward += made + tensor_bytes(read) + tensor_bytes(learned)
        if any(isinstance(value, torch.nn.Parameter) for value in read):
            # Gradients of parameters, which are as large as these, are made of that of the result and the other operands.
            weight += made + tensor_bytes(read)
    return {"forward": forward, "backward": backward, "weight": weight}


def instance(name, provenance, kind, layers, graph_module, training):
    """The native instance."""

    def value_of(node):
        return operator.attrgetter(node.target)(graph_module) if node.op == "get_attr" else node.meta["val"]

    home = {node: i for i, layer in enumerate(layers) for node in layer.part.outputs}
    consumers = collections.defaultdict(list)
    for layer in layers:
        for node in layer.part.inputs:
            if node in home:
                consumers[node].append(layer.name)
    written, readers_of, size_of = [], collections.defaultdict(list), {}
    freezes = training and not all(parameter.requires_grad for layer in layers for parameter in layer.part.module.parameters())
    for layer in layers:
        phases = ("forward", "backward") if training and layer.backward_ms else ("forward",)
        milliseconds = {"forward": layer.forward_ms, "backward": layer.backward_ms}
        moved = traffic(layer, value_of)
        times = {f"{phase}_ms": round(statistics.median(milliseconds[phase]), 6) for phase in phases}
        work = {f"{phase}_flops": layer.flops[phase] for phase in phases}
        work.update((f"{phase}_bytes", moved[phase]) for phase in phases)
        if training and not layer.backward_ms:
            times["backward_ms"] = 0
        if training and layer.learns():
            add_weights(layer, times, work, moved)
        own = 0
        for parameter in layer.part.module.parameters():
            readers_of[id(parameter)].append(layer.name)
            size_of[id(parameter)] = parameter.numel() * parameter.element_size()
            if readers_of[id(parameter)] == [layer.name]:
                own += size_of[id(parameter)]
        names = dict.fromkeys(operator_name(node) for node in layer.nodes if node.users or len(layer.nodes) == 1)
        written.append(
            {
                "id": layer.name,
                "operator": ", ".join(names),
                "times": {kind: times},
                "work": work,
                "parameter_bytes": own,
                "stash_bytes": layer.stash_bytes if training else 0,
                "resident_bytes": sum(tensor_bytes(buffer) for buffer in layer.part.module.buffers()),
            }
        )
        if freezes and layer.is_frozen():
            written[-1]["frozen"] = True
        if layer.again_ms:
            written[-1]["modes"] = modes(layer, written[-1], kind)
        # A layer that reads no other reads the model's input anyway.
        if {node in home for node in layer.part.inputs} == {True, False}:
            written[-1]["reads_input"] = True
    join(written, readers_of, size_of)
    for layer in written:
        for field in ("parameter_bytes", "stash_bytes", "resident_bytes"):
            if not layer[field]:
                del layer[field]
    tensors = [
        {"producer": layers[home[node]].name, "consumers": readers, "bytes": tensor_bytes(value_of(node))}
        for node, readers in sorted(consumers.items(), key=lambda item: home[item[0]])
    ]
    return {
        "schema": "stagecut-instance/1",
        "name": name,
        "provenance": provenance,
        "network": {**precision(layers), "layers": written, "tensors": tensors},
        "cluster": {"device_kinds": [{"name": kind}]},
    }


def join(written, readers_of, size_of):
    """Names what layers have together: a table that two of them share, of which each stage that needs it holds a copy; and a tie of those that
    hang together by parameters otherwise, which share a stage."""
    by_name = {layer["id"]: layer for layer in written}
    together = collections.defaultdict(int)
    for parameter, readers in readers_of.items():
        if len(readers) > 1:
            together[tuple(readers)] += size_of[parameter]
    often = collections.Counter(name for readers in together for name in readers)
    tie_of = {}
    for readers, bytes in together.items():
        frozen = {by_name[name].get("frozen", False) for name in readers}
        if len(readers) == 2 and len(frozen) == 1 and all(often[name] == 1 for name in readers):
            for name in readers:
                layer = by_name[name]
                modes = layer.get("modes", [])
                for place in [layer, *modes]:
                    # The first of them has it already.
                    place["parameter_bytes"] += bytes if name != readers[0] else 0
                    place["shared_bytes"] = bytes
                layer["shared"] = readers[0]
            continue
        # One name for all layers that hang together.
        tie = tie_of.get(readers[0], readers[0])
        for name in readers:
            former = tie_of.get(name, tie)
            tie_of.update({other: tie for other, held in tie_of.items() if held == former})
            tie_of[name] = tie
    for name, tie in tie_of.items():
        by_name[name]["tie"] = tie


def micro_batch(inputs, layers, training):
    """What the micro-batch of a language model is; nothing for other models."""
    words = inputs.get("input_ids") if isinstance(inputs, dict) else None
    if not isinstance(words, torch.Tensor):
        return {}
    forward = sum(layer.flops["forward"] for layer in layers)
    made = {"tokens": words.numel(), **({"sequences": words.shape[0]} if words.dim() == 2 else {})}
    if forward:
        # A product for each operand of a product, with nothing that attention computes again.
        made.update({"forward_flops": forward, **({"backward_flops": 2 * forward} if training else {})})
    return {"micro_batch": made}


def add_weights(layer, times, work, moved):
    """Adds to the times and the work of a layer the part of its backward pass that is gradients of weights."""
    inputs_ms = statistics.median(layer.input_ms) if layer.hands_on else 0
    times["weight_ms"] = round(max(times["backward_ms"] - inputs_ms, 0), 6)
    work["weight_flops"] = max(work["backward_flops"] - layer.flops["inputs"], 0)
    work["weight_bytes"] = min(moved["weight"], moved["backward"]) if layer.hands_on else moved["backward"]


def modes(layer, written, kind):
    """The two modes of a layer that was measured with and without recomputation."""
    kept = {field: written[field] for field in ("times", "work", "parameter_bytes", "stash_bytes", "resident_bytes")}
    work = dict(kept["work"])
    for unit in ("flops", "bytes"):
        work[f"backward_{unit}"] = work.get(f"backward_{unit}", 0) + work[f"forward_{unit}"]
    times = {**kept["times"][kind], "backward_ms": round(statistics.median(layer.again_ms), 6)}
    if "weight_ms" in times:
        times["weight_ms"] = min(times["weight_ms"], times["backward_ms"])
    again = {
        "recompute": "full",
        "times": {kind: times},
        "work": work,
        "stash_bytes": layer.input_bytes,
        "workspace_bytes": layer.stash_bytes - layer.input_bytes,
    }
    return [kept, {**kept, **again}]


def precision(layers):
    """The numbers that most parameters are, under the name that instances have for them; nothing where there is none."""
    names = {torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
    elements = {}
    for layer in layers:
        for parameter in layer.part.module.parameters():
            elements[parameter.dtype] = elements.get(parameter.dtype, 0) + parameter.numel()
    most = names.get(max(elements, key=elements.get, default=None))
    return {"precision": most} if most else {}


def lines(instance):
    """JSON with a layer or tensor a line."""

    def rows(items):
        return "[\n" + ",\n".join(json.dumps(item) for item in items) + "\n]"

    head = {key: value for key, value in instance.items() if key != "network"}
    network = instance["network"]
    stated = "".join(f'"{key}": {json.dumps(value)}, ' for key, value in network.items() if key not in ("layers", "tensors"))
    body = f'"network": {{{stated}"layers": {rows(network["layers"])}, "tensors": {rows(network["tensors"])}}}'
    return json.dumps(head)[:-1] + ",\n" + body + "}\n"


class Progress:
    """A bar on stderr where that is a terminal."""

    def __init__(self, total):
        self.total, self.done, self.shown = max(total, 1), 0, 0.0

    def step(self):
        self.done += 1
        now = time.monotonic()
        if sys.stderr.isatty() and (now - self.shown > 0.1 or self.done == self.total):
            self.shown = now
            filled = 30 * self.done // self.total
            end = "\n" if self.done == self.total else ""
            print(
                f"\rmeasuring [{'#' * filled}{'.' * (30 - filled)}] {100 * self.done // self.total:3} %",
                end=end,
                file=sys.stderr,
                flush=True,
            )


def to_device(inputs, device):
    return torch.utils._pytree.tree_map(
        lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, inputs
    )


def describe(device):
    """The device in words, and a name for it as a device kind."""
    if device.type == "cuda":
        words = torch.cuda.get_device_name(device)
        return words, re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    if device.type != "cpu":
        return device.type, device.type
    capability = getattr(torch.backends.cpu, "get_cpu_capability", lambda: "")()
    threads = torch.get_num_threads()
    return f"{platform.machine()} CPU {capability}".strip() + f", {threads} thread{'s' * (threads > 1)}", "cpu"


# What some options may be.
CHOICES = {"mode": ("training", "inference"), "granularity": ("operator", "module"), "clock": ("wall", "cpu")}


def check(options):
    """Refuses options that are unknown or do not go together."""
    for name, known in CHOICES.items():
        value = getattr(options, name)
        if value not in known:
            raise Fault(f"{name}: found {value!r}, expected one of {', '.join(known)}")
    if options.depth and options.granularity != "module":
        raise Fault("--depth goes with --granularity module")
    if options.recompute and options.mode != "training":
        raise Fault("--recompute goes with --mode training: inference keeps nothing")
    for name in ("depth", "warmup", "repeats"):
        value = getattr(options, name)
        if value is not None and not (isinstance(value, int) and value >= 1):
            raise Fault(f"{name}: found {value!r}, expected a whole number from 1")


def profile(model, inputs, options):
    """Measures the model; returns the layers, the captured graph, and the median time of the whole model in ms."""
    check(options)
    device = torch.device(options.device)
    training = options.mode == "training"
    model, inputs = model.to(device), to_device(inputs, device)
    with contextlib.nullcontext() if training else torch.no_grad():
        graph_module = capture(model, inputs, training)
        layers = group(graph_module, options.granularity, options.depth)
        if not layers:
            raise Fault("the model runs no operator")
        clock = time.process_time if options.clock == "cpu" else time.perf_counter
        sweep = Sweep(graph_module, layers, inputs, training, device, clock)
        kinds = 1 + training + options.recompute
        sweeps = 1 + training + (options.warmup + options.repeats) * kinds
        progress = Progress(sweeps * len(layers) * (2 if training else 1))
        sweep.run(progress.step, taking_inventory=True)
        if training:
            sweep.run(progress.step, taking_inventory=True, inputs_only=True)
        wholes = []
        for repeat in range(-options.warmup, options.repeats):
            if repeat <= 0:
                for layer in layers:
                    layer.forward_ms, layer.backward_ms, layer.input_ms, layer.again_ms = [], [], [], []
            sweep.run(progress.step)
            if training:
                sweep.run(progress.step, inputs_only=True)
            if options.recompute:
                sweep.run(progress.step, again=True)
            wholes.append(whole_ms(model, inputs, training, sweep))
    return layers, graph_module, statistics.median(wholes[-options.repeats :])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("model", help="torchvision:NAME, transformers:NAME or FILE.py:FUNCTION")
    add("-o", "--output", type=pathlib.Path, help="the instance [default: stdout]")
    add("--device", default="cpu", help="cpu, cuda, cuda:1, mps, ... [default: cpu]")
    add("--kind", help="name of the device kind in the instance [default: made from the device]")
    add("--mode", choices=CHOICES["mode"], default="training", help="[default: training]")
    add("--batch", type=positive, default=4, help="samples in a micro-batch, for models by name [default: 4]")
    add("--sequence", type=positive, default=128, help="tokens in a sample, for transformers [default: 128]")
    add(
        "--granularity",
        choices=CHOICES["granularity"],
        default="operator",
        help="what a layer is [default: operator]",
    )
    add("--depth", type=positive, help="with --granularity module: modules so deep at most, such as 2 for `layer1.0`")
    add("--recompute", action="store_true", help="also measure layers that keep only their inputs, and list both as modes")
    add("--warmup", type=positive, default=2, help="sweeps before measuring [default: 2]")
    add("--repeats", type=positive, default=9, help="sweeps of which the median is taken [default: 9]")
    add("--threads", type=positive, help="threads of the CPU [default: torch's]")
    add(
        "--clock",
        choices=CHOICES["clock"],
        default="wall",
        help="cpu: the time this process computes, for one thread on a machine that does other work too [default: wall]",
    )
    add("--name", help="name of the instance [default: the model's]")
    options = parser.parse_args()
    check(options)
    if options.clock == "cpu" and (options.device != "cpu" or options.threads != 1):
        raise Fault("--clock cpu goes with --device cpu and --threads 1: it adds the times of all threads")
    if options.threads:
        torch.set_num_threads(options.threads)
    try:
        device = torch.device(options.device)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise Fault(f"torch cannot use the device `{options.device}`: {str(error).splitlines()[0]}") from error
    # Gradients of random weights may fade to denormal numbers, which are slow and rare in real training.
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    model, inputs = load(options.model, options.batch, options.sequence)
    layers, graph_module, whole = profile(model, inputs, options)
    words, kind = describe(device)
    training = options.mode == "training"
    total = sum(
        statistics.median(times) for layer in layers for times in (layer.forward_ms, layer.backward_ms) if times
    )
    shapes = ", ".join(
        "x".join(map(str, leaf.shape)) for leaf in tree_leaves(inputs) if isinstance(leaf, torch.Tensor)
    )
    provenance = (
        f"tools/profile_torch.py on {datetime.date.today()}: {options.model}, random weights, {options.mode}, input {shapes}, "
        f"torch {torch.__version__.split('+')[0]}, {words}, medians of {options.repeats}"
        f"{' of CPU time' if options.clock == 'cpu' else ''}; "
        f"the layers sum to {total:.1f} ms, the model as a whole takes {whole:.1f} ms"
    )
    name = options.name or options.model.rpartition(":")[2]
    made = instance(name, provenance, options.kind or kind, layers, graph_module, training)
    made["network"] = {**micro_batch(inputs, layers, training), **made["network"]}
    text = lines(made)
    if options.output:
        options.output.write_text(text)
    else:
        sys.stdout.write(text)
    print(
        f"{len(layers)} layers; they sum to {total:.1f} ms, the model as a whole takes {whole:.1f} ms",
        file=sys.stderr,
    )


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


if __name__ == "__main__":
    try:
        main()
    except Fault as fault:
        sys.exit(f"error: {fault}")

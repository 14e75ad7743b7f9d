#!/usr/bin/env python3
"""Splits an ONNX model into one file a stage of a plan. Written by `stagecut export --to onnx`; needs the packages onnx
and, for --check, onnxruntime and numpy.

    python THIS.py model.onnx --output stages                  # stages/stage-1.onnx, stage-2.onnx, ...
    python THIS.py model.onnx --output stages --check          # and compares them with the whole under onnxruntime

A stage file takes and returns tensors under the names they have in the model. What a stage reads may come from any
earlier stage, or be an input of the model.
"""

import argparse
import pathlib
import sys

import onnx
import onnx.utils

PLAN = {}


class Fault(Exception):
    """Something the user can put right; shown without a traceback."""


def layer_names(graph):
    """The layer that each node is in stagecut: its name, or its first output, or operator and position, made unique."""
    names, taken = [], set()
    for position, node in enumerate(graph.node):
        name = node.name or (node.output[0] if node.output else "") or f"{node.op_type}-{position}"
        unique, copy = name, 2
        while unique in taken:
            unique, copy = f"{name}#{copy}", copy + 1
        taken.add(unique)
        names.append(unique)
    return names


def boundaries(graph):
    """What each stage reads from outside and what others read of it: lists of tensor names, by stage."""
    stage_of_layer = {layer: stage["index"] for stage in PLAN["stages"] for layer in stage["layers"]}
    names = layer_names(graph)
    missing = sorted(stage_of_layer.keys() - set(names))
    if missing:
        raise Fault(f"the model has no node `{missing[0]}`, nor {len(missing) - 1} more of the plan's layers")
    for name, node in zip(names, graph.node):
        if any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
            raise Fault(
                f"`{name}` ({node.op_type}) holds a graph of its own, into which onnx's extractor does not look"
            )
    inputs = {value.name for value in graph.input} - {value.name for value in graph.initializer}
    results = [value.name for value in graph.output]
    # Nodes outside the plan compute constants; each stage that reads one gets its own copy.
    stage_of_tensor = {
        tensor: stage_of_layer[name]
        for name, node in zip(names, graph.node)
        if name in stage_of_layer
        for tensor in node.output
        if tensor
    }
    reads = {stage["index"]: {} for stage in PLAN["stages"]}
    makes = {stage["index"]: {} for stage in PLAN["stages"]}
    for name, node in zip(names, graph.node):
        stage = stage_of_layer.get(name)
        for tensor in node.input:
            home = stage_of_tensor.get(tensor)
            if stage is None or home == stage or (home is None and tensor not in inputs):
                continue
            if home is not None and home > stage:
                raise Fault(f"`{name}` is planned before the layer that makes `{tensor}`, which it reads")
            reads[stage][tensor] = None
            if home is not None:
                makes[home][tensor] = None
    for tensor in results:
        if tensor not in stage_of_tensor:
            raise Fault(f"no layer of the plan makes the model's output `{tensor}`")
        makes[stage_of_tensor[tensor]][tensor] = None
    return {stage: (list(reads[stage]), list(makes[stage])) for stage in reads}


def split(path, folder):
    """Writes one file a stage into `folder`; returns (file, tensors read, tensors made) a stage."""
    model = onnx.shape_inference.infer_shapes(onnx.load(path))
    extractor = onnx.utils.Extractor(model)
    # A tensor that crosses a boundary needs a declared type, which shape inference gives all that it understands.
    typed = {value.name for value in [*model.graph.input, *model.graph.value_info, *model.graph.output]}
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for stage, (reads, makes) in boundaries(model.graph).items():
        unknown = [tensor for tensor in reads + makes if tensor not in typed]
        if unknown:
            raise Fault(f"the type of `{unknown[0]}`, which crosses a boundary of stage {stage}, cannot be inferred")
        file = folder / f"stage-{stage}.onnx"
        onnx.save(extractor.extract_model(reads, makes), file)
        written.append((file, reads, makes))
    return written


def random_inputs(session, seed=0):
    """Inputs of the declared type and shape; a dimension without a size is 1."""
    import numpy

    random = numpy.random.default_rng(seed)
    types = {
        "tensor(float)": numpy.float32,
        "tensor(double)": numpy.float64,
        "tensor(int64)": numpy.int64,
        "tensor(int32)": numpy.int32,
        "tensor(bool)": numpy.bool_,
        "tensor(float16)": numpy.float16,
    }
    values = {}
    for value in session.get_inputs():
        if value.type not in types:
            raise Fault(f"input `{value.name}` is of type {value.type}, for which --check makes no numbers")
        shape = [size if isinstance(size, int) else 1 for size in value.shape]
        values[value.name] = random.random(shape).astype(types[value.type])
    return values


def check(path, stages):
    """The largest difference between the model's outputs and those of its stages, relative to the largest output."""
    import numpy
    import onnxruntime

    def open_session(file):
        options = onnxruntime.SessionOptions()
        # The same arithmetic in the whole as in the parts: nothing is fused across a boundary.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    session = open_session(path)
    values = random_inputs(session)
    names = [value.name for value in session.get_outputs()]
    whole = dict(zip(names, session.run(names, values)))
    for file, reads, makes in stages:
        results = open_session(file).run(makes, {name: values[name] for name in reads})
        values.update(zip(makes, results))
    scale = max(float(numpy.abs(array).max()) for array in whole.values()) or 1.0
    return max(float(numpy.abs(whole[name] - values[name]).max()) for name in names) / scale


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="the ONNX file that was planned")
    parser.add_argument(
        "--output", type=pathlib.Path, default=pathlib.Path("stages"), help="folder [default: stages]"
    )
    parser.add_argument("--check", action="store_true", help="compare with the whole model; exit 1 if they differ")
    parser.add_argument("--tolerance", type=float, default=1e-5, help="largest relative difference [default: 1e-5]")
    options = parser.parse_args()
    if not options.model.is_file():
        raise Fault(f"there is no file `{options.model}`")
    stages = split(options.model, options.output)
    for file, reads, makes in stages:
        print(f"{file}: reads {', '.join(reads)}; makes {', '.join(makes)}")
    if options.check:
        difference = check(options.model, stages)
        print(f"largest relative difference to the whole model: {difference:.3g}")
        if not difference <= options.tolerance:
            raise Fault(f"the stages differ from the whole model by more than {options.tolerance:g}")


if __name__ == "__main__":
    try:
        main()
    except Fault as fault:
        sys.exit(f"error: {fault}")

#!/usr/bin/env python3
"""Measures inference of an ONNX model, node by node, with onnxruntime, and writes an instance for stagecut. Needs the
packages onnx, onnxruntime and numpy.

    python tools/profile_onnx.py model.onnx -o model.json
    python tools/profile_onnx.py model.onnx --dimension batch=8 --threads 1 -o model.json
    stagecut solve model.json --stages 4

A layer is a node, under the name it has in the model; nodes that compute constants are left out, and a layer's parameters
are the constants it reads. Times are medians of onnxruntime's own profile, with graph optimisations off, so that no two
nodes become one. Inputs are random numbers; integers are 0 or 1. ONNX models that stagecut reads directly get rooflines
instead of times.
"""

import argparse
import collections
import datetime
import json
import pathlib
import platform
import statistics
import sys
import tempfile
import time

import numpy
import onnx
import onnxruntime


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


def type_of(value_type):
    """The numpy type of onnxruntime's `tensor(float)`, or of its profile's `float`."""
    name = value_type.removeprefix("tensor(").removesuffix(")")
    try:
        return numpy.dtype({"float": "float32", "double": "float64", "bfloat16": "float16"}.get(name, name))
    except TypeError as error:
        raise Fault(f"tensors of type {name} are not supported") from error


def random_inputs(session, dimensions):
    random, values = numpy.random.default_rng(0), {}
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else dimensions.get(size) for size in value.shape]
        if None in shape:
            symbol = value.shape[shape.index(None)]
            raise Fault(
                f"input `{value.name}` has a dimension `{symbol}` without a size; give --dimension {symbol}=SIZE"
            )
        kind = type_of(value.type)
        drawn = random.random(shape) if kind.kind == "f" else random.integers(2, size=shape)
        values[value.name] = drawn.astype(kind)
    return values


def measure(model, options):
    """Runs the model; returns times in ms by node name, and sizes in bytes by tensor name."""
    session_options = onnxruntime.SessionOptions()
    session_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session_options.log_severity_level = 3
    session_options.enable_profiling = True
    if options.threads:
        session_options.intra_op_num_threads = options.threads
    with tempfile.TemporaryDirectory() as folder:
        session_options.profile_file_prefix = str(pathlib.Path(folder) / "profile")
        file = pathlib.Path(folder) / "model.onnx"
        onnx.save(model, file)
        try:
            session = onnxruntime.InferenceSession(str(file), session_options, providers=[options.provider])
            values = random_inputs(session, options.dimension)
            runs = options.warmup + options.repeats
            wholes = []
            for run in range(runs):
                start = time.perf_counter()
                session.run(None, values)
                wholes.append((time.perf_counter() - start) * 1e3)
                progress(run + 1, runs)
            events = json.loads(pathlib.Path(session.end_profiling()).read_text())
        except Fault:
            raise
        except Exception as error:
            raise Fault(f"onnxruntime cannot run the model: {str(error).splitlines()[0]}") from error
    times, shapes = collections.defaultdict(list), {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            name = event["name"].removesuffix("_kernel_time")
            times[name].append(event["dur"] / 1e3)
            shapes[name] = event["args"].get("output_type_shape", [])
    sizes = {}
    for node in model.graph.node:
        present = [output for output in node.output if output]
        for output, described in zip(present, shapes.get(node.name, [])):
            ((kind, shape),) = described.items()
            sizes[output] = type_of(kind).itemsize * int(numpy.prod(shape, dtype=numpy.int64))
    medians = {name: statistics.median(drawn[-options.repeats :]) for name, drawn in times.items()}
    return medians, sizes, statistics.median(wholes[-options.repeats :])


def progress(done, total):
    if sys.stderr.isatty():
        filled = 30 * done // total
        print(
            f"\rmeasuring [{'#' * filled}{'.' * (30 - filled)}] {100 * done // total:3} %",
            end="\n" if done == total else "",
            file=sys.stderr,
            flush=True,
        )


def network(model, times, sizes, kind):
    """Layers and tensors of the instance."""
    constants = {tensor.name: len(tensor.raw_data) or numpy_bytes(tensor) for tensor in model.graph.initializer}
    layers, producer, readers = [], {}, collections.defaultdict(list)
    for node in model.graph.node:
        inputs = [name for name in node.input if name]
        if all(name in constants for name in inputs) and not node.op_type.startswith("Random"):
            constants.update((output, sizes.get(output, 0)) for output in node.output)
            if node.op_type == "Constant":
                values = [attribute.t for attribute in node.attribute if attribute.name == "value"]
                constants[node.output[0]] = sum(numpy_bytes(value) for value in values)
            continue
        if node.name not in times:
            raise Fault(f"onnxruntime's profile has no time of `{node.name}`")
        layer = {
            "id": node.name,
            "operator": node.op_type,
            "times": {kind: {"forward_ms": round(times[node.name], 6)}},
        }
        parameter_bytes = sum(constants[name] for name in dict.fromkeys(inputs) if name in constants)
        if parameter_bytes:
            layer["parameter_bytes"] = parameter_bytes
        layers.append(layer)
        outside = [name for name in inputs if name not in producer and name not in constants]
        if outside and any(name in producer for name in inputs):
            layer["reads_input"] = True
        for name in dict.fromkeys(inputs):
            if name in producer:
                readers[name].append(node.name)
        producer.update((output, node.name) for output in node.output if output)
    tensors = [
        {"producer": made_by, "consumers": readers[name], "bytes": sizes.get(name, 0)}
        for name, made_by in producer.items()
        if readers[name]
    ]
    if not layers:
        raise Fault("the model computes nothing from its inputs")
    return layers, tensors


def numpy_bytes(tensor):
    return (
        int(numpy.prod(tensor.dims, dtype=numpy.int64))
        * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    )


def lines(head, layers, tensors):
    """JSON with a layer or tensor a line."""

    def rows(items):
        return "[\n" + ",\n".join(json.dumps(item) for item in items) + "\n]"

    return json.dumps(head)[:-1] + f',\n"network": {{"layers": {rows(layers)}, "tensors": {rows(tensors)}}}}}\n'


def dimension(text):
    name, separator, size = text.partition("=")
    if not separator or not size.isdigit() or int(size) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not NAME=SIZE")
    return name, int(size)


def positive(text):
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("model", type=pathlib.Path, help="an ONNX file")
    add("-o", "--output", type=pathlib.Path, help="the instance [default: stdout]")
    add(
        "--dimension",
        type=dimension,
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="size of a named dimension",
    )
    add(
        "--provider",
        default="CPUExecutionProvider",
        help="onnxruntime's execution provider [default: CPUExecutionProvider]",
    )
    add("--kind", default="cpu", help="name of the device kind in the instance [default: cpu]")
    add("--warmup", type=positive, default=3, help="runs before measuring [default: 3]")
    add("--repeats", type=positive, default=15, help="runs of which the median is taken [default: 15]")
    add("--threads", type=positive, help="threads within a node [default: onnxruntime's]")
    add("--name", help="name of the instance [default: the file's]")
    options = parser.parse_args()
    options.dimension = dict(options.dimension)
    if not options.model.is_file():
        raise Fault(f"there is no file `{options.model}`")
    if options.provider not in onnxruntime.get_available_providers():
        known = ", ".join(onnxruntime.get_available_providers())
        raise Fault(f"onnxruntime has no provider `{options.provider}` here; it has {known}")
    try:
        model = onnx.load(options.model)
    except Exception as error:
        raise Fault(f"`{options.model}` is no ONNX model: {str(error).splitlines()[0]}") from error
    for node, name in zip(model.graph.node, layer_names(model.graph)):
        node.name = name
    times, sizes, whole = measure(model, options)
    layers, tensors = network(model, times, sizes, options.kind)
    total = sum(layer["times"][options.kind]["forward_ms"] for layer in layers)
    threads = f"{options.threads} threads" if options.threads else "its own number of threads"
    head = {
        "schema": "stagecut-instance/1",
        "name": options.name or options.model.stem,
        "provenance": f"tools/profile_onnx.py on {datetime.date.today()}: {options.model.name}, inference, "
        f"onnxruntime {onnxruntime.__version__}, {options.provider}, {platform.machine()}, {threads}, "
        f"medians of {options.repeats}; the layers sum to {total:.2f} ms, the model as a whole takes {whole:.2f} ms",
        "cluster": {"device_kinds": [{"name": options.kind}]},
    }
    text = lines(head, layers, tensors)
    if options.output:
        options.output.write_text(text)
    else:
        sys.stdout.write(text)
    print(
        f"{len(layers)} layers; they sum to {total:.2f} ms, the model as a whole takes {whole:.2f} ms",
        file=sys.stderr,
    )


if __name__ == "__main__":
    try:
        main()
    except Fault as fault:
        sys.exit(f"error: {fault}")

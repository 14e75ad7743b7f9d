"""Iterations and memory of plans in Sailor's form: measured layers, links and plans of a folder such as ../shared/data/measured-plans.

The pipeline is simulated by `stagecut` (`pipelines.py`). What its model has no term for is added here and said to be: the reduction of
gradients at its own link, the embedding's gradient where the head shares its weights, the optimiser's step, a constant of the
iteration; of memory, buffers of communication, the allocator's share and what the process reserves.
"""
import csv
import json
import math
import sys
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import pipelines

# Dense TF32 on tensor cores, in which PyTorch multiplies the fp32 numbers of these profiles: they are faster than fp32 without
# (67 TFLOP/s). NVIDIA GH200 Grace Hopper Superchip, data sheet, 2023, and NVIDIA A100 Tensor Core GPU, data sheet, 2021.
PEAK_FLOPS_PER_S = {"GH-96": 494.5e12, "A100-40": 156e12}
# DeepSpeed reduces gradients in buckets of so many bytes (README of the data).
BUCKET_BYTES = 5e8
# Curves of links are of no use below (README of the data).
LEAST_MESSAGE_BYTES = 1e5


@dataclass(frozen=True)
class Constants:
    """What is calibrated; by default nothing is."""
    # Part of the measured curve of one GPU that a transfer between stages attains.
    pipeline_link: float = 1.0
    # The same of the reduction of gradients.
    reduction_link: float = 1.0
    # Once an iteration, whatever the plan: barriers, the norm of the gradients, what is logged.
    iteration_s: float = 0.0
    # What the allocator takes, as a factor of what is allocated.
    allocator: float = 1.0
    # What a process holds before it allocates: context, libraries, their buffers.
    reserve_bytes: float = 0.0
    # Part of its peak at which a layer runs, where layers are not measured.
    roofline: float = 1.0


@dataclass
class Stage:
    """A stage of a plan."""
    layers: slice
    # Kinds of GPU of its replicas, each once.
    kinds: list
    tensor: int
    replicas: int
    # Nodes of its replicas, in their order: each the first of its GPUs.
    nodes: list = field(default_factory=list)


@dataclass
class Plan:
    """A row of plans.csv. What was measured is for calibration and tables alone, and may be absent."""
    name: str
    model: str
    stages: list
    micro_batch: int
    global_batch: int
    row: dict

    def measured(self, column):
        text = self.row.get(column) or ""
        return float(text) if text else None

    @property
    def is_sound(self):
        return not self.row.get("defects")

    @property
    def layout(self):
        """What plans that differ in replicas alone share: they are left out together."""
        return tuple(self.row[column] for column in ("model", "layers_per_stage", "tp", "micro_batch_size"))


@dataclass
class Prediction:
    """Seconds and bytes by their parts; `stage_bytes` are the parts of the fullest stage."""
    seconds: dict
    stage_bytes: dict

    @property
    def iteration_s(self):
        return sum(self.seconds.values())

    @property
    def memory_bytes(self):
        return sum(self.stage_bytes.values())


class Folder:
    """Plans, profiles and links of a folder."""

    def __init__(self, path):
        path = Path(path)
        self.links = json.loads((path / "links.json").read_text())
        profiles = [json.loads(file.read_text()) for file in sorted((path / "profiles").glob("*.json"))]
        self.profiles = {(profile["model"], profile["gpu"]): Profile(profile) for profile in profiles}
        with open(path / "plans.csv", newline="") as file:
            self.plans = [self.plan(row) for row in csv.DictReader(file)]

    def plan(self, row):
        numbers = {column: [int(word) for word in row[column].split()] for column in ("layers_per_stage", "first_layer_of_stage", "tp", "dp")}
        kinds = [list(dict.fromkeys(word.partition("*")[0] for word in text.replace(",", " ").split())) for text in row["gpu_kinds_per_stage"].split("|")]
        stages = [Stage(slice(first, first + count), kinds, tensor, replicas) for count, first, tensor, replicas, kinds
                  in zip(*numbers.values(), kinds)]
        self.place(stages)
        return Plan(row["plan"], row["model"], stages, int(row["micro_batch_size"]), int(row["global_batch_size"]), row)

    def place(self, stages):
        """GPUs in the order of stages, replicas and tensor groups, a node of one kind after the other."""
        place, node, kinds = 0, -1, None
        for stage in stages:
            size = self.node_size(stage.kinds[0])
            for _ in range(stage.replicas):
                if kinds != stage.kinds or place + stage.tensor > size:
                    place, node, kinds = 0, node + 1, stage.kinds
                stage.nodes.append(node)
                place += stage.tensor

    def node_size(self, kind):
        return max([link["gpus"] for link in self.links["within_node"] if link["gpu"] == kind], default=1)

    def profile(self, model, kind):
        if (model, kind) not in self.profiles:
            raise LookupError(f"no profile of {model} on {kind}")
        return self.profiles[model, kind]

    def transfer_s(self, kinds, is_within, message_bytes):
        """Of one GPU to another, the slowest of these pairs of kinds."""
        return max(self.pair_s(*pair, is_within, message_bytes) for pair in kinds)

    def pair_s(self, sender, receiver, is_within, message_bytes):
        if is_within:
            links = [link for link in self.links["within_node"] if link["gpu"] == sender and link["gpus"] == 2]
        else:
            links = [link for link in self.links["between_nodes"] if (link["from"], link["to"]) == (sender, receiver)
                     and link["from_gpus"] == link["to_gpus"] == 1]
        if not links:
            raise LookupError(f"no link from {sender} to {receiver}")
        return seconds_of(links[0], message_bytes)


def seconds_of(link, message_bytes):
    """By the curve, which is held where it would fall with larger messages, or rise beyond what was measured."""
    c0, c1, c2 = link["coefficients"]
    z = math.log2(max(message_bytes, LEAST_MESSAGE_BYTES) / 1e6)
    if c0 < 0:
        z = min(z, -c1 / (2 * c0))
    peak = link["peak_bytes_per_s"]
    return message_bytes / min(peak, max(1e9 * (c0 * z * z + c1 * z + c2), 1e-3 * peak))


class Profile:
    """Layers of a model on a kind of GPU."""

    def __init__(self, data):
        self.data = data

    def of(self, field, tensor):
        """A list by layer at a tensor degree."""
        values = self.data[field].get(str(tensor))
        if values is None:
            raise LookupError(f"{self.data['model']} has no `{field}` of tensor degree {tensor}")
        return values

    def times(self, micro_batch, tensor):
        """Seconds of a layer, forward, backward and update; between two measured sizes by the straight line through them."""
        sizes = {int(size): times[str(tensor)] for size, times in self.data["times_s"].items() if str(tensor) in times}
        if not sizes:
            raise LookupError(f"{self.data['model']} was not measured at tensor degree {tensor} on {self.data['gpu']}")
        if micro_batch in sizes or len(sizes) == 1:
            return sizes.get(micro_batch) or [[micro_batch / size * time for time in layer] for size, of in sizes.items() for layer in of]
        below = [size for size in sorted(sizes) if size < micro_batch][-2:]
        above = [size for size in sorted(sizes) if size > micro_batch][:2]
        low, high = (below[-1], above[0]) if below and above else (below or above)
        part = (micro_batch - low) / (high - low)
        return [[max(0.0, a + part * (b - a)) for a, b in zip(*pair)] for pair in zip(sizes[low], sizes[high])]

    @cached_property
    def width(self):
        """Of a transformer layer with `12 h^2 + 13 h` parameters."""
        parameters = self.of("parameters_by_tp", 1)[1]
        return round((math.sqrt(13 * 13 + 48 * parameters) - 13) / 24)

    def peak_times(self, micro_batch, tensor):
        """The same at the peak rate: products of matrices alone, and twice as long backward. The update is left as measured."""
        kind = self.data["gpu"]
        if kind not in PEAK_FLOPS_PER_S:
            raise LookupError(f"no peak rate of {kind}")
        tokens = micro_batch * self.of("output_bytes_per_sample_by_tp", 1)[0] / 4 / self.width
        measured = self.times(micro_batch, tensor)
        times = []
        for layer, parameters, (*_, update) in zip(self.data["layer_kinds"], self.of("parameters_by_tp", tensor), measured):
            flops = 2 * tokens * parameters
            if layer == "embedding":
                flops = 0
            elif layer == "transformer":
                flops += 4 * tokens * (tokens / micro_batch) * self.width / tensor
            times.append([flops / PEAK_FLOPS_PER_S[kind], 2 * flops / PEAK_FLOPS_PER_S[kind], update])
        return times

    def is_tied(self, tensor):
        """Whether the head shares the embedding's weights: it has too few of its own."""
        parameters = self.of("parameters_by_tp", tensor)
        return parameters[-1] < parameters[0] / 2


def predict(folder, plan, constants, costs="measured"):
    """Of one plan, without a look at what was measured of it. `costs` of layers: `measured`, or `peaks`."""
    stages = plan.stages
    costed = [cost(folder, plan, at, constants, costs) for at in range(len(stages))]
    micro_batches = plan.global_batch // plan.micro_batch
    replicas = [stage.replicas for stage in stages]
    if len(set(replicas)) == 1:
        # Pipelines of their own, all alike.
        micro_batches //= replicas[0]
        costed = [replace(stage, replicas=1) for stage in costed]
    run = pipelines.run(costed, micro_batches)
    seconds = {
        "pipeline": run["run"]["iteration_ms"] / 1e3,
        "gradient reduction": max(reduction_s(folder, plan, stage) for stage in stages) / constants.reduction_link,
        "embedding gradient": embedding_s(folder, plan) / constants.reduction_link,
        "optimiser": max(profile.times(plan.micro_batch, stage.tensor)[stage.layers.start][2] for stage in stages for profile in profiles(folder, plan, stage)),
        "constant": constants.iteration_s,
    }
    held = [held_bytes(folder, plan, at, run["stages"][at], constants) for at in range(len(stages))]
    return Prediction(seconds, max(held, key=lambda parts: sum(parts.values())))


def profiles(folder, plan, stage):
    return [folder.profile(plan.model, kind) for kind in stage.kinds]


def cost(folder, plan, at, constants, costs):
    """A stage as the program is told: its slowest replica."""
    stage = plan.stages[at]
    passes = []
    for profile in profiles(folder, plan, stage):
        times = {"measured": profile.times, "peaks": profile.peak_times}[costs](plan.micro_batch, stage.tensor)[stage.layers]
        scale = constants.roofline if costs == "peaks" else 1
        passes.append([sum(layer[phase] for layer in times) / scale for phase in (0, 1)])
    forward, backward = max(passes, key=sum)
    profile = profiles(folder, plan, stage)[0]
    return pipelines.Stage(
        forward, backward, transfer_s(folder, plan, at) / constants.pipeline_link, stage.replicas,
        parameter_bytes=sum(profile.of("parameter_bytes_by_tp", stage.tensor)[stage.layers]),
        stash_bytes=plan.micro_batch * sum(profile.of("activation_memory_bytes_per_sample_by_tp", stage.tensor)[stage.layers]),
        resident_bytes=workspace_bytes(plan, stage, profile) + buffer_bytes(folder, plan, at))


def boundary_bytes(folder, plan, at):
    """What a stage hands on of a micro-batch."""
    stage = plan.stages[at]
    return plan.micro_batch * profiles(folder, plan, stage)[0].of("output_bytes_per_sample_by_tp", stage.tensor)[stage.layers.stop - 1]


def transfer_s(folder, plan, at):
    """Each GPU of a tensor group hands on a tensor as whole as it has it, at the rate of one GPU."""
    if at + 1 == len(plan.stages):
        return 0.0
    sender, receiver = plan.stages[at], plan.stages[at + 1]
    kinds = [(one, other) for one in sender.kinds for other in receiver.kinds]
    is_within = set(sender.nodes) == set(receiver.nodes) and len(set(sender.nodes)) == 1
    return folder.transfer_s(kinds, is_within, boundary_bytes(folder, plan, at))


def ring_s(folder, kinds, nodes, count, total_bytes):
    """A ring all-reduce, bucket by bucket."""
    if count == 1:
        return 0.0
    pairs = [(one, other) for one in kinds for other in kinds]
    buckets = [min(BUCKET_BYTES, total_bytes - start) for start in range(0, math.ceil(total_bytes), int(BUCKET_BYTES))]
    return sum(folder.transfer_s(pairs, len(set(nodes)) == 1, 2 * (count - 1) / count * bucket) for bucket in buckets)


def reduction_s(folder, plan, stage):
    gradients = sum(profiles(folder, plan, stage)[0].of("parameter_bytes_by_tp", stage.tensor)[stage.layers])
    return ring_s(folder, stage.kinds, stage.nodes, stage.replicas, gradients)


def embedding_s(folder, plan):
    """First and last stage add up the gradients of weights that they share."""
    first, last = plan.stages[0], plan.stages[-1]
    profile = profiles(folder, plan, first)[0]
    if len(plan.stages) == 1 or not profile.is_tied(first.tensor):
        return 0.0
    kinds = list(dict.fromkeys(first.kinds + last.kinds))
    return ring_s(folder, kinds, first.nodes + last.nodes, 2, profile.of("parameter_bytes_by_tp", first.tensor)[0])


def workspace_bytes(plan, stage, profile):
    """The gradient of the largest output of a layer."""
    return plan.micro_batch * max(profile.of("output_bytes_per_sample_by_tp", stage.tensor)[stage.layers])


def buffer_bytes(folder, plan, at):
    """What arrives from the stages on both sides, and a bucket of gradients."""
    stage = plan.stages[at]
    sides = [boundary_bytes(folder, plan, side) for side in (at - 1, at) if 0 <= side < len(plan.stages) - 1]
    gradients = sum(profiles(folder, plan, stage)[0].of("parameter_bytes_by_tp", stage.tensor)[stage.layers])
    return sum(sides) + (min(BUCKET_BYTES, gradients) if stage.replicas > 1 else 0.0)


def held_bytes(folder, plan, at, run, constants):
    """What a GPU of a stage holds, by parts. `run` is what the program says of the stage."""
    stage = plan.stages[at]
    profile = profiles(folder, plan, stage)[0]
    weights = sum(profile.of("parameter_bytes_by_tp", stage.tensor)[stage.layers])
    stash = plan.micro_batch * sum(profile.of("activation_memory_bytes_per_sample_by_tp", stage.tensor)[stage.layers])
    parts = {"weights": weights, "gradients": weights, "optimiser states": 2 * weights, "stash": run["in_flight"] * stash,
             "workspace": workspace_bytes(plan, stage, profile), "communication buffers": buffer_bytes(folder, plan, at)}
    allocated = sum(parts.values())
    if abs(allocated - run["memory_bytes"]) > 1e3:
        sys.exit(f"{plan.name}: parts add up to {allocated:.0f} bytes, and the program says {run['memory_bytes']:.0f}")
    return parts | {"allocator": (constants.allocator - 1) * allocated, "reserve": constants.reserve_bytes}

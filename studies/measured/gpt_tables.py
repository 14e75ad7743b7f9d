"""Iterations, memory and activations of GPT models trained by Megatron-LM, from tables such as those of ../shared/data/megatron-a100.

Iterations are simulated by `stagecut` from rooflines of the operators that `stagecut generate transformer` writes; every rate of the
A100, its memory and its links is taken at one efficiency. Memory follows the closed forms of V. Korthikanti et al., *Reducing activation
recomputation in large transformer models*, MLSys 2023.
"""
import csv
import json
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import pipelines
from common import ROOT, STAGECUT

GIB = 2**30
# Megatron-LM pads GPT-2's 50,257 words to a multiple of 128 a tensor group; the tables do not say.
VOCABULARY = 51_200
# fp16 weight, fp32 gradient, fp32 weight and both states of Adam: what a parameter takes, and what a step reads and writes of it.
PARAMETER_BYTES = 2 + 4 + 4 + 8
STEP_BYTES = (4 + 4 + 8) + (2 + 4 + 8)
GRADIENT_BYTES = 4
# Dropout of attention is an operator of its own, which the generated network lacks: it reads and writes a number and a mask of one byte, either
# way. Megatron's other dropouts are part of the sums behind them.
DROPOUT_BYTES = 2 + 2 + 1
# Operators that selective recomputation computes again (section 5).
CORE = ("scores", "softmax", "context")


@dataclass(frozen=True)
class Rates:
    """Of a GPU of a node of eight."""
    flops: float
    memory: float
    within: float
    between: float
    node: int

    @classmethod
    def of_a100(cls):
        """Those of the preset, whose file names the data sheets."""
        text = (ROOT / "instances/clusters/a100-nodes.toml").read_text()
        number = lambda pattern: float(re.search(pattern, text, re.MULTILINE).group(1))
        return cls(number(r"^flops_per_s = (\S+)"), number(r"^memory_bytes_per_s = (\S+)"), number(r"link = \{ bandwidth_bytes_per_s = (\S+)"),
                   number(r"^bandwidth_bytes_per_s = (\S+)"), int(number(r"nodes = \{ devices = (\d+)")))


@dataclass(frozen=True)
class Run:
    """A row of a table under its model."""
    hidden: int
    feed_forward: int
    sequence: int
    heads: int
    blocks: int
    recompute: str
    tensor: int
    pipeline: int
    data: int
    global_batch: int
    micro_batch: int
    interleaving: int

    @classmethod
    def of(cls, model, row):
        numbers = {"hidden": model["hidden"], "feed_forward": model["feedforward"], "sequence": model["sequence"], "heads": model["heads"],
                   "blocks": model["blocks"]}
        numbers |= {name: row[name] for name in ("tensor", "pipeline", "data", "global_batch", "micro_batch", "interleaving")}
        return cls(recompute=row["recompute"], **{name: int(text) for name, text in numbers.items()})

    @property
    def is_sequence_parallel(self):
        return self.recompute in ("seq", "seqsel")

    @property
    def is_selective(self):
        return self.recompute in ("sel", "seqsel")

    @property
    def block_parameters(self):
        """Of the matrices: 12 h^2 where the MLP is four times as wide."""
        return 4 * self.hidden**2 + 2 * self.hidden * self.feed_forward

    @property
    def parameters_and_optimiser_gib(self):
        """Of a GPU, without embeddings."""
        return PARAMETER_BYTES * self.blocks / self.pipeline * self.block_parameters / self.tensor / GIB

    @property
    def activation_bytes(self):
        """Of a block and a micro-batch, on a GPU."""
        state = self.sequence * self.micro_batch * self.hidden
        if self.recompute == "full":
            return 2 * state
        # Inputs of both halves with their dropouts are whole, or split by sequence; of attention and MLP each GPU has a part.
        whole = 10 / (self.tensor if self.is_sequence_parallel else 1)
        split = (8 + 4 * self.feed_forward / self.hidden) / self.tensor
        scores = 0 if self.is_selective else 5 * self.heads * self.sequence / self.hidden / self.tensor
        return state * (whole + split + scores)

    @property
    def activations_gib(self):
        """Of the first stage: its blocks once for each stage in flight, and more where devices hold several chunks."""
        more = 1 + (self.pipeline - 1) / (self.pipeline * self.interleaving) if self.interleaving > 1 else 1
        return self.blocks * self.activation_bytes * more / GIB

    @property
    def percent_of_none(self):
        whole = Run(**(vars(self) | {"recompute": "none"}))
        return 100 * self.activation_bytes / whole.activation_bytes

    @cached_property
    def peak_s(self):
        """Seconds of an iteration where every rate is at its peak."""
        rates = Rates.of_a100()
        parts = Parts(self, rates)
        chunks = self.pipeline * self.interleaving
        if self.blocks % chunks or self.global_batch % (self.micro_batch * self.data):
            raise ValueError(f"{self.blocks} blocks in {chunks} chunks, {self.global_batch} sequences in micro-batches of {self.micro_batch} on {self.data} replicas")
        passes = [[self.blocks // chunks * time for time in parts.block] for _ in range(chunks)]
        for at, ends in ((0, parts.embedding), (-1, parts.head)):
            passes[at] = [time + more for time, more in zip(passes[at], ends)]
        stages = [pipelines.Stage(*times, transfer_s=self.transfer_s(rates)) for times in passes]
        run = pipelines.run(stages, self.global_batch // (self.micro_batch * self.data), self.interleaving)
        return run["run"]["iteration_ms"] / 1e3 + self.once_s(rates)

    def transfer_s(self, rates):
        """Each GPU of a tensor group sends its part over a link of its own; the parts are gathered, unless they are split by sequence."""
        state = 2 * self.sequence * self.micro_batch * self.hidden
        gathered = 0 if self.is_sequence_parallel else (self.tensor - 1) / self.tensor * state / rates.within
        return state / self.tensor / self.link(rates) + gathered

    def link(self, rates):
        return rates.within if self.tensor * self.pipeline * self.data <= rates.node else rates.between

    def once_s(self, rates):
        """What the program's model has no term for: the optimiser's step, the embedding's gradient, the replicas' gradients."""
        table = VOCABULARY * self.hidden / self.tensor
        parameters = self.blocks / self.pipeline * self.block_parameters / self.tensor + table
        step = STEP_BYTES * parameters / rates.memory
        ring = lambda count, numbers: 2 * (count - 1) / count * GRADIENT_BYTES * numbers / self.link(rates)
        tied = ring(2, table) if self.pipeline > 1 else 0
        return step + tied + ring(self.data, parameters)


class Parts:
    """Seconds forward and backward of a block, of the embedding and of the head: sums over operators, each at its own roofline."""

    def __init__(self, run, rates):
        self.block, self.embedding, self.head = [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]
        again = 0.0
        for layer in operators(run.hidden, run.feed_forward, run.sequence, run.heads, run.micro_batch, run.tensor, run.is_sequence_parallel):
            part, operator = layer["id"].split(".")[:2]
            if layer["id"].endswith(".update"):
                continue
            mode = (layer.get("modes") or [layer])[0]
            phase = "backward" if layer.get("backward") else "forward"
            work = mode["work"]
            ring = 2 * (run.tensor - 1) / run.tensor * mode.get("collective_bytes", 0) / rates.within
            time = max(work[f"{phase}_flops"] / rates.flops, work[f"{phase}_bytes"] / rates.memory) + ring
            of = {"embedding": self.embedding, "head": self.head}.get(part, self.block)
            of[phase == "backward"] += time
            if of is self.block and phase == "forward" and (run.recompute == "full" or run.is_selective and operator in CORE):
                again += time
        dropout = DROPOUT_BYTES * run.heads * run.sequence**2 * run.micro_batch / run.tensor / rates.memory
        self.block[0] += dropout
        self.block[1] += dropout + again + (dropout if run.recompute == "full" or run.is_selective else 0)


@lru_cache(maxsize=None)
def operators(hidden, feed_forward, sequence, heads, micro_batch, tensor, is_sequence_parallel):
    """Operators of one block, the embedding and the head."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.json"
        command = [STAGECUT, "generate", "transformer", "--layers", 1, "--hidden", hidden, "--feed-forward", feed_forward, "--sequence", sequence]
        command += ["--heads", heads, "--micro-batch", micro_batch, "--tensor", tensor, "--vocabulary", VOCABULARY, "--precision", "bf16"]
        command += ["--attention", "materialised", "--granularity", "operator", "--output", file]
        command += ["--sequence-parallel"] if is_sequence_parallel else []
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
        return json.loads(file.read_text())["network"]["layers"]


# Tables, and which columns of theirs are predicted by what.
QUANTITIES = {
    "iterations": {"measured_s": lambda run, efficiency: run.peak_s / efficiency},
    "memory": {"parameters_and_optimiser_gib": lambda run, _: run.parameters_and_optimiser_gib,
               "activations_gib": lambda run, _: run.activations_gib},
    "activations": {"percent_of_none": lambda run, _: run.percent_of_none},
}


def rows(folder):
    """For each row of each table that is there, its name, the row and the run."""
    folder = Path(folder)
    with open(folder / "models.csv", newline="") as file:
        models = {model["model"]: model for model in csv.DictReader(file)}
    for table in QUANTITIES:
        path = folder / f"{table}.csv"
        if path.exists():
            with open(path, newline="") as file:
                for row in csv.DictReader(file):
                    yield table, row, Run.of(models[row["model"]], row)


def calibrate(measured):
    """The one efficiency that leaves the least largest ratio between predicted and measured: the middle of those asked for, geometrically.

    `measured` are pairs of a run and its seconds.
    """
    asked = [run.peak_s / seconds for run, seconds in measured]
    return (min(asked) * max(asked)) ** 0.5


def cross_validated(measured):
    """For each model, the efficiency that the others ask for. `measured` are triples of a row, its run and its seconds."""
    models = dict.fromkeys(row["model"] for row, *_ in measured)
    others = {model: [(run, seconds) for row, run, seconds in measured if row["model"] != model] for model in models}
    return {model: calibrate(pairs) for model, pairs in others.items() if pairs}

"""The options of a problem, as keywords. Written by `scripts/python-options`; do not edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict, Union


class Problem(TypedDict, total=False):
    """What may be asked of a network: the options of an instance file, and the flags of ``stagecut solve``.

    What is left out, the network's own options and then the defaults decide.
    """
    all_stages: bool
    """Ask for exactly that many non-empty stages"""
    bandwidth: Union[float, str]
    """Bandwidth of every link, in bytes per second, or with a unit such as 100GB/s or 25Gb/s"""
    chunks: Union[int, str, Sequence[int]]
    """Tokens of each chunk of a prompt, separated by commas, or of all where there is one number; `choose` of powers
    of two, or of sizes such as `choose:512,1024`"""
    communication: Literal["blocking", "overlapped", "ignored"]
    """How transfers between stages cost time [default: blocking]"""
    constraints: Sequence[Mapping[str, object]]
    """Constraints of one's own on where layers lie: in files and keywords alone"""
    context: int
    """Tokens of each of them, in place of the tokens of all"""
    context_parallel: Union[int, str, Sequence[object]]
    """Degrees of context parallelism that stages may have: so many devices share out the sequence of a micro-batch,
    as numbers or `choose` [default: 1]"""
    cuts: Literal["tied", "separate"]
    """Whether a layer's forward and backward pass share a stage [default: tied]"""
    device_kinds: Sequence[str]
    """Use only these device kinds, separated by commas"""
    device_order: Literal["free", "given"]
    """Whether stages go through the kinds of devices in any order, or as these are listed [default: free]"""
    devices: int
    """Plan as if there were so many devices of the kind, alike [default: its count]"""
    expert: Union[int, str, Sequence[object]]
    """Degrees of expert parallelism that stages may have: so many of their replicas share out the experts of a
    layer, as numbers or `choose` [default: 1]"""
    expert_load: float
    """Tokens of the busiest expert device over those of an even load, where experts are shared out [default: 1]"""
    groups: Literal["given", "assign"]
    """Which devices form a worker [default: given]"""
    memory_limit: Union[Union[int, str], Literal["none"]]
    """Memory of every stage in bytes, or with a unit such as 16GB, or `none` [default: that of the device kind]"""
    micro_batches: int
    """Micro-batches of one iteration, for `objective="iteration"` or `formula` and for the memory of GPipe"""
    mode: Literal["training", "inference"]
    """Train (forward and backward) or only infer [default: training where backward times exist]"""
    objective: Literal["period", "iteration", "latency", "tokens", "formula"]
    """What to minimise [default: iteration where micro-batches are known, the schedule flushes and an iteration can
    be told, else period]"""
    optimizer: Literal["sgd", "momentum", "adam"]
    """Optimiser whose state is kept beside parameters and gradients [default: adam]"""
    optimizer_offload: Literal["none", "all", "choose"]
    """Whose optimiser's state lies at the hosts of their devices: of no stages, of all, or of those that are chosen
    [default: none]"""
    optimizer_sharding: Literal["none", "zero1", "zero2", "zero3"]
    """What the replicas of a stage share out: the state of the optimiser, gradients too, or weights too [default:
    none]"""
    placement: Literal["loop", "v"]
    """Which device holds which chunk, where devices hold several [default: loop]"""
    precision: Literal["uniform", "fp32", "bf16-mixed", "fp16-mixed"]
    """Numbers that training keeps for each parameter [default: uniform; for networks of 16 bits whose stages have
    modes: mixed]"""
    prompt: int
    """Tokens of a prompt that is read in chunks, each a micro-batch: inference [default: those of the chunks]"""
    recompute: str
    """What layers may compute again in the backward pass, or lay at a host: `none`, `full`, `offload`, other names
    of modes, or `choose` [default: none]"""
    replicas: Union[int, str, Sequence[object]]
    """Replicas that stages may have, each for every d-th micro-batch: numbers, or `choose` [default: 1]"""
    schedule: Literal["gpipe", "1f1b", "pipedream", "concurrent", "interleaved", "zb-v", "v-half", "v-min"]
    """Order in which a stage works, which fixes the micro-batches in flight [default: 1f1b, or that of the virtual
    stages]"""
    sequences: int
    """Sequences that are served at a time [default: 1 where tokens are asked for]"""
    share_parts: int
    """Allow shares in so many equal parts only, as GPU partitioning does [default: any share]"""
    shares: Literal["even", "theorem", "global", "best"]
    """How concurrent workers split their resources between the two [default: best]"""
    stages: int
    """Most stages the pipeline may have, a device each [default: the number of devices]"""
    synchronization: Literal["none", "ring"]
    """How the devices of a group keep their weights equal [default: none]"""
    target: Literal["torch", "deepspeed", "megatron", "torchtitan", "vllm", "sglang", "llama-cpp", "accelerate", "onnx"]
    """Plan only what a framework can run"""
    tensor: Union[int, str, Sequence[object]]
    """Degrees of tensor parallelism that stages may have: numbers, or `choose` for all that layers have modes for
    [default: 1]"""
    then: Literal["period", "iteration", "latency", "tokens", "formula"]
    """What to minimise where there is room for the most tokens: `period` or `latency` [default: period]"""
    tokens: int
    """Tokens of all requests together that every stage has room for in its cache: inference"""
    uniform: bool
    """Give all stages one tensor degree and one number of replicas, as frameworks do"""
    virtual_stages: Union[int, str, Sequence[object]]
    """Chunks that every device holds, as virtual stages: the pipeline passes all devices so many times. Where stages
    have modes, numbers or `choose` [default: 1]"""
    worker: Literal["sequential", "concurrent"]
    """How a worker runs forward and backward propagation [default: sequential, or as the schedule says]"""

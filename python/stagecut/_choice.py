"""The best plan of a model for a batch of sequences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypedDict

from . import _stagecut
from ._document import Document, Status
from ._errors import call
from ._network import Network
from ._plan import Plan


class Held(TypedDict):
    """What the fullest devices hold; the parts add up to ``bytes``."""

    stage: int
    """The first of their stages, from 1."""
    devices: Sequence[str]
    """Devices that hold as much each."""
    bytes: int
    """All of it."""
    weight_bytes: int
    """Weights."""
    gradient_bytes: int
    """Their gradients."""
    optimizer_bytes: int
    """The optimiser's state: its part where replicas share it out."""
    resident_bytes: int
    """What else is held once: caches, buffers, frozen weights."""
    activation_bytes: int
    """What is kept from forward to backward passes, of all micro-batches in flight."""
    workspace_bytes: int
    """What is needed while a layer runs, of the one that needs most."""


class Otherwise(TypedDict, total=False):
    """The best plan in which one choice is another."""

    choice: str
    """Which choice: ``tensor``, ``replicas``, ``virtual_stages`` or ``micro_batch``."""
    status: Status
    """What was found."""
    iteration_ms: float | None
    """What it takes."""
    bound_ms: float | None
    """No such plan takes less."""
    tensor: int
    """Its tensor degree; absent without a plan, as all below."""
    pipeline: int
    """Its stages."""
    replicas: int
    """Its replicas."""
    virtual_stages: int
    """Its chunks of a device."""
    micro_batch: int
    """Sequences of a micro-batch."""


class Size(TypedDict):
    """What is known of a size of micro-batches."""

    micro_batch: int
    """Sequences of a micro-batch."""
    status: Status
    """What was found."""
    iteration_ms: float | None
    """The best plan that beats those of smaller sizes; ``None`` where none does."""
    bound_ms: float | None
    """No plan of this size takes less; ``None`` where there is none."""


class Choice(Document):
    """The best plan of a model for a batch, what it holds, and what other choices lose: see :func:`stagecut.plan`."""

    __slots__ = ("_plan", "_network", "_shown")
    _plan: Plan
    _network: Network
    _shown: str

    def __init__(self, parts: Mapping[str, Any], plan: Plan, network: Network) -> None:
        super().__init__(json.dumps(parts["choice"]))
        object.__setattr__(self, "_plan", plan)
        object.__setattr__(self, "_network", network)
        object.__setattr__(self, "_shown", parts["text"])

    @property
    def plan(self) -> Plan:
        """The plan; ``plan.export``, ``plan.simulate`` and ``plan.check`` go on from there."""
        return self._plan

    @property
    def network(self) -> Network:
        """The model with micro-batches of the chosen size."""
        return self._network

    @property
    def tensor(self) -> int:
        """Devices of a tensor group, of the first stage."""
        return int(self._parts["tensor"])

    @property
    def pipeline(self) -> int:
        """Stages, of which each is a group of devices."""
        return int(self._parts["pipeline"])

    @property
    def replicas(self) -> int:
        """Replicas, of the first stage."""
        return int(self._parts["replicas"])

    @property
    def expert(self) -> int:
        """Replicas that share out experts, of the first stage."""
        return int(self._parts["expert"])

    @property
    def context(self) -> int:
        """Devices that share out a sequence, of the first stage."""
        return int(self._parts["context"])

    @property
    def group(self) -> int:
        """Members of a replica that share out every micro-batch, of the first stage."""
        return int(self._parts["group"])

    @property
    def virtual_stages(self) -> int:
        """Chunks of a device."""
        return int(self._parts["virtual_stages"])

    @property
    def micro_batch(self) -> int:
        """Sequences of a micro-batch."""
        return int(self._parts["micro_batch"])

    @property
    def iteration_ms(self) -> float:
        """What the whole batch takes."""
        return float(self._parts["iteration_ms"])

    @property
    def bound_ms(self) -> float | None:
        """No plan with micro-batches of any size takes less."""
        return self._number("bound_ms")

    @property
    def gap(self) -> float | None:
        """How much longer than any plan it may take, as a part of it."""
        return self._number("gap")

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens a second, fill and drain included."""
        return self._number("tokens_per_s")

    @property
    def mfu(self) -> float | None:
        """The part of the devices' peak that it reaches, in FLOPs of the model."""
        return self._number("mfu")

    @property
    def layout(self) -> str | None:
        """The layout as Megatron has it; ``None`` where it has none for the plan."""
        return None if self._parts["layout"] is None else str(self._parts["layout"])

    @property
    def flags(self) -> str | None:
        """What the framework reads that the plan is for; ``None`` where it is for none."""
        return None if self._parts["told"] is None else str(self._parts["told"])

    @property
    def memory(self) -> Held | None:
        """What the fullest devices hold, part by part."""
        found: Held | None = self._parts["memory"]
        return found

    @property
    def otherwise(self) -> tuple[Otherwise, ...]:
        """The best plans in which one choice is another, those that lose least first."""
        return self._rows("otherwise")

    @property
    def sizes(self) -> tuple[Size, ...]:
        """Every size of micro-batches that was looked at."""
        return self._rows("sizes")

    def __str__(self) -> str:
        return self._shown

    def __repr__(self) -> str:
        degrees = f"tensor {self.tensor}, pipeline {self.pipeline}, data {self.replicas}, micro-batch {self.micro_batch}"
        return f"<stagecut.Choice of {self._parts['model']}: {degrees}, {self.iteration_ms:.6g} ms>"


def made(text: str) -> tuple[Mapping[str, Any], Plan, Network]:
    """What the native half tells: its parts, the plan, and what it is a plan of."""
    parts = MappingProxyType(json.loads(text))
    name = str(parts["instance"].get("name", "config"))
    network = Network(call(_stagecut.Network.parse, json.dumps(parts["instance"]), name))
    return parts, Plan(json.dumps(parts["plan"]), network), network

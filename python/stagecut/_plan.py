"""Plans."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from . import _stagecut
from ._document import Document, Status, StoppedBy, apart, frame
from ._errors import InputError, call
from ._network import Network, document

if TYPE_CHECKING:
    import os

    from ._simulation import Simulation
    from ._verdict import Check


class Mode(TypedDict, total=False):
    """How a stage runs: its devices are replicas, one after the other, and each replica is a tensor group."""

    tensor: int
    """Devices of a tensor group."""
    expert: int
    """Degree of expert parallelism: so many replicas share out the experts of every layer; absent where it is 1."""
    context: int
    """Degree of context parallelism: so many tensor groups of a replica share out the sequence of a micro-batch; absent where it is 1."""
    group: int
    """Members of a replica that share out every micro-batch and finish together, each of so many tensor groups as the context degree says; absent where
    it is 1."""
    replicas: int
    """Replicas, each of which takes every so-manieth micro-batch."""
    recomputed: Mapping[str, Sequence[str]]
    """Layers that compute something again in the backward pass, by the name of what; absent where there are none."""
    optimizer_offload: bool
    """Whether the state of the optimiser lies at the hosts of the devices; absent where it does not."""
    host_bytes: int
    """Bytes that each device has at its host: that, and what layers keep there of all micro-batches in flight; absent where there are none."""


class Run(TypedDict):
    """How a plan runs: fill and drain included."""

    iteration_ms: float
    """All micro-batches and the flush, as simulated."""
    period_ms: float
    """Time between micro-batches while the pipeline is full."""
    bubble_share: float
    """The part of the iteration that is fill and drain."""
    micro_batches_per_s: float
    """Micro-batches of an iteration in a second."""


class Throughput(TypedDict, total=False):
    """What a plan comes to, of a network that says what a micro-batch is."""

    tokens_per_s: float
    """Tokens that the pipeline takes in a second."""
    mfu: float
    """The part of the devices' peak; absent where network or cluster do not say enough."""


class Times(TypedDict, total=False):
    """Of which kind the times of layers are on a kind of device: a proof is worth no more than they."""

    device_kind: str
    """Its name."""
    basis: Literal["peak", "calibrated", "measured"]
    """Rooflines of data sheets, rooflines fitted to measurements, or times that the file gives."""
    efficiency: float
    """The part of its rates at which work was taken; absent of times that are given, and where it differs by operator."""
    source: str
    """What was measured, where the cluster says so."""


class Overrun(TypedDict):
    """A stage that holds more than its memory once transfers are hidden."""

    stage: int
    """The stage, from 1."""
    in_flight: int
    """Micro-batches in flight that hide its transfers."""
    memory_bytes: int
    """Bytes that it would hold then."""
    over_bytes: int
    """By how much they exceed its memory."""


class TooLarge(TypedDict):
    """A layer that no stage could hold, even if it held nothing else."""

    layer: str
    """The layer."""
    needs_bytes: int
    """What it needs alone."""


class KindMemory(TypedDict, total=False):
    """How much memory a kind of device needs for there to be a plan, while all others keep theirs."""

    kind: str
    """The kind."""
    has_bytes: int
    """What a device of it has."""
    at_least_bytes: int
    """It is proved that less is not enough."""
    at_most_bytes: int
    """There is a plan with so much; absent where none was found."""


class LeastMemory(TypedDict, total=False):
    """How much memory a plan would need."""

    at_least_bytes: int
    """It is proved that no plan fits less."""
    at_most_bytes: int
    """There is a plan that fits this; absent where none was found."""
    too_large: Sequence[TooLarge]
    """Layers that no stage could hold; absent without one."""
    by_kind: Sequence[KindMemory]
    """What one kind would need if all others stayed as they are, where devices differ; absent elsewhere."""


class Unrestricted(TypedDict, total=False):
    """Plans of the same problem without its region, in ms."""

    objective_ms: float
    """The best one that was found; absent where none was."""
    bound_ms: float
    """None takes less."""


class Statistics(TypedDict, total=False):
    """How a plan was found. What does not apply to a method is absent."""

    seconds: float
    """Wall-clock seconds from the problem to the plan."""
    nodes: int
    """Branch-and-bound nodes."""
    looks: int
    """How often the search looked at the clock."""
    items: int
    """Items before presolve."""
    items_after_presolve: int
    """Items after presolve."""
    binaries: int
    """Binaries of the program that was solved."""
    ideals: int
    """Ideals that a dynamic program visited."""
    confirmed_by: str
    """The second exact method that proves the same."""
    estimate_ms: float
    """What the method's own model makes of the plan, where it minimises something else than the objective."""
    bounds_ms: Mapping[str, float]
    """Lower bounds that were computed, by name."""


@dataclass(frozen=True)
class Stage:
    """One stage of a plan."""

    index: int
    """Position in the pipeline, from 1."""
    layers: tuple[str, ...]
    """Layers whose forward propagation runs here."""
    backward: tuple[str, ...]
    """Layers whose backward propagation runs here."""
    devices: tuple[str, ...]
    """Its devices, as ``kind:number``."""
    load_ms: float
    """Work and blocking transfers; of a concurrent worker the longer phase."""
    forward_ms: float
    """Time of forward propagation."""
    backward_ms: float
    """Time of backward propagation."""
    communication_ms: float
    """Transfers: blocking ones, or the busier of link in and link out where overlapped."""
    memory_bytes: int
    """Memory in use."""
    in_flight: int | None = None
    """Micro-batches in flight, each with its stash; ``None`` in inference."""
    weight_versions: int | None = None
    """Versions of the weights that are kept; ``None`` in inference."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Shares of forward propagation by resource; empty for sequential workers."""
    mode: Mode | None = None
    """Tensor degree, replicas and recomputation; ``None`` where stages have no modes."""
    weight_ms: float | None = None
    """The part of ``backward_ms`` that is gradients of weights; ``None`` where no layer says what they take."""

    @staticmethod
    def _of(document: Mapping[str, Any]) -> Stage:
        names = (part.name for part in fields(Stage))
        known = {name: document[name] for name in names if name in document}
        known.update(layers=tuple(document["forward"]), backward=tuple(document["backward"]), devices=tuple(document["devices"]))
        known["shares"] = MappingProxyType(document.get("shares", {}))
        if "mode" in known:
            known["mode"] = MappingProxyType(known["mode"])
        return Stage(**known)


class Plan(Document):
    """A plan, what is proved of it, and how it was found.

    >>> import stagecut
    >>> plan = stagecut.solve(stagecut.generate("transformer", preset="gpt2", granularity="block"), stages=2, cluster="dgx-h100")
    >>> plan.status, plan.gap, len(plan.stages)
    ('optimal', 0.0, 2)
    """

    __slots__ = ("_network", "_stages")
    _network: Network | None
    _stages: tuple[Stage, ...]

    def __init__(self, text: str, network: Network | None = None) -> None:
        super().__init__(text)
        object.__setattr__(self, "_network", network)
        object.__setattr__(self, "_stages", tuple(map(Stage._of, self._parts["stages"])))

    @staticmethod
    def from_json(text: str, network: Network | None = None) -> Plan:
        """A plan that was written down; with the network that it is one of, it can be checked, drawn and exported again."""
        try:
            return Plan(text, network)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"no plan in JSON: {error!r}") from error

    @property
    def instance(self) -> str:
        """The name of the network."""
        return str(self._parts["instance"])

    @property
    def method(self) -> str:
        """The method that found it."""
        return str(self._parts["method"])

    @property
    def status(self) -> Status:
        """``optimal`` if it is proved to be the best, else ``feasible``; without a plan ``infeasible`` or ``unknown``."""
        found: Status = self._parts["status"]
        return found

    @property
    def stopped_by(self) -> StoppedBy:
        """Why the search stopped: ``completed``, ``time-limit``, ``interrupt``, ``gap`` and so on."""
        found: StoppedBy = self._parts["stopped_by"]
        return found

    @property
    def objective_ms(self) -> float | None:
        """What it costs, in ms; ``None`` without a plan."""
        return self._number("objective_ms")

    @property
    def bound_ms(self) -> float | None:
        """No plan can be better than this, in ms; ``None`` where there is none."""
        return self._number("bound_ms")

    @property
    def bound_source(self) -> str:
        """The bound that proves most."""
        return str(self._parts["bound_source"])

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective: how far it can be from the best, as a fraction."""
        return self._number("gap")

    @property
    def run(self) -> Run | None:
        """``iteration_ms`` as simulated, ``period_ms``, ``bubble_share``, the part of it that is fill and drain, and ``micro_batches_per_s``; ``None`` where
        nobody says how many micro-batches there are, or nothing flushes."""
        found: Any = self._parts.get("run")
        return None if found is None else cast(Run, MappingProxyType(found))

    @property
    def throughput(self) -> Throughput | None:
        """``tokens_per_s``, and ``mfu``, the part of the devices' peak; ``None`` for a network that does not say what a micro-batch is."""
        found: Any = self._parts.get("throughput")
        return None if found is None else cast(Throughput, MappingProxyType(found))

    @property
    def times(self) -> tuple[Times, ...]:
        """Of which kind the times of layers are, on each kind of device."""
        return tuple(cast(Times, MappingProxyType(of_kind)) for of_kind in self._parts.get("times", ()))

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages, in pipeline order; empty without a plan."""
        return self._stages

    @property
    def problem(self) -> Mapping[str, Any]:
        """The problem, with nothing left open."""
        return MappingProxyType(self._parts["problem"])

    @property
    def statistics(self) -> Statistics:
        """How it was found: seconds, nodes, sizes, bounds."""
        return cast(Statistics, MappingProxyType(self._parts["statistics"]))

    @property
    def least_memory(self) -> LeastMemory | None:
        """How much memory a plan would need; ``None`` unless there is no plan for lack of memory."""
        found: Any = self._parts.get("least_memory")
        return None if found is None else cast(LeastMemory, MappingProxyType(found))

    @property
    def unrestricted(self) -> Unrestricted | None:
        """What is known of plans that keep to no region; ``None`` unless one was asked for (``target``, ``uniform``) and there was time to ask."""
        found: Any = self._parts.get("unrestricted")
        return None if found is None else cast(Unrestricted, MappingProxyType(found))

    @property
    def overruns(self) -> tuple[Overrun, ...]:
        """Stages that hold more than their memory once transfers are hidden."""
        return self._rows("overruns")

    @property
    def confirmed_by(self) -> str | None:
        """The second method that proves the same, where ``confirm`` asked for one."""
        found: str | None = self._parts["statistics"].get("confirmed_by")
        return found

    @property
    def network(self) -> Network:
        """The network that it is a plan of."""
        if self._network is None:
            raise InputError("this plan came without its network; give it: `Plan.from_json(text, network)`")
        return self._network

    def stage_of(self, layer: str) -> Stage:
        """The stage whose forward propagation a layer is in.

        >>> import stagecut
        >>> gpt2 = stagecut.generate("transformer", preset="gpt2", granularity="block")
        >>> stagecut.solve(gpt2, stages=4).stage_of(gpt2.layers[-1]).index
        4
        """
        for stage in self.stages:
            if layer in stage.layers:
                return stage
        raise KeyError(layer)

    def check(self) -> Check:
        """What is wrong with it under the problem that it states; nothing, if it was found here."""
        from ._verdict import Check

        return Check(call(_stagecut.check, self.network._native, None, self._text))

    def simulate(self, **options: Any) -> Simulation:
        """Runs it micro-batch by micro-batch: see :func:`stagecut.simulate`."""
        from ._simulation import simulate

        return simulate(self, **options)

    def export(
        self, target: str, path: str | os.PathLike[str] | None = None, *, order: str | os.PathLike[str] | None = None
    ) -> str:
        """What a framework reads, such as ``torch``, ``megatron`` or ``vllm``; written to ``path`` where that is given.

        ``order`` is a file with the order of operations, as ``stagecut schedule --format csv`` writes it and
        torch.distributed.pipelining reads it. A plan or order that the framework cannot represent is refused.
        """
        text = call(_stagecut.export, self.network._native, self._text, target, order)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def svg(self) -> str:
        """The network, coloured by stage."""
        return call(_stagecut.show, self.network._native, self._text, "svg")

    def dot(self) -> str:
        """The network for Graphviz, coloured by stage."""
        return call(_stagecut.show, self.network._native, self._text, "dot")

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row a stage; needs pandas."""
        return frame([{part.name: getattr(stage, part.name) for part in fields(stage)} for stage in self.stages], "index")

    def _headline(self) -> str:
        if self.objective_ms is None:
            bound = "" if self.bound_ms is None else f", bound {self.bound_ms:.6g} ms"
            return f"{self.instance}: {self.status}{bound}"
        proof = "proved optimal" if self.status == "optimal" else f"at most {100 * (self.gap or 0):.2f} % from the best"
        return f"{self.instance}: {len(self.stages)} stages, {self.objective_ms:.6g} ms, {proof}"

    def __repr__(self) -> str:
        return f"<stagecut.Plan of {self._headline()}>"

    def _repr_html_(self) -> str:
        """The stages as a table, the timeline, and the network where it is small enough to be looked at."""
        parts = [f"<p><b>{html.escape(self._headline())}</b>, by <code>{html.escape(self.method)}</code></p>"]
        if self.stages:
            parts.append(_stage_table(self))
            parts.append(apart(call(_stagecut.timeline, self._text, "{}")))
        if self._network is not None and self.stages:
            # Beyond, a drawing is longer than the rest of the notebook.
            if len(self._network) <= 60:
                parts.append(f"<details><summary>The network by stage</summary>{apart(self.svg())}</details>")
            else:
                parts.append(f"<p>{len(self._network)} layers; <code>plan.svg()</code> draws them.</p>")
        return "\n".join(parts)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Plan, (self._text, self._network))


def _stage_table(plan: Plan) -> str:
    headings = ("stage", "devices", "layers", "load", "forward", "backward", "transfers", "memory")
    rows = []
    for stage in plan.stages:
        names = stage.layers or stage.backward
        layers = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})" if names else ""
        times = (stage.load_ms, stage.forward_ms, stage.backward_ms, stage.communication_ms)
        cells = [str(stage.index), " ".join(stage.devices), layers, *(f"{ms:.3f} ms" for ms in times), f"{stage.memory_bytes / 1e9:.2f} GB"]
        rows.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def text_of(plan: Plan | str | Mapping[str, Any]) -> str:
    """A plan in JSON."""
    if isinstance(plan, Plan):
        return plan.to_json()
    return plan if isinstance(plan, str) else document(plan, "the plan")

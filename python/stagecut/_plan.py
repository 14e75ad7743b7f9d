"""Plans, and what comes of running, checking and comparing them. All of these never change."""

from __future__ import annotations

import html
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from . import _stagecut
from ._errors import InputError, call
from ._network import Network, document

if TYPE_CHECKING:
    import os

T = TypeVar("T")


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
    mode: Mapping[str, Any] | None = None
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


class _Document:
    """A document in JSON, with its parts as attributes."""

    __slots__ = ("_text", "_parts")
    _text: str
    _parts: dict[str, Any]

    def __init__(self, text: str) -> None:
        object.__setattr__(self, "_text", text)
        object.__setattr__(self, "_parts", json.loads(text))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} never changes; `{name}` cannot be set")

    def to_dict(self) -> dict[str, Any]:
        """All of it, as the command line writes it in JSON. The dict is the caller's own."""
        return dict(json.loads(self._text))

    def to_json(self) -> str:
        """All of it, as the command line writes it in JSON."""
        return self._text

    def _number(self, name: str) -> float | None:
        found: float | None = self._parts.get(name)
        return found

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._parts == other._parts  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._text)


class Plan(_Document):
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
    def status(self) -> str:
        """``optimal`` if it is proved to be the best, else ``feasible``; without a plan ``infeasible`` or ``unknown``."""
        return str(self._parts["status"])

    @property
    def stopped_by(self) -> str:
        """Why the search stopped: ``completed``, ``time-limit``, ``interrupt``, ``gap`` and so on."""
        return str(self._parts["stopped_by"])

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
    def throughput(self) -> Mapping[str, float] | None:
        """``tokens_per_s``, and ``mfu``, the part of the devices' peak; ``None`` for a network that does not say what a micro-batch is."""
        found = self._parts.get("throughput")
        return None if found is None else MappingProxyType(found)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages, in pipeline order; empty without a plan."""
        return self._stages

    @property
    def problem(self) -> Mapping[str, Any]:
        """The problem, with nothing left open."""
        return MappingProxyType(self._parts["problem"])

    @property
    def statistics(self) -> Mapping[str, Any]:
        """How it was found: seconds, nodes, sizes, bounds."""
        return MappingProxyType(self._parts["statistics"])

    @property
    def least_memory(self) -> Mapping[str, Any] | None:
        """How much memory a plan would need; ``None`` unless there is no plan for lack of memory."""
        found = self._parts.get("least_memory")
        return None if found is None else MappingProxyType(found)

    @property
    def overruns(self) -> tuple[Mapping[str, int], ...]:
        """Stages that hold more than their memory once transfers are hidden."""
        return tuple(MappingProxyType(overrun) for overrun in self._parts.get("overruns", ()))

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
        return Check(call(_stagecut.check, self.network._native, None, self._text))

    def simulate(self, **options: Any) -> Simulation:
        """Runs it micro-batch by micro-batch: see :func:`stagecut.simulate`."""
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
        return _frame([{part.name: getattr(stage, part.name) for part in fields(stage)} for stage in self.stages], "index")

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
            parts.append(_apart(call(_stagecut.timeline, self._text, "{}")))
        if self._network is not None and self.stages:
            # Beyond, a drawing is longer than the rest of the notebook.
            if len(self._network) <= 60:
                parts.append(f"<details><summary>The network by stage</summary>{_apart(self.svg())}</details>")
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


def _apart(svg: str) -> str:
    """A drawing that may stand beside others on one page: names in it are its own."""
    own = f"stagecut-{zlib.crc32(svg.encode()):08x}"
    svg = svg.replace('aria-labelledby="title desc"', f'aria-labelledby="{own}-title {own}-desc"')
    svg = svg.replace('id="title"', f'id="{own}-title"').replace('id="desc"', f'id="{own}-desc"')
    return f'<div style="overflow-x:auto">{svg}</div>'


@dataclass(frozen=True)
class Violation:
    """One thing that is wrong with a plan."""

    kind: str
    """A short name for what it is."""
    message: str
    """It in words, with its amount."""

    def __str__(self) -> str:
        return self.message


class _Judged(_Document):
    __slots__ = ()

    @property
    def passes(self) -> bool:
        """Whether nothing is wrong."""
        return bool(self._parts["passes"])

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Everything that is wrong."""
        return tuple(Violation(one["kind"], one["message"]) for one in self._parts["violations"])

    @property
    def objective_ms(self) -> float | None:
        """What it costs, recomputed, in ms; what it would cost, if it cannot be run."""
        return self._number("objective_ms")

    def __bool__(self) -> bool:
        return self.passes

    def __repr__(self) -> str:
        found = "passes" if self.passes else f"{len(self.violations)} violations: {'; '.join(map(str, self.violations[:3]))}"
        return f"<stagecut.{type(self).__name__}: {found}>"


class Check(_Judged):
    """What a check found; true if nothing is wrong."""

    __slots__ = ()

    @property
    def stated_objective_ms(self) -> float | None:
        """What the plan says it costs, in ms."""
        return self._number("stated_objective_ms")

    @property
    def claimed(self) -> tuple[str, ...]:
        """What of the problem the plan alone says."""
        return tuple(self._parts["claimed"])


class Evaluation(_Judged):
    """What stages cost that somebody else chose; true if they can be run."""

    __slots__ = ("_plan",)
    _plan: Plan

    def __init__(self, text: str, network: Network) -> None:
        parts = json.loads(text)
        super().__init__(json.dumps(parts["evaluation"]))
        object.__setattr__(self, "_plan", Plan(json.dumps(parts["plan"]), network))

    @property
    def bound_ms(self) -> float | None:
        """No plan takes less, in ms; ``None`` unless asked for."""
        return self._number("bound_ms")

    @property
    def gap(self) -> float | None:
        """(objective - bound) / objective; ``None`` unless a bound was asked for."""
        return self._number("gap")

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages with their numbers."""
        return self._plan.stages

    @property
    def plan(self) -> Plan:
        """The same as a whole plan."""
        return self._plan


@dataclass(frozen=True)
class Bound:
    """What no plan can be better than."""

    bound_ms: float
    """No plan takes less, in ms."""
    source: str
    """The bound that proves most."""
    bounds_ms: Mapping[str, float]
    """All that were computed, by name."""
    stopped_by: str
    """Why the search stopped."""


@dataclass(frozen=True)
class Formulated:
    """A program that was written."""

    binaries: int
    """Its integer variables."""
    rows: int
    """Its rows."""
    unit_ns: float
    """One unit of time in it, in ns."""


@dataclass(frozen=True)
class Row:
    """One method beside the others."""

    method: str
    """Its name."""
    source: str
    """Where it comes from, such as a paper."""
    status: str
    """``optimal``, ``feasible``, ``infeasible``, ``no-plan``, ``unknown`` or ``inapplicable``."""
    objective_ms: float | None
    """What its plan costs, in ms."""
    bound_ms: float | None
    """Its own lower bound, in ms."""
    gap: float | None
    """(objective - best bound of all methods) / objective."""
    ratio: float | None
    """Its objective over the best of all methods."""
    stopped_by: str | None
    """Why its search stopped."""
    seconds: float
    """How long it took."""
    note: str | None
    """A remark, such as why it does not apply."""
    plan: Plan | None = None
    """Its plan."""


class Comparison(Sequence[Row]):
    """Methods on one network, best first: a sequence of rows.

    >>> import stagecut
    >>> gpt2 = stagecut.generate("transformer", preset="gpt2", granularity="block")
    >>> compared = stagecut.compare(gpt2, methods=["equal-layers", "exact"], stages=4)
    >>> compared[0].method, compared.of("equal-layers").ratio > 1.0
    ('exact', True)
    """

    __slots__ = ("_rows",)

    def __init__(self, text: str, network: Network) -> None:
        parts = json.loads(text)
        plans = {method: Plan(json.dumps(plan), network) for method, plan in parts["plans"].items()}
        names = [part.name for part in fields(Row) if part.name != "plan"]
        self._rows = tuple(
            Row(**{name: row[name] for name in names}, plan=plans.get(row["method"])) for row in parts["rows"]
        )

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, at: int | slice) -> Row | tuple[Row, ...]:
        return self._rows[at]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def of(self, method: str) -> Row:
        """The row of a method."""
        for row in self._rows:
            if row.method == method:
                return row
        raise KeyError(method)

    @property
    def best(self) -> Plan | None:
        """The best plan of all methods."""
        return next((row.plan for row in self._rows if row.plan is not None and row.objective_ms is not None), None)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row a method; needs pandas."""
        names = [part.name for part in fields(Row) if part.name != "plan"]
        return _frame([{name: getattr(row, name) for name in names} for row in self._rows], "method")

    def _shown(self) -> list[list[str]]:
        lines = []
        for row in self._rows:
            if row.status != "inapplicable":
                numbers = ("" if value is None else f"{value:.6g}" for value in (row.objective_ms, row.ratio))
                gap = "" if row.gap is None else f"{100 * row.gap:.2f} %"
                lines.append([row.method, row.status, *numbers, gap])
        return lines

    def __repr__(self) -> str:
        table = [["method", "status", "ms", "ratio", "gap"], *self._shown()]
        widths = [max(map(len, column)) for column in zip(*table)]
        return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in table)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("method", "status", "ms", "× the best", "gap"))
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in line) + "</tr>" for line in self._shown())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


class WhatIf(_Document):
    """The optimum as a function of a number, a curve for each number of stages where these are varied too.

    >>> import stagecut
    >>> gpt2 = stagecut.generate("transformer", preset="gpt2", granularity="block").on("dgx-h100")
    >>> curve = stagecut.what_if(gpt2, stages="1..4").curves[0]
    >>> [point["status"] for point in curve["points"]], curve["gap"]
    (['optimal', 'optimal', 'optimal', 'optimal'], 0.0)
    """

    __slots__ = ("_svg", "_plans")
    _svg: str
    _plans: tuple[Plan, ...]

    def __init__(self, text: str, network: Network | None) -> None:
        parts = json.loads(text)
        super().__init__(json.dumps(parts["answer"]))
        object.__setattr__(self, "_svg", parts["svg"])
        object.__setattr__(self, "_plans", tuple(Plan(json.dumps(plan), network) for plan in parts["answer"]["plans"]))

    @property
    def instance(self) -> str:
        """The name of the network."""
        return str(self._parts["instance"])

    @property
    def parameter(self) -> str:
        """What is varied: ``bandwidth``, ``memory-limit``, ``stages`` or ``devices``."""
        return str(self._parts["parameter"])

    @property
    def range(self) -> tuple[float, float]:
        """Its smallest and its largest value: bytes per second, bytes, or a number."""
        return (self._parts["from"], self._parts["to"])

    @property
    def stopped_by(self) -> str:
        """Why nothing more was asked: ``completed``, ``time-limit``, ``interrupt`` and so on."""
        return str(self._parts["stopped_by"])

    @property
    def searches(self) -> int:
        """Searches that were run."""
        return int(self._parts["searches"])

    @property
    def curves(self) -> tuple[Mapping[str, Any], ...]:
        """The curves, each with ``stages``, ``gap``, ``segments`` and ``points``; ``plan`` in these is a position in ``plans``."""
        return tuple(MappingProxyType(curve) for curve in self._parts["curves"])

    @property
    def better(self) -> tuple[Mapping[str, Any], ...]:
        """Where each number of stages is proved better than the next smaller one; empty where stages make no curves."""
        return tuple(MappingProxyType(one) for one in self._parts["better"])

    @property
    def plans(self) -> tuple[Plan, ...]:
        """All plans, each as it was found."""
        return self._plans

    def svg(self) -> str:
        """The curves as a picture."""
        return self._svg

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row for each value of which something is known by itself; needs pandas."""
        points = ((curve["stages"], point) for curve in self.curves for point in curve["points"])
        return _frame([{"most_stages": most, **point} for most, point in points], None)

    def __repr__(self) -> str:
        least, most = self.range
        return f"<stagecut.WhatIf of {self.instance}: {self.parameter} from {least:.6g} to {most:.6g}, {len(self.plans)} plans>"

    def _repr_html_(self) -> str:
        return _apart(self._svg)


class Simulation(_Document):
    """A plan that was run, event by event."""

    __slots__ = ("_plan", "_asked")
    _plan: str
    _asked: str

    def __init__(self, text: str, plan: str, asked: str) -> None:
        super().__init__(text)
        object.__setattr__(self, "_plan", plan)
        object.__setattr__(self, "_asked", asked)

    @property
    def schedule(self) -> str:
        """The schedule."""
        return str(self._parts["schedule"])

    @property
    def micro_batches(self) -> int:
        """Micro-batches that were run."""
        return int(self._parts["micro_batches"])

    @property
    def iteration_ms(self) -> float:
        """Time until all micro-batches are done, in ms."""
        return float(self._parts["iteration_ms"])

    @property
    def period_ms(self) -> float | None:
        """Time between micro-batches in steady state, in ms; ``None`` where there is none."""
        return self._number("period_ms")

    @property
    def bubble_share(self) -> float:
        """The part of the workers' time in which they were idle."""
        return float(self._parts["bubble_share"])

    @property
    def events(self) -> tuple[Mapping[str, Any], ...]:
        """What every resource did, and when."""
        return tuple(MappingProxyType(event) for event in self._parts["events"])

    @property
    def resources(self) -> tuple[Mapping[str, Any], ...]:
        """How busy every resource was."""
        return tuple(MappingProxyType(lane) for lane in self._parts["resources"])

    def svg(self) -> str:
        """The timeline."""
        return call(_stagecut.timeline, self._plan, self._asked)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row an event; needs pandas."""
        return _frame(self.to_dict()["events"], None)

    def _repr_html_(self) -> str:
        return _apart(self.svg())

    def __repr__(self) -> str:
        return (
            f"<stagecut.Simulation of {self._parts['instance']}: {self.micro_batches} micro-batches by {self.schedule} in "
            f"{self.iteration_ms:.6g} ms, workers idle {100 * self.bubble_share:.1f} % of it>"
        )


def simulate(plan: Plan | str | Mapping[str, Any], **options: Any) -> Simulation:
    """Runs a plan micro-batch by micro-batch. The options are the flags of ``stagecut simulate``:

    ``micro_batches``, ``schedule``, ``in_flight`` (``hiding`` or ``standard``), ``trace`` (a CSV file), ``jitter`` (a
    fraction) and ``seed``.

    >>> import stagecut
    >>> net = {"network": {"layers": [{"id": name, "forward_ms": 1, "backward_ms": 2} for name in "ab"]}}
    >>> run = stagecut.simulate(stagecut.solve(net, stages=2), micro_batches=4, schedule="gpipe")
    >>> run.iteration_ms
    15.0
    """
    text = _text(plan)
    asked = document(options, "the options")
    return Simulation(call(_stagecut.simulate, text, asked), text, asked)


def _text(plan: Plan | str | Mapping[str, Any]) -> str:
    """A plan in JSON."""
    if isinstance(plan, Plan):
        return plan.to_json()
    return plan if isinstance(plan, str) else document(plan, "the plan")


def _frame(rows: list[dict[str, Any]], index: str | None) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas, which stagecut does without; `pip install pandas`") from error
    frame = pandas.DataFrame(rows)
    return frame if index is None or not rows else frame.set_index(index)

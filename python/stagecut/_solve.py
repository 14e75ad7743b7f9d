"""Finding, comparing, checking and costing plans."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Union

from . import _choice, _stagecut
from ._choice import Choice
from ._comparison import Comparison
from ._document import StoppedBy
from ._errors import Infeasible, Interrupted, NoPlan, Stop, call
from ._network import Cluster, Efficiency, Network, document, network
from ._plan import Plan, text_of
from ._stagecut import Progress
from ._verdict import Check, Evaluation
from ._what_if import WhatIf

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import Problem

Stages = Sequence[Union[Sequence[str], Mapping[str, Any]]]
"""Stages in pipeline order: the layers of each, or a dict with ``layers`` and, where they are chosen, ``devices`` and ``mode``."""

N = TypeVar("N")

Range = Union[N, str, "tuple[N, N]"]
"""A value of an option, or the values from one to another: a pair, or ``"1..8"``."""

Heuristic = Callable[["dict[str, Any]"], Union[Stages, Plan, None]]
"""A method of one's own: from a problem, as a dict with ``instance`` and ``options``, to stages, a plan, or nothing."""


@dataclass(frozen=True)
class Bound:
    """What no plan can be better than."""

    bound_ms: float
    """No plan takes less, in ms."""
    source: str
    """The bound that proves most."""
    bounds_ms: Mapping[str, float]
    """All that were computed, by name."""
    stopped_by: StoppedBy
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


def solve(
    network: Any,
    *,
    cluster: Cluster | None = None,
    efficiency: Efficiency | None = None,
    method: str = "exact",
    time_limit: float | None = None,
    memory: float | str | None = None,
    gap: float | None = None,
    seed: int | None = None,
    threads: int | None = None,
    without: Sequence[str] | None = None,
    confirm: bool = False,
    progress: Callable[[Progress], object] | None = None,
    **options: Unpack[Problem],
) -> Plan:
    """Finds the best plan of a network and proves it.

    ``network`` is whatever :func:`stagecut.network` takes. The options are the flags of ``stagecut solve`` with ``_`` for ``-``:
    ``stages``, ``schedule``, ``objective``, ``micro_batches``, ``memory_limit``, ``bandwidth`` and so on, see
    :class:`stagecut.Problem`.

    * ``cluster``: takes the place of the network's own: the name of a preset, a file, or a dict;
    * ``efficiency``: part of the devices' peak rates that layers reach, such as 0.5, or ``"measured"``, for times that follow from FLOPs and bytes;
    * ``method``: see :func:`stagecut.methods`;
    * ``time_limit``: stop after so many seconds with the best plan so far;
    * ``memory``: that the search may take, such as ``"8GB"``;
    * ``gap``: stop at this relative gap between plan and bound;
    * ``threads``: of all searches of this process; the first search decides, and another number is refused afterwards;
    * ``without``: parts of the exact engine to leave out, for its developers; answers stay right;
    * ``confirm``: prove a proved result again, by another method, in as much time again: ``plan.confirmed_by``. Where none does, a
      warning says why; where one proves something else, :class:`stagecut.InternalError`;
    * ``progress``: called now and then with a :class:`stagecut.Progress`, on this thread. What it raises ends the search;
      :class:`stagecut.Stop` ends it with the best plan so far, which is returned.

    The GIL is free while the search runs. Ctrl-C ends it within half a second: :class:`stagecut.Interrupted`, a
    ``KeyboardInterrupt``, has the best plan so far.

    Raises :class:`stagecut.InputError` with every fault of the network and the options, :class:`stagecut.Infeasible` where it
    is proved that there is no plan, and :class:`stagecut.NoPlan` where a limit came before one.

    >>> import stagecut
    >>> net = {
    ...     "network": {
    ...         "layers": [
    ...             {"id": "conv1", "forward_ms": 3, "backward_ms": 6},
    ...             {"id": "conv2", "forward_ms": 1, "backward_ms": 2},
    ...             {"id": "dense", "forward_ms": 2, "backward_ms": 4},
    ...         ],
    ...         "tensors": [
    ...             {"producer": "conv1", "consumers": ["conv2"], "bytes": 8e6},
    ...             {"producer": "conv2", "consumers": ["dense"], "bytes": 2e6},
    ...         ],
    ...     },
    ...     "cluster": {"device_kinds": [{"name": "gpu", "count": 2}], "link": {"bandwidth_bytes_per_s": 100e9}},
    ... }
    >>> plan = stagecut.solve(net, stages=2)
    >>> plan.status, [stage.layers for stage in plan.stages]
    ('optimal', [('conv1',), ('conv2', 'dense')])
    """
    made = _network(network, cluster, efficiency)
    asked = _asked(
        options, method=method, time_limit=time_limit, memory=memory, gap=gap, seed=seed, threads=threads, without=_parts(without)
    )
    text, ended_by = call(_stagecut.solve, made._native, asked, progress)
    plan = Plan(text, made)
    if confirm and ended_by is None:
        text, ended_by = call(_stagecut.confirm, made._native, asked, text, progress)
        confirmed = json.loads(text)
        plan = Plan(json.dumps(confirmed["plan"]), made)
        if confirmed["note"] and ended_by is None:
            warnings.warn(confirmed["note"], stacklevel=2)
    return _settled(plan, ended_by)


@dataclass(frozen=True)
class PlanProgress:
    """How far :func:`plan` has come."""

    micro_batch: int
    """Sequences of a micro-batch of the plans that are looked at."""
    seconds: float
    """Wall-clock seconds since the start."""
    objective_ms: float | None
    """The best plan of any size so far."""
    bound_ms: float
    """No plan of this size takes less."""


def plan(
    config: str | os.PathLike[str],
    *,
    global_batch: int,
    devices: int | None = None,
    cluster: Cluster | None = None,
    efficiency: Efficiency | None = None,
    sequence: int | None = None,
    micro_batch: int | Sequence[int] | None = None,
    attention: str | None = None,
    mtp: int | None = None,
    time_limit: float | None = None,
    memory: float | str | None = None,
    gap: float | None = None,
    seed: int | None = None,
    threads: int | None = None,
    progress: Callable[[PlanProgress], object] | None = None,
    **options: Any,
) -> Choice:
    """From the ``config.json`` of a model and devices to the best plan for a batch: ``stagecut plan``.

    What is not given is chosen: the size of micro-batches, tensor degree, replicas, recomputation, and chunks of devices where ``target`` says
    who runs them. The other options are those of :func:`solve`.

    * ``global_batch``: sequences of an iteration, all replicas together;
    * ``sequence``: tokens of a sequence, by default 4096 or as many as the model has positions for;
    * ``micro_batch``: sequences of a micro-batch, or sizes to choose from; by default 1, 2, 4 and so on, while they fit;
    * ``attention``: ``"flash"`` or ``"materialised"``;
    * ``mtp``: layers that predict further tokens, of those that the configuration has; by default none;
    * ``time_limit``: seconds for all of it, by default 60;
    * ``progress``: called now and then, on this thread; :class:`stagecut.Stop` ends the search with what is known.

    ::

        found = stagecut.plan("config.json", cluster="h100-nodes", devices=512, global_batch=1024, sequence=4096, target="megatron")
        print(found)          # the screen of the command
        print(found.flags)    # of Megatron
    """
    if cluster is not None and not isinstance(cluster, Mapping):
        cluster = os.fspath(cluster)
    asked = _asked(
        options,
        global_batch=global_batch,
        devices=devices,
        cluster=cluster,
        efficiency=efficiency,
        sequence=sequence,
        micro_batch=micro_batch,
        attention=attention,
        mtp=mtp,
        time_limit=time_limit,
        memory=memory,
        gap=gap,
        seed=seed,
        threads=threads,
    )
    told = None if progress is None else lambda text: progress(PlanProgress(**json.loads(text)))
    text, ended_by = call(_stagecut.plan, Path(config), asked, told)
    parts, found, made = _choice.made(text)
    found = _settled(found, ended_by)
    return Choice(parts, found, made)


def bound(
    network: Any,
    *,
    cluster: Cluster | None = None,
    efficiency: Efficiency | None = None,
    time_limit: float | None = None,
    memory: float | str | None = None,
    threads: int | None = None,
    without: Sequence[str] | None = None,
    progress: Callable[[Progress], object] | None = None,
    **options: Unpack[Problem],
) -> Bound:
    """What no plan can be better than, without looking for one. The arguments are those of :func:`solve`.

    >>> import stagecut
    >>> stagecut.bound({"network": {"layers": [{"id": "conv", "forward_ms": 3}, {"id": "dense", "forward_ms": 1}]}}, stages=2).bound_ms
    3.0
    """
    made = _network(network, cluster, efficiency)
    asked = _asked(options, time_limit=time_limit, memory=memory, threads=threads, without=_parts(without))
    text, ended_by = call(_stagecut.bound, made._native, asked, progress)
    plan = Plan(text, made)
    if plan.status == "infeasible":
        raise Infeasible(_reason(plan), plan)
    _raise(ended_by, None)
    return Bound(plan.bound_ms or 0.0, plan.bound_source, dict(plan.statistics.get("bounds_ms", {})), plan.stopped_by)


def compare(
    network: Any,
    *,
    methods: Iterable[str | Heuristic] | None = None,
    cluster: Cluster | None = None,
    efficiency: Efficiency | None = None,
    time_limit: float | None = None,
    memory: float | str | None = None,
    gap: float | None = None,
    seed: int | None = None,
    threads: int | None = None,
    without: Sequence[str] | None = None,
    progress: Callable[[Progress], object] | None = None,
    **options: Unpack[Problem],
) -> Comparison:
    """Runs several methods on one network, best first; each has the limits for itself. The arguments are those of :func:`solve`.

    ``methods`` are names, and functions of one's own: each is called with the problem, a dict as commands of studies get it,
    and returns stages. What they cost and whether they can be run is found here.

    >>> import stagecut
    >>> def halves(problem):
    ...     layers = [layer["id"] for layer in problem["instance"]["network"]["layers"]]
    ...     return [layers[: len(layers) // 2], layers[len(layers) // 2 :]]
    >>> net = {"network": {"layers": [{"id": name, "forward_ms": ms} for name, ms in [("a", 3), ("b", 1), ("c", 1), ("d", 1)]]}}
    >>> [(row.method, row.ratio) for row in stagecut.compare(net, methods=["exact", halves], stages=2)]
    [('exact', 1.0), ('halves', 1.3333333333333333)]
    """
    made = _network(network, cluster, efficiency)
    asked = _asked(
        options, time_limit=time_limit, memory=memory, gap=gap, seed=seed, threads=threads, without=_parts(without)
    )
    names, others = None, []
    if methods is not None:
        names = []
        for method in methods:
            if isinstance(method, str):
                names.append(method)
            else:
                others.append(_run(method, made, asked))
    text, ended_by = call(_stagecut.compare, made._native, asked, (names, json.dumps(others)), progress)
    compared = Comparison(text, made)
    _raise(ended_by, compared.best)
    return compared


@dataclass(frozen=True)
class WhatIfProgress:
    """How far :func:`what_if` has come."""

    stages: int | None
    """The most stages of the curve in work, where these make curves."""
    searches: int
    """Searches that were run for it."""
    gap: float | None
    """How much longer than the optimum its best known plan may take anywhere, as a part of that; ``None`` where that is not known."""


def what_if(
    network: Any,
    *,
    cluster: Cluster | None = None,
    efficiency: Efficiency | None = None,
    bandwidth: Range[float | str] | None = None,
    memory_limit: Range[float | str] | None = None,
    stages: Range[int] | None = None,
    devices: Range[int] | None = None,
    tokens: Range[int] | None = None,
    tolerance: float | None = None,
    point_limit: float | None = None,
    time_limit: float | None = None,
    memory: float | str | None = None,
    gap: float | None = None,
    seed: int | None = None,
    threads: int | None = None,
    without: Sequence[str] | None = None,
    progress: Callable[[WhatIfProgress], object] | None = None,
    **options: Any,
) -> WhatIf:
    """How the optimum changes with bandwidth, memory, stages, devices or room for tokens: ``stagecut what-if``.

    One of ``bandwidth``, ``memory_limit``, ``stages``, ``devices`` and ``tokens`` is a range: a pair, or a text as on the command line such as
    ``"1GB/s..100GB/s"``. ``stages`` may be one beside a bandwidth, a memory or tokens, and is then a curve for each number. The other options
    are those of :func:`solve`.

    * ``tolerance``: how much longer than the optimum the best known plan may take anywhere in the range, as a part of that; by default
      0.01 for bandwidths, else 0;
    * ``point_limit``: seconds that the search at one value may take; by default an eighth of ``time_limit``, where there is one;
    * ``progress``: called after every search, on this thread; :class:`stagecut.Stop` ends it with what is known.

    >>> import stagecut
    >>> net = {
    ...     "network": {
    ...         "layers": [{"id": name, "forward_ms": 4} for name in "abc"],
    ...         "tensors": [
    ...             {"producer": "a", "consumers": ["b"], "bytes": 2e6},
    ...             {"producer": "b", "consumers": ["c"], "bytes": 1e6},
    ...         ],
    ...     },
    ...     "cluster": {"device_kinds": [{"name": "gpu"}], "link": {"bandwidth_bytes_per_s": 1e9}},
    ... }
    >>> found = stagecut.what_if(net, stages=3, bandwidth=("0.1GB/s", "10GB/s"))
    >>> [len(plan.stages) for plan in found.plans]
    [1, 2, 3]
    """
    made = _network(network, cluster, efficiency)
    varied = {"bandwidth": bandwidth, "memory_limit": memory_limit, "stages": stages, "devices": devices, "tokens": tokens}
    ranges = {name: _range(values) for name, values in varied.items()}
    asked = _asked(
        {**options, **ranges},
        tolerance=tolerance,
        point_limit=point_limit,
        time_limit=time_limit,
        memory=memory,
        gap=gap,
        seed=seed,
        threads=threads,
        without=_parts(without),
    )
    told = None if progress is None else lambda text: progress(WhatIfProgress(**json.loads(text)))
    text, ended_by = call(_stagecut.what_if, made._native, asked, told)
    found = WhatIf(text, made)
    if isinstance(ended_by, KeyboardInterrupt):
        raise Interrupted(f"interrupted after {found.searches} searches; `stagecut.Stop` from `progress` keeps them") from None
    _raise(ended_by, None)
    return found


def evaluate(
    network: Any,
    plan: Stages | Plan | str | os.PathLike[str],
    /,
    *,
    cluster: Cluster | None = None,
    efficiency: Efficiency | None = None,
    bound: bool = False,
    time_limit: float | None = 10.0,
    progress: Callable[[Progress], object] | None = None,
    **options: Unpack[Problem],
) -> Evaluation:
    """What stages cost that somebody else chose, and everything that is wrong with them.

    ``plan`` says the layers of each stage, or is a plan, or a file that ``stagecut check --evaluate`` reads. With ``bound`` it is
    held against a lower bound, which may take ``time_limit`` seconds.

    >>> import stagecut
    >>> net = {"network": {"layers": [{"id": name, "forward_ms": ms} for name, ms in [("a", 3), ("b", 1), ("c", 2)]]}}
    >>> stagecut.evaluate(net, [["a", "b"], ["c"]]).objective_ms
    4.0
    """
    made = _network(network, cluster, efficiency)
    if isinstance(plan, (str, os.PathLike)):
        text = Path(plan).read_text(encoding="utf-8")
    elif isinstance(plan, Plan):
        text = plan.to_json()
    else:
        text = _stages(plan)
    asked = _asked(options, time_limit=time_limit)
    found, ended_by = call(_stagecut.evaluate, made._native, asked, (text, bound), progress)
    evaluation = Evaluation(found, made)
    _raise(ended_by, evaluation.plan)
    return evaluation


def check(
    network: Any,
    plan: Plan | str | Mapping[str, Any],
    *,
    cluster: Cluster | None = None,
    efficiency: Efficiency | None = None,
    **options: Unpack[Problem],
) -> Check:
    """Recomputes a plan and lists what is wrong with it, without the solver.

    The network and the options decide the problem; what both leave open, the plan may say. A plan that was made on another cluster carries
    it, and ``cluster``, if given again, must be the same. ``plan`` is a plan, a dict, or JSON.

    >>> import stagecut
    >>> net = {"network": {"layers": [{"id": "conv", "forward_ms": 3}, {"id": "dense", "forward_ms": 1}]}}
    >>> stated = stagecut.solve(net, stages=2).to_dict()
    >>> stated["objective_ms"] = 2.0
    >>> bool(stagecut.check(net, stated, stages=2))
    False
    """
    made = _network(network, cluster, efficiency)
    return Check(call(_stagecut.check, made._native, _asked(options), text_of(plan)))


def formulate(
    network: Any,
    path: str | os.PathLike[str],
    *,
    cluster: Cluster | None = None,
    efficiency: Efficiency | None = None,
    **options: Unpack[Problem],
) -> Formulated:
    """Writes the mixed-integer program for other solvers: LP or MPS, by the extension of ``path``."""
    made = _network(network, cluster, efficiency)
    written = json.loads(call(_stagecut.formulate, made._native, _asked(options), Path(path)))
    return Formulated(**written)


def export(
    plan: Plan,
    target: str,
    path: str | os.PathLike[str] | None = None,
    *,
    order: str | os.PathLike[str] | None = None,
) -> str:
    """What a framework reads, see :meth:`Plan.export`; :func:`targets` lists them."""
    return plan.export(target, path, order=order)


def methods() -> tuple[str, ...]:
    """The names of all methods."""
    return tuple(json.loads(_stagecut.names())["methods"])


def targets() -> tuple[str, ...]:
    """The names of all targets of :func:`export`."""
    return tuple(json.loads(_stagecut.names())["targets"])


def clusters() -> tuple[str, ...]:
    """The names of all presets of clusters."""
    return tuple(json.loads(_stagecut.names())["clusters"])


def serve(heuristic: Heuristic) -> None:
    """Makes a script a method of studies: reads a problem from stdin and writes the stages or the plan that ``heuristic`` makes of it.

    ::

        # mine.py; in the study: [[methods]] name = "mine" command = ["python3", "mine.py"]
        if __name__ == "__main__":
            stagecut.serve(mine)
    """
    problem = json.load(sys.stdin)
    # What it prints is no answer.
    with contextlib.redirect_stdout(sys.stderr):
        found = heuristic(problem)
    sys.stdout.write(_answer(found) + "\n")


def _network(source: Any, cluster: Cluster | None, efficiency: Efficiency | None) -> Network:
    return network(source, cluster=cluster, efficiency=efficiency)


def _asked(options: Mapping[str, Any], **search: Any) -> str:
    """What is asked, in JSON; what is not said takes its default."""
    given = {name: value for name, value in {**options, **search}.items() if value is not None}
    if isinstance(given.get("device_kinds"), str):
        given["device_kinds"] = given["device_kinds"].split(",")
    return document(given, "the options")


def _parts(without: Sequence[str] | None) -> list[str] | None:
    return without.split(",") if isinstance(without, str) else None if without is None else list(without)


def _range(values: Any) -> Any:
    """A pair as the command line writes a range; anything else as it is."""
    return "..".join(map(str, values)) if isinstance(values, tuple) else values


def _stages(stages: Stages) -> str:
    """Stages in JSON, whatever collections they are."""
    return document([stage if isinstance(stage, Mapping) else list(stage) for stage in stages], "the stages")


def _answer(found: Stages | Plan | None) -> str:
    """What a function of the caller found, in JSON."""
    return found.to_json() if isinstance(found, Plan) else _stages(found or [])


def _run(heuristic: Heuristic, made: Network, asked: str) -> dict[str, Any]:
    """What a function of the caller finds, as the native half takes it."""
    name = getattr(heuristic, "__name__", type(heuristic).__name__)
    problem = json.loads(call(_stagecut.question, made._native, asked, name))
    started = time.perf_counter()
    answer = _answer(heuristic(problem))
    seconds = time.perf_counter() - started
    found = {"method": name, "plan": None, "seconds": seconds, "note": None}
    if answer == "[]":
        return found
    text, _ = call(_stagecut.evaluate, made._native, asked, (answer, False), None)
    evaluation = Evaluation(text, made)
    if evaluation.passes:
        found["plan"] = evaluation.plan.to_dict()
    else:
        found["note"] = "its plan fails the check: " + "; ".join(map(str, evaluation.violations[:5]))
    return found


def _settled(plan: Plan, ended_by: BaseException | None) -> Plan:
    """The plan of a search, or why there is none."""
    _raise(ended_by, plan if plan.stages else None)
    if plan.status == "infeasible":
        raise Infeasible(_reason(plan), plan)
    if not plan.stages:
        raise NoPlan(_reason(plan), plan)
    return plan


def _raise(ended_by: BaseException | None, best: Plan | None) -> None:
    """Raises what ended a search early, unless it was meant to."""
    if ended_by is None or isinstance(ended_by, Stop):
        return
    if isinstance(ended_by, KeyboardInterrupt):
        found = "no plan was found yet" if best is None else f"`.plan` has the best so far, {best._headline()}"
        raise Interrupted(f"interrupted; {found}", best) from None
    raise ended_by


def _reason(plan: Plan) -> str:
    if plan.status == "infeasible":
        text = f"it is proved that `{plan.instance}` has no plan under these options"
        needed = plan.least_memory
        if needed is None:
            return text
        least = f"; every stage would need {needed['at_least_bytes']} bytes of memory at least"
        most = needed.get("at_most_bytes")
        return text + least + ("" if most is None else f", and {most} are enough")
    if plan.stopped_by == "completed":
        return f"`{plan.method}` finds no plan of `{plan.instance}`, which proves nothing; `method=\"exact\"` may"
    return f"no plan of `{plan.instance}` was found before the search stopped ({plan.stopped_by}); give it more time"

"""Networks: from files, documents, graphs and models."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Union

from . import _stagecut
from ._errors import Fault, InputError, call

Cluster = Union[str, "os.PathLike[str]", Mapping[str, Any]]
"""The name of a preset, a file, or what an instance says under ``cluster``."""

Efficiency = Union[float, Literal["measured"]]
"""A part of peak rates, above 0 and at most 1, or what the cluster's file says was measured."""


class Network:
    """A network that was read and found valid, with its cluster and its own options. It never changes.

    Make one with :func:`network`; all functions of this package make one of whatever they are given, which costs a
    validation each time.
    """

    __slots__ = ("_native",)
    _native: _stagecut.Network

    def __init__(self, native: _stagecut.Network) -> None:
        object.__setattr__(self, "_native", native)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a network never changes; `{name}` cannot be set")

    @property
    def name(self) -> str:
        """Its name in reports."""
        return self._native.name

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of its layers."""
        return tuple(self._native.layers)

    @property
    def notes(self) -> tuple[str, ...]:
        """What an importer assumed or left out, one sentence each."""
        return tuple(self._native.notes)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must not be missed, one sentence each."""
        return tuple(self._native.warnings)

    def at(self, efficiency: Efficiency) -> Network:
        """The same network where devices reach that part of their peak rates, above 0 and at most 1, or what the cluster's file says
        was ``"measured"``: for times that follow from FLOPs and bytes.

        >>> import stagecut
        >>> gpt2 = stagecut.generate("transformer", preset="gpt2", granularity="block")
        >>> peak, half = (stagecut.solve(net, stages=1).objective_ms for net in (gpt2, gpt2.at(0.5)))
        >>> round(half / peak, 3)
        2.0
        """
        return Network(call(self._native.at, str(efficiency)))

    def on(self, cluster: Cluster) -> Network:
        """The same network on another cluster.

        >>> import stagecut
        >>> gpt2 = stagecut.generate("transformer", preset="gpt2")
        >>> gpt2.on("dgx-h100").to_dict()["cluster"]["device_kinds"][0]["name"]
        'dgx-h100'
        """
        if isinstance(cluster, Mapping):
            return Network(call(self._native.on, document(cluster, "the cluster"), True))
        return Network(call(self._native.on, os.fspath(cluster), False))

    def to_dict(self) -> dict[str, Any]:
        """The native instance, as files hold it."""
        return dict(json.loads(self._native.json()))

    def to_json(self) -> str:
        """The native instance, as files hold it."""
        return self._native.json()

    def svg(self) -> str:
        """A drawing of the network."""
        return call(_stagecut.show, self._native, None, "svg")

    def dot(self) -> str:
        """The network for Graphviz."""
        return call(_stagecut.show, self._native, None, "dot")

    def _repr_html_(self) -> str:
        return self.svg()

    def __len__(self) -> int:
        return len(self._native.layers)

    def __repr__(self) -> str:
        return f"<stagecut.Network {self.name!r}, {len(self)} layers>"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_parsed, (self.to_json(), self.name))


def _parsed(text: str, name: str) -> Network:
    return Network(call(_stagecut.Network.parse, text, name))


def network(
    source: Any,
    *,
    cluster: Cluster | None = None,
    efficiency: Efficiency | None = None,
    name: str | None = None,
    outside_files: bool = False,
) -> Network:
    """The network that ``source`` is.

    * a path: a native instance (TOML, JSON), an ONNX model, or any other file that ``stagecut import`` reads;
    * a dict: a native instance;
    * a ``networkx.DiGraph``: nodes are layers, with the fields of a layer as attributes, see below;
    * ``(model, inputs)`` with a ``torch.nn.Module``, an fx-traced one among them, and one micro-batch of example inputs, or a
      program of ``torch.export``: it is measured on the device it is on, see :func:`profile` to say how.

    ``cluster`` takes the place of its devices and links: the name of a preset, a file, or a dict. ``efficiency`` is the part of peak
    rates at which times from FLOPs and bytes are taken, see :meth:`Network.at`. ``name`` is what reports call it, if it does not say
    itself. ``outside_files`` lets a file name others outside of its folder, for those that you trust.

    Attributes of a node are those of a layer in a native instance: ``forward_ms``, ``backward_ms`` and the ``weight_ms`` of
    it, ``parameter_bytes``, ``stash_bytes``, ``resident_bytes``, ``work``, ``times``, ``tie``, ``modes`` and so on, and beside them ``output_bytes``:
    the size of one tensor that all successors read. An edge with ``bytes`` or ``transfer_ms`` is a tensor of its own; edges
    that leave a node with the same ``tensor`` are one. Attributes of the graph are ``name``, ``precision``, ``micro_batch``, ``cluster``
    and ``pipeline``.

    >>> import stagecut
    >>> small = stagecut.network({"network": {"layers": [{"id": "conv", "forward_ms": 1, "backward_ms": 2}]}}, name="small")
    >>> small
    <stagecut.Network 'small', 1 layers>
    """
    made = _of(source, name, outside_files)
    made = made if cluster is None else made.on(cluster)
    return made if efficiency is None else made.at(efficiency)


def generate(family: str, **parameters: Any) -> Network:
    """A network that ``stagecut generate`` makes, with its flags as keywords: ``transformer`` or ``random``.

    >>> import stagecut
    >>> len(stagecut.generate("transformer", preset="gpt2", granularity="block"))
    14
    """
    return Network(call(_stagecut.Network.generate, family, document(parameters, "the parameters")))


def _of(source: Any, name: str | None, outside_files: bool) -> Network:
    if isinstance(source, Network):
        return source
    if isinstance(source, (str, os.PathLike)):
        return Network(call(_stagecut.Network.read, Path(source), outside_files))
    if isinstance(source, Mapping):
        return _parsed(document(source, "the network"), name or "network")
    if callable(getattr(source, "is_directed", None)) and hasattr(source, "adjacency"):
        return _parsed(document(_of_graph(source), "the graph"), name or "graph")
    from . import _torch

    if _torch.is_model(source):
        model, inputs = _torch.with_inputs(source)
        return _torch.profile(model, inputs, name=name)
    raise TypeError(
        f"a {type(source).__name__} is no network; expected a path, a dict, a networkx.DiGraph, a torch.export program, "
        "or a pair of a torch.nn.Module and its example inputs"
    )


def _of_graph(graph: Any) -> dict[str, Any]:
    """A networkx graph as a native instance."""
    if not graph.is_directed():
        raise TypeError("an undirected graph is no network; make a networkx.DiGraph of it, with edges along the data")
    outputs: dict[str, Any] = {}
    layers = []
    for node, attributes in graph.nodes(data=True):
        fields = dict(attributes)
        if "output_bytes" in fields:
            outputs[str(node)] = fields.pop("output_bytes")
        layers.append({"id": str(node), **fields})
    tensors: dict[tuple[Any, ...], dict[str, Any]] = {}
    for at, (producer, consumer, attributes) in enumerate(graph.edges(data=True)):
        fields = dict(attributes)
        is_own = "bytes" in fields or "transfer_ms" in fields or "tensor" in fields
        key = (str(producer), "tensor", fields.pop("tensor")) if "tensor" in fields else (str(producer),)
        if not is_own and str(producer) in outputs:
            fields = {**fields, "bytes": outputs[str(producer)]}
        elif len(key) == 1:
            key = (str(producer), "edge", at)
        tensor = tensors.setdefault(key, {"producer": str(producer), "consumers": []})
        tensor["consumers"].append(str(consumer))
        for field, value in fields.items():
            if tensor.setdefault(field, value) != value:
                place = f"the edge from `{producer}` to `{consumer}`"
                fault = Fault(place, f"`{field}` {value}", f"{tensor[field]}, as on other edges of the same tensor")
                raise InputError(str(fault), (fault,))
    network: dict[str, Any] = {"layers": layers, "tensors": list(tensors.values())}
    native: dict[str, Any] = {"network": network}
    for field, value in graph.graph.items():
        if field in ("precision", "micro_batch"):
            network[field] = value
        elif field in ("name", "cluster", "pipeline", "provenance"):
            native[field] = value
    return native


def document(value: Any, what: str) -> str:
    """A document in JSON, as the native half takes it."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except ValueError:
        try:
            found, place = next(_not_finite(value, what), ("a value that JSON does not have", what))
        except RecursionError:
            raise _too_deep(what) from None
        fault = Fault(place, found, "a finite number", "correct it where it comes from; such values come from divisions by zero")
        raise InputError(str(fault), (fault,)) from None
    except RecursionError:
        raise _too_deep(what) from None


def _too_deep(what: str) -> InputError:
    fault = Fault(what, "values nested too deeply", "dicts and lists a few levels deep", "look for one that holds itself")
    return InputError(str(fault), (fault,))


def _plain(value: Any) -> Any:
    """What JSON can say of numbers of numpy, paths, and other collections."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"a {type(value).__name__} has no place in a document")


def _not_finite(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Numbers that are none, and where they are."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        yield str(value), place
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _not_finite(part, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for at, part in enumerate(value):
            yield from _not_finite(part, f"{place}[{at}]")

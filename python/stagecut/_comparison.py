"""Methods beside each other."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Union, overload

from ._document import Status, StoppedBy, frame
from ._network import Network
from ._plan import Plan

Standing = Union[Status, Literal["no-plan", "inapplicable"]]
"""How a method stands."""


@dataclass(frozen=True)
class Row:
    """One method beside the others."""

    method: str
    """Its name."""
    source: str
    """Where it comes from, such as a paper."""
    status: Standing
    """``no-plan`` where its search is complete and has found none, ``inapplicable`` where it is for other problems."""
    objective_ms: float | None
    """What its plan costs, in ms."""
    bound_ms: float | None
    """Its own lower bound, in ms."""
    gap: float | None
    """(objective - best bound of all methods) / objective."""
    ratio: float | None
    """Its objective over the best of all methods."""
    stopped_by: StoppedBy | None
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
        return frame([{name: getattr(row, name) for name in names} for row in self._rows], "method")

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

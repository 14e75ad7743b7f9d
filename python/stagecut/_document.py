"""What all results are: documents in JSON, which never change, with their parts as attributes."""

from __future__ import annotations

import json
import zlib
from types import MappingProxyType
from typing import Any, Literal

Status = Literal["optimal", "feasible", "infeasible", "unknown"]
"""What a search found; ``optimal`` and ``infeasible`` are proved."""

StoppedBy = Literal[
    "completed", "gap", "time-limit", "interrupt", "memory-limit", "size-limit", "no-method", "solver-error"
]
"""Why a search stopped."""


class Document:
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

    def _rows(self, name: str) -> tuple[Any, ...]:
        """Parts that are in a list, each unchangeable; what says of each what is in it is the property that gives them out."""
        return tuple(map(MappingProxyType, self._parts.get(name, ())))

    def _number(self, name: str) -> float | None:
        found: float | None = self._parts.get(name)
        return found

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._parts == other._parts  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._text)


def apart(svg: str) -> str:
    """A drawing that may stand beside others on one page: names in it are its own."""
    own = f"stagecut-{zlib.crc32(svg.encode()):08x}"
    svg = svg.replace('aria-labelledby="title desc"', f'aria-labelledby="{own}-title {own}-desc"')
    svg = svg.replace('id="title"', f'id="{own}-title"').replace('id="desc"', f'id="{own}-desc"')
    return f'<div style="overflow-x:auto">{svg}</div>'


def frame(rows: list[dict[str, Any]], index: str | None) -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_pandas() needs pandas, which stagecut does without; `pip install pandas`") from error
    frame = pandas.DataFrame(rows)
    return frame if index is None or not rows else frame.set_index(index)

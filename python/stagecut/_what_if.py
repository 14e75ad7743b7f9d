"""The optimum as a number of the problem changes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, Optional, TypedDict

from ._document import Document, Status, StoppedBy, apart, frame
from ._network import Network
from ._plan import Plan

Parameter = Literal["bandwidth", "memory-limit", "stages", "devices"]
"""What may be varied."""

# Of which the keys are words of the language.
Segment = TypedDict(
    "Segment",
    {
        "from": float,
        "to": float,
        "kind": Literal["plan", "changes", "infeasible", "unknown"],
        "plan": Optional[int],
        "stages": Optional[int],
        "from_ms": Optional[float],
        "to_ms": Optional[float],
        "gap": Optional[float],
    },
)
Stretch = TypedDict("Stretch", {"from": float, "to": float})


class Point(TypedDict):
    """What is known at one value."""

    at: float
    """The value."""
    status: Status
    """What was found there."""
    objective_ms: float | None
    """What the best known plan takes."""
    bound_ms: float | None
    """No plan takes less."""
    plan: int | None
    """The plan, by its position."""
    stages: int | None
    """Its stages."""
    searched: bool
    """Whether it was asked, rather than follows from what was."""


class Curve(TypedDict):
    """The optimum over the range."""

    stages: int | None
    """The most stages, where these make curves."""
    gap: float | None
    """How much longer than the best plan the best known one may take at any value, as a part of that; ``None`` where not known."""
    segments: Sequence[Segment]
    """What is known from one end to the other."""
    points: Sequence[Point]
    """What is known at single values."""


class Gain(TypedDict):
    """Where more stages gain most."""

    at: float
    """The value."""
    gain: float
    """How much, as a part of what fewer stages take."""


class Better(TypedDict):
    """Where a number of stages is proved better than the next smaller one."""

    stages: int
    """The number."""
    than: int
    """The next smaller one."""
    better: Sequence[Stretch]
    """Where it is better."""
    gain_elsewhere: float | None
    """The most that it may gain elsewhere, as a part."""
    most: Gain | None
    """Where it gains most."""


class WhatIf(Document):
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
    def parameter(self) -> Parameter:
        """What is varied."""
        found: Parameter = self._parts["parameter"]
        return found

    @property
    def range(self) -> tuple[float, float]:
        """Its smallest and its largest value: bytes per second, bytes, or a number."""
        return (self._parts["from"], self._parts["to"])

    @property
    def stopped_by(self) -> StoppedBy:
        """Why nothing more was asked: ``completed``, ``time-limit``, ``interrupt`` and so on."""
        found: StoppedBy = self._parts["stopped_by"]
        return found

    @property
    def searches(self) -> int:
        """Searches that were run."""
        return int(self._parts["searches"])

    @property
    def curves(self) -> tuple[Curve, ...]:
        """The curves; ``plan`` in their segments and points is a position in ``plans``."""
        return self._rows("curves")

    @property
    def better(self) -> tuple[Better, ...]:
        """Where each number of stages is proved better than the next smaller one; empty where stages make no curves."""
        return self._rows("better")

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
        return frame([{"most_stages": most, **point} for most, point in points], None)

    def __repr__(self) -> str:
        least, most = self.range
        return f"<stagecut.WhatIf of {self.instance}: {self.parameter} from {least:.6g} to {most:.6g}, {len(self.plans)} plans>"

    def _repr_html_(self) -> str:
        return apart(self._svg)

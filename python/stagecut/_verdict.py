"""What checking and costing a plan comes to."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ._document import Document
from ._network import Network
from ._plan import Plan, Stage


@dataclass(frozen=True)
class Violation:
    """One thing that is wrong with a plan."""

    kind: str
    """A short name for what it is."""
    message: str
    """It in words, with its amount."""

    def __str__(self) -> str:
        return self.message


class _Judged(Document):
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

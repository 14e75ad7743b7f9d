"""Plans that are run, event by event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from . import _stagecut
from ._document import Document, apart, frame
from ._errors import call
from ._network import document
from ._plan import Plan, text_of

Resource = Literal["worker", "forward", "backward", "link-in", "link-out"]
"""What does one task at a time: workers, or channels of concurrent ones, and links."""


class Lane(TypedDict):
    """How busy a resource was."""

    stage: int
    """The stage, from 1."""
    replica: int
    """Its replica, from 1."""
    resource: Resource
    """What of it."""
    busy_ms: float
    """How long it worked."""
    utilisation: float
    """The same as a part of the whole time."""


class Event(TypedDict):
    """What a resource did for a while."""

    resource: Resource
    """The resource."""
    stage: int
    """Its stage, from 1."""
    replica: int
    """Its replica, from 1."""
    micro_batch: int
    """The micro-batch, from 1."""
    phase: Literal["forward", "backward", "input-gradient", "weight-gradient"]
    """The phase."""
    activity: Literal["receive", "compute", "send"]
    """What it did."""
    start_ms: float
    """From when."""
    end_ms: float
    """Until when."""


class Simulation(Document):
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
    def events(self) -> tuple[Event, ...]:
        """What every resource did, and when."""
        return self._rows("events")

    @property
    def resources(self) -> tuple[Lane, ...]:
        """How busy every resource was."""
        return self._rows("resources")

    def svg(self) -> str:
        """The timeline."""
        return call(_stagecut.timeline, self._plan, self._asked)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row an event; needs pandas."""
        return frame(self.to_dict()["events"], None)

    def _repr_html_(self) -> str:
        return apart(self.svg())

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
    text = text_of(plan)
    asked = document(options, "the options")
    return Simulation(call(_stagecut.simulate, text, asked), text, asked)

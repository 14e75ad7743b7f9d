"""What can go wrong, as exceptions that say where, what was found, what was expected, and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from . import _stagecut

if TYPE_CHECKING:
    from ._plan import Plan

T = TypeVar("T")


class StagecutError(Exception):
    """Whatever this package raises, except :class:`Interrupted`."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with an input."""

    place: str
    """Where it is: a line of a file, a part such as ``layers[2]``, or an option."""
    found: str
    """What stands there."""
    expected: str
    """What should."""
    remedy: str | None = None
    """What to do about it, where something can be said."""
    excerpt: str | None = None
    """The line that it stands in, where it has one."""

    def __str__(self) -> str:
        text = f"{self.place}: found {self.found}, expected {self.expected}"
        return f"{text} ({self.remedy})" if self.remedy else text


class InputError(StagecutError, ValueError):
    """The network, a plan or an option is wrong.

    >>> import stagecut
    >>> try:
    ...     stagecut.solve({"network": {"layers": [{"id": "conv", "forward_ms": 1}]}}, stagse=2)
    ... except stagecut.InputError as error:
    ...     print(error.faults[0].remedy)
    did you mean `stages`?
    """

    faults: tuple[Fault, ...]
    """Everything that is wrong, found in one pass."""
    path: str | None
    """The file, where there is one."""

    def __init__(self, message: str, faults: tuple[Fault, ...] = (), path: str | None = None) -> None:
        super().__init__(message)
        self.faults = faults
        self.path = path

    def __str__(self) -> str:
        if not self.faults:
            return str(self.args[0])
        count = len(self.faults)
        of = f" in `{self.path}`" if self.path else ""
        lines = [f"{count} fault{'s' * (count > 1)}{of}"]
        return "\n  ".join(lines + [str(fault) for fault in self.faults])


class Inapplicable(StagecutError, ValueError):
    """The method, or the program of :func:`stagecut.formulate`, is not for this problem."""


class NoPlan(StagecutError):
    """A limit came before a plan; :attr:`plan` has the bound."""

    plan: Plan | None
    """What is known: status, bound, why the search stopped."""

    def __init__(self, message: str, plan: Plan | None = None) -> None:
        super().__init__(message)
        self.plan = plan


class Infeasible(NoPlan):
    """It is proved that there is no plan; ``plan.least_memory`` says how much memory one would need."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while a search ran; :attr:`plan` is the best plan so far.

    It is a ``KeyboardInterrupt``, so whatever handles that one goes on working.
    """

    plan: Plan | None
    """The best plan so far, with its bound; ``None`` where there was none yet."""

    def __init__(self, message: str, plan: Plan | None = None) -> None:
        super().__init__(message)
        self.plan = plan


class Stop(Exception):
    """Raised by a ``progress`` function, it ends the search with the best plan so far, which is returned."""


class WriteError(StagecutError, OSError):
    """A file could not be written."""


class SolverError(StagecutError, RuntimeError):
    """HiGHS broke down."""


class InternalError(StagecutError, RuntimeError):
    """A fault of stagecut: a plan that fails its own check, or two results that contradict each other. Please report it."""


_KINDS: dict[str, type[StagecutError]] = {
    "infeasible": Infeasible,
    "inapplicable": Inapplicable,
    "write": WriteError,
    "solver": SolverError,
    "internal": InternalError,
}


def call(function: Callable[..., T], *arguments: object) -> T:
    """Calls a native function; what it reports becomes an exception of this module."""
    try:
        return function(*arguments)
    except _stagecut.Error as error:
        raised = _translated(str(error.args[0]))
    except UnicodeEncodeError as error:
        fault = Fault("a text", f"half of a surrogate pair at character {error.start}", "text of whole characters")
        raised = InputError(str(fault), (fault,))
    raise raised


def _translated(text: str) -> StagecutError:
    document = json.loads(text)
    if document["kind"] != "input":
        return _KINDS[document["kind"]](document["message"])
    named = ("place", "found", "expected", "remedy", "excerpt")
    faults = tuple(Fault(*(fault[name] for name in named)) for fault in document["faults"])
    return InputError(document["message"], faults, document["path"])

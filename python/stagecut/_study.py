"""Studies: many instances, options, methods and seeds, run as tasks that survive crashes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _own, _stagecut
from ._document import frame
from ._errors import Interrupted, Stop, call
from ._network import document
from ._solve import Heuristic


@dataclass(frozen=True)
class StudyProgress:
    """How far a study has come, in tasks."""

    done: int
    """Those that have a row, from an earlier run or this one."""
    running: int
    """Those that run."""
    failed: int
    """Rows of this run that say of a failure."""
    total: int
    """All of them."""


class Study:
    """A study: a TOML file as ``studies/README.md`` describes it, or the same as a dict.

    A dict is written to ``study.toml`` in ``folder``, and its paths are relative to that. Results lie beside the file, or in
    ``results``; a second run does what is missing and nothing else.

    ``methods`` are further methods of a study that is a dict: names, and functions of one's own. A function is called with a problem, a
    dict with ``instance`` and ``options``, and returns stages or a :class:`stagecut.Plan`; each call is a process of its own with the
    study's limits, and what it answers is costed and checked, as for commands from outside. So another process must find it: at
    the top of a module, or of a script whose study runs under ``if __name__ == "__main__":``. Lambdas, functions within functions and
    those of notebooks need the package cloudpickle. Its file decides which tasks are new: a changed one is run again.

    >>> import stagecut, tempfile
    >>> study = stagecut.Study(
    ...     {
    ...         "instances": [{"generator": "random", "parameters": {"layers": 8, "seed": [1, 2]}}],
    ...         "options": [{"stages": [2, 3]}],
    ...         "methods": [{"names": ["exact", "slicing"]}],
    ...     },
    ...     folder=tempfile.mkdtemp(),
    ... )
    >>> len(study.tasks), len(study.run(jobs=2))
    (8, 8)
    """

    __slots__ = ("path", "_native")

    def __init__(
        self,
        study: str | os.PathLike[str] | Mapping[str, Any],
        *,
        folder: str | os.PathLike[str] | None = None,
        results: str | os.PathLike[str] | None = None,
        methods: Iterable[str | Heuristic | Mapping[str, Any]] = (),
    ) -> None:
        if _own.LOADING:
            raise RuntimeError(
                "a script that is loaded for its function starts its study again; put that under `if __name__ == \"__main__\":`"
            )
        if isinstance(study, Mapping):
            if folder is None:
                raise TypeError("a study that is a dict needs `folder`, where its file and its results go")
            self.path = Path(folder) / "study.toml"
            own = [_own.entry(method, Path(folder)) for method in [*study.get("methods", []), *methods]]
            text = call(_stagecut.toml_of, document({**study, "methods": own}, "the study"))
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(text, encoding="utf-8")
        elif folder is not None or tuple(methods):
            raise TypeError("`folder` and `methods` go with a study that is a dict; a file is where it is, and says its methods")
        else:
            self.path = Path(study)
        self._native = call(_stagecut.Study.read, self.path, None if results is None else Path(results))

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def results(self) -> Path:
        """The folder of its results."""
        return Path(self._native.results)

    @property
    def tasks(self) -> list[dict[str, Any]]:
        """Its tasks: every method on every problem, with its seed and limits."""
        return list(json.loads(self._native.tasks()))

    def run(
        self,
        *,
        jobs: int | None = None,
        retry_failed: bool = False,
        progress: Callable[[StudyProgress], object] | None = None,
    ) -> list[dict[str, Any]]:
        """Runs the tasks that have no row yet, each in a process of its own, and returns the rows of all.

        ``jobs`` tasks run side by side, by default one a core. Ctrl-C ends it; what is done is kept, and the next call goes on.
        """
        told = None if progress is None else lambda text: progress(StudyProgress(**json.loads(text)))
        _, ended_by = call(self._native.run, jobs, retry_failed, told)
        if isinstance(ended_by, KeyboardInterrupt):
            raise Interrupted(f"interrupted; {len(self.rows())} of {len(self.tasks)} tasks are done, and kept") from None
        if ended_by is not None and not isinstance(ended_by, Stop):
            raise ended_by
        return self.rows()

    def rows(self) -> list[dict[str, Any]]:
        """The rows that there are, in the order of the tasks."""
        return list(json.loads(self._native.rows()))

    def report(self, folder: str | os.PathLike[str] | None = None) -> str:
        """What the results show of the methods, in words; with ``folder`` also as a page and tables in it."""
        return call(self._native.report, None if folder is None else Path(folder))

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``; needs pandas."""
        return frame(self.rows(), None)

    def __repr__(self) -> str:
        return f"<stagecut.Study {self.name!r}, {len(self.tasks)} tasks, {len(self.rows())} of them done>"

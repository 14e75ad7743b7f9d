"""Functions of one's own as methods of studies: each task calls one in a process of its own, as commands from outside are run."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import pickle
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

LOADING = False
"""Whether this process loads a script to find a function in it: then the script must not start the study again."""

_MAIN = "__stagecut_main__"
"""What a script is called where it is loaded for a function of it; not ``__main__``, so that its guarded part stays quiet."""


def entry(method: Any, folder: Path) -> Any:
    """An entry of a study's ``methods``: a name, a function, or what stands in its file."""
    if isinstance(method, str):
        return {"names": [method]}
    if isinstance(method, Mapping) or not callable(method):
        return method
    name = getattr(method, "__name__", type(method).__name__).strip("<>")
    return {"name": name, "command": _command(method, name, folder)}


def _command(heuristic: Callable[..., Any], name: str, folder: Path) -> list[str]:
    """The words that call it. The file that decides its answers is one of them, so that a changed one makes new tasks."""
    if not sys.executable:
        raise TypeError("this interpreter does not know where it is; give the study a script with `stagecut.serve`")
    found_in = str(Path(__file__).absolute().parent.parent)
    start = f"import sys; sys.path.insert(0, {found_in!r}); from stagecut._own import main; sys.exit(main())"
    return [sys.executable, "-c", start, *_place(heuristic, name, folder)]


def _place(heuristic: Callable[..., Any], name: str, folder: Path) -> list[str]:
    """Where another process finds it: in the file of its module or script, else in a pickle."""
    module = sys.modules.get(getattr(heuristic, "__module__", None) or "")
    path = getattr(heuristic, "__qualname__", "")
    file = getattr(module, "__file__", None)
    if module is not None and file and path and _attribute(module, path) is heuristic:
        return ["module", str(Path(file).absolute()), module.__name__, path]
    pickler: Any = pickle
    with contextlib.suppress(ImportError):
        pickler = importlib.import_module("cloudpickle")
    try:
        pickled = pickler.dumps(heuristic)
        if pickler is pickle and b"__main__" in pickled:
            raise pickle.PicklingError("it belongs to no file")
    except Exception as error:
        raise TypeError(
            f"another process cannot call `{name}`: {error}; define it at the top of a module or a script, or install cloudpickle"
        ) from error
    place = folder / "study.methods" / f"{name}.pickle"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(pickle.dumps((sys.path, pickled)))
    return ["pickle", str(place.absolute())]


def _attribute(module: Any, path: str) -> Any:
    """What a dotted path leads to; nothing where it leads nowhere, as for functions within functions."""
    found = module
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def main() -> int:
    """Calls a function for the problem on stdin: ``module FILE NAME PATH`` or ``pickle FILE``."""
    global LOADING
    from ._solve import serve

    LOADING = True
    kind, file, *rest = sys.argv[1:]
    if kind == "pickle":
        heuristic = _unpickled(Path(file))
    else:
        name, path = rest
        heuristic = _attribute(_loaded(Path(file), name), path)
        if heuristic is None:
            raise AttributeError(f"`{file}` has no `{path}`")
    LOADING = False
    serve(heuristic)
    return 0


def _unpickled(file: Path) -> Any:
    """The function of a pickle, which may need modules that the process which wrote it could find."""
    path, pickled = pickle.loads(file.read_bytes())
    sys.path += [folder for folder in path if folder not in sys.path]
    return pickle.loads(pickled)


def _loaded(file: Path, name: str) -> Any:
    """The module of a file, by its name; a script, and what was found in another way, as a module of its own."""
    if name != "__main__":
        root = file.parents[len(name.split(".")) - (file.name != "__init__.py")]
        sys.path.insert(0, str(root))
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            if getattr(module, "__file__", None) == str(file):
                return module
    # A script finds its neighbours, as where it is started.
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(_MAIN, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"`{file}` is no script")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MAIN] = module
    spec.loader.exec_module(module)
    return module

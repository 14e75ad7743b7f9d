"""What the package says of itself."""

import doctest
import importlib
import json
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import stagecut
from stagecut import _stagecut

ROOT = Path(__file__).parents[2]
MODULES = [name for _, name, _ in pkgutil.iter_modules(stagecut.__path__, "stagecut.") if name.endswith(("_errors", "_network", "_plan", "_solve", "_study"))]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0 and failed == 0


def test_everything_public_is_described():
    for name in stagecut.__all__:
        value = getattr(stagecut, name)
        if name not in ("__version__", "Cluster", "Stages", "Heuristic"):
            assert value.__doc__ and not value.__doc__.startswith(f"{name}("), name
    assert (Path(stagecut.__file__).parent / "py.typed").is_file()
    assert (Path(stagecut.__file__).parent / "_stagecut.pyi").is_file()
    assert (Path(stagecut.__file__).parent / "_profile_torch.py").read_text() == (ROOT / "tools/profile_torch.py").read_text()


def test_options_are_written_down_as_they_are():
    generated = runpy.run_path(str(ROOT / "scripts/python-options"))["text"]()
    written = (Path(stagecut.__file__).parent / "_options.py").read_text(encoding="utf-8")
    assert generated == written, "run `make wheel python-options`"
    assert set(stagecut.Problem.__annotations__) == set(json.loads(_stagecut.names())["problem"])


def test_the_stub_is_of_the_native_half():
    stub = (Path(stagecut.__file__).parent / "_stagecut.pyi").read_text(encoding="utf-8")
    for name in dir(_stagecut):
        if not name.startswith("__"):
            assert re.search(rf"^(def|class) {name}\b", stub, re.MULTILINE), name

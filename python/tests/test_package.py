"""What the package says of itself."""

import doctest
import importlib
import json
import pkgutil
import re
import runpy
from pathlib import Path
from typing import get_args

import pytest

import stagecut
from stagecut import _document, _plan, _simulation, _stagecut, _what_if

ROOT = Path(__file__).parents[2]
MODULES = [name for _, name, _ in pkgutil.iter_modules(stagecut.__path__, "stagecut.") if name.endswith(("_comparison", "_errors", "_network", "_plan", "_simulation", "_solve", "_study", "_what_if"))]


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


def test_rows_and_words_are_those_of_the_native_half():
    plans = json.loads(_stagecut.names())["plan"]["$defs"]
    rows = {name: getattr(_plan, name) for name in ("KindMemory", "LeastMemory", "Overrun", "Statistics", "Throughput", "TooLarge", "Unrestricted")}
    for name, row in {**rows, "PlanMode": _plan.Mode, "PlanRun": _plan.Run}.items():
        assert set(row.__annotations__) == set(plans[name]["properties"]), name
    for name, words in {"Status": _document.Status, "StoppedBy": _document.StoppedBy}.items():
        assert list(get_args(words)) == [one["const"] for one in plans[name]["oneOf"]], name

    net = {"network": {"layers": [{"id": name, "forward_ms": 1, "backward_ms": 2} for name in "abc"]}}
    run = stagecut.simulate(stagecut.solve(net, stages=2), micro_batches=2)
    swept = stagecut.what_if(net, stages="1..3")
    kinds = {"Event": run.events, "Lane": run.resources, "Curve": swept.curves, "Point": swept.curves[0]["points"]}
    kinds["Segment"] = swept.curves[0]["segments"]
    for name, found in kinds.items():
        row = getattr(_what_if, name, None) or getattr(_simulation, name)
        assert found and all(set(one) == set(row.__annotations__) for one in found), name


def test_the_stub_is_of_the_native_half():
    stub = (Path(stagecut.__file__).parent / "_stagecut.pyi").read_text(encoding="utf-8")
    for name in dir(_stagecut):
        if not name.startswith("__"):
            assert re.search(rf"^(def|class) {name}\b", stub, re.MULTILINE), name

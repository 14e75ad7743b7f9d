"""The optimum as a function of a number, and keywords of all searches."""

import json
import subprocess
import sys

import pytest
from conftest import chain

import stagecut

#: One stage is best up to 0.25 GB/s, two up to 0.5 GB/s, then three: layers of 4 ms, and tensors of 2 MB and 1 MB moved once.
THREE = {
    "network": {
        "layers": [{"id": name, "forward_ms": 4} for name in "abc"],
        "tensors": [
            {"producer": "a", "consumers": ["b"], "bytes": 2e6},
            {"producer": "b", "consumers": ["c"], "bytes": 1e6},
        ],
    },
    "cluster": {"device_kinds": [{"name": "gpu"}], "link": {"bandwidth_bytes_per_s": 1e9}},
}


@pytest.mark.parametrize("bandwidth", [("100MB/s", "10GB/s"), (1e8, 1e10), "100MB/s..10GB/s"])
def test_breakpoints_of_a_bandwidth(bandwidth):
    found = stagecut.what_if(THREE, stages=3, bandwidth=bandwidth, tolerance=0.001)
    assert (found.parameter, found.range, found.stopped_by) == ("bandwidth", (1e8, 1e10), "completed")
    assert [len(plan.stages) for plan in found.plans] == [1, 2, 3]
    curve = found.curves[0]
    assert curve["gap"] <= 0.001
    kinds = [(segment["stages"], segment["from"], segment["to"]) for segment in curve["segments"] if segment["kind"] == "plan"]
    assert kinds[0][2] == pytest.approx(0.25e9, rel=0.01) and kinds[1][2] == pytest.approx(0.5e9, rel=0.01)
    for point in curve["points"]:
        if point["searched"]:
            solved = stagecut.solve(THREE, stages=3, bandwidth=point["at"])
            assert solved.objective_ms == pytest.approx(point["objective_ms"], abs=1e-6)
    assert found.plans[0].network.name == found.instance and found.plans[0].check()
    assert found.svg().startswith("<svg") and found._repr_html_() and "3 plans" in repr(found)
    assert json.loads(found.to_json())["schema"] == "stagecut-what-if/1"


def test_curves_of_stages(small):
    found = stagecut.what_if(small, stages=(2, 3), bandwidth=("1GB/s", "100GB/s"))
    assert [curve["stages"] for curve in found.curves] == [2, 3]
    assert len(found.better) == 1
    whole = stagecut.what_if(small, stages="1..4")
    values = {point["at"]: point["objective_ms"] for point in whole.curves[0]["points"]}
    assert values == {count: stagecut.solve(small, stages=count).objective_ms for count in (1, 2, 3, 4)}


def test_what_makes_no_range(small):
    with pytest.raises(stagecut.StagecutError, match="found no range"):
        stagecut.what_if(small, stages=2)
    with pytest.raises(stagecut.InputError) as caught:
        stagecut.what_if(small, stages="4..2", tolerance=2.0, method="milp", gap=0.0)
    assert {fault.place for fault in caught.value.faults} == {"stages", "tolerance", "method"}
    with pytest.raises(stagecut.InputError, match="schedule"):
        stagecut.what_if(small, stages=(1, 2), schedule="gipe")
    with pytest.raises(stagecut.InputError, match="micro_batches"):
        stagecut.what_if(small, micro_batches=(1, 2))


def test_progress_of_a_sweep(small):
    events = []
    stagecut.what_if(small, stages=(1, 4), progress=events.append)
    assert events and all(isinstance(event, stagecut.WhatIfProgress) for event in events)
    assert events[-1].gap == 0.0

    def stop(event):
        raise stagecut.Stop

    assert stagecut.what_if(small, stages=3, bandwidth=("1MB/s", "100GB/s"), tolerance=1e-6, progress=stop).searches >= 1


def test_a_second_method_confirms(small):
    plan = stagecut.solve(small, stages=2)
    assert plan.confirmed_by is None
    confirmed = stagecut.solve(small, stages=2, confirm=True)
    assert confirmed.confirmed_by in stagecut.methods() and confirmed.objective_ms == plan.objective_ms
    full = chain([1, 1, 1])
    for layer in full["network"]["layers"]:
        layer["parameter_bytes"] = 10
    # Each takes 40 bytes, with its gradient and the states of Adam, so that one stage of two holds more than there is.
    with pytest.raises(stagecut.Infeasible) as caught:
        stagecut.solve(full, memory_limit=60, stages=2, confirm=True)
    assert caught.value.plan.confirmed_by in stagecut.methods()


def test_what_is_not_proved_is_not_confirmed():
    with pytest.warns(UserWarning, match="nothing to confirm"):
        plan = stagecut.solve(chain([3, 1, 2, 2, 1]), stages=3, method="equal-layers", confirm=True)
    assert plan.confirmed_by is None


def test_parts_that_are_left_out(small):
    best = stagecut.solve(small, stages=2).objective_ms
    for without in ("incumbents", ["ideals", "stage_diagram"]):
        assert stagecut.solve(small, stages=2, without=without).objective_ms == best
    with pytest.raises(stagecut.InputError, match="did you mean `ideals`"):
        stagecut.solve(small, stages=2, without=["ideal"])
    with pytest.raises(stagecut.InputError, match="confirm"):
        stagecut.bound(small, stages=2, confirm=True)


THREADS = """
import stagecut
net = {"network": {"layers": [{"id": "a", "forward_ms": 1}, {"id": "b", "forward_ms": 2}]}}
print(stagecut.solve(net, stages=2, threads=2).status, stagecut.bound(net, stages=2, threads=2).bound_ms)
try:
    stagecut.solve(net, stages=2, threads=3)
except stagecut.InputError as error:
    print(error.faults[0].place, "|", error.faults[0].expected)
"""


def test_threads_are_of_the_process(small):
    script = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, timeout=60)
    assert script.stdout == "optimal 2.0\nthreads | 2: the first search of a process decides\n", script.stderr
    with pytest.raises(stagecut.InputError, match="threads"):
        stagecut.solve(small, threads=0)

"""Searches that run while something else happens: progress, threads, Ctrl-C."""

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import HARD

import stagecut


@pytest.fixture(scope="module")
def hard():
    return stagecut.generate(HARD["family"], **HARD["parameters"])


def test_progress_is_told(hard):
    events = []
    plan = stagecut.solve(hard, time_limit=3, progress=events.append, **HARD["options"])
    assert plan.status == "feasible" and plan.stopped_by == "time-limit" and 0 < plan.gap < 1
    assert events and all(isinstance(event, stagecut.Progress) for event in events)
    last = events[-1]
    assert last.objective_ms >= plan.objective_ms and last.bound_ms <= plan.bound_ms and last.gap >= 0
    assert 0 < last.seconds < 10 and "Progress(" in repr(last)


def test_progress_may_stop_a_search(hard):
    def stop(event):
        if event.objective_ms is not None:
            raise stagecut.Stop

    started = time.monotonic()
    plan = stagecut.solve(hard, progress=stop, **HARD["options"])
    assert plan.status == "feasible" and plan.stopped_by == "interrupt"
    assert time.monotonic() - started < 20


def test_what_progress_raises_comes_out(hard):
    def broken(event):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        stagecut.solve(hard, progress=broken, **HARD["options"])


def test_two_threads_solve_at_once(hard):
    plans, ticks = {}, 0

    def run(name):
        plans[name] = stagecut.solve(hard, time_limit=3, **HARD["options"])

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        # The GIL is free: this thread goes on.
        ticks += 1
        time.sleep(0.01)
    assert time.monotonic() - started < 5.5, "one after the other they would take six seconds"
    assert ticks > 50
    assert {plan.status for plan in plans.values()} == {"feasible"} and len(plans) == 2


CHILD = """
import json, sys, time, stagecut
hard = stagecut.generate({family!r}, **{parameters!r})
print("started", flush=True)
try:
    stagecut.solve(hard, **{options!r})
except KeyboardInterrupt as interrupted:
    plan = interrupted.plan
    print(json.dumps([type(interrupted).__name__, plan.status, plan.stopped_by, plan.gap, bool(plan.check()), str(interrupted)]))
"""


def test_ctrl_c_gives_the_best_plan_within_a_second():
    child = subprocess.Popen([sys.executable, "-c", CHILD.format(**HARD)], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "started\n"
    time.sleep(3)
    asked = time.monotonic()
    child.send_signal(signal.SIGINT)
    line = child.stdout.readline()
    seconds = time.monotonic() - asked
    name, status, stopped_by, gap, passes, words = json.loads(line)
    child.wait(timeout=30)
    print(f"Ctrl-C: {words} after {seconds:.3f} s")
    assert (name, status, stopped_by, passes) == ("Interrupted", "feasible", "interrupt", True)
    assert 0 < gap < 1 and seconds < 1.0


def test_a_limit_without_a_plan(hard):
    with pytest.raises(stagecut.NoPlan) as raised:
        stagecut.solve(hard, method="textbook", time_limit=0.0, **HARD["options"])
    assert raised.value.plan.status == "unknown" and "more time" in str(raised.value)


ENDS = """
import sys, threading, stagecut
from conftest import HARD
hard = stagecut.generate(HARD["family"], **HARD["parameters"])
options = {**HARD["options"], "method": sys.argv[1]}
search = threading.Thread(target=stagecut.solve, args=(hard,), kwargs=options, daemon=True)
search.start()
try:
    print(stagecut.solve(hard, time_limit=0.3, **options).stopped_by)
except stagecut.NoPlan as nothing:
    print(nothing.plan.stopped_by)
sys.exit(7)
"""


@pytest.mark.parametrize("method", ["exact", "milp", "textbook"])
def test_a_process_ends_while_searches_run(method):
    """One search is left at its time limit, another runs on a thread that nobody joins."""
    for _ in range(4):
        script = subprocess.run(
            [sys.executable, "-c", ENDS, method], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=60
        )
        assert (script.returncode, script.stdout, script.stderr) == (7, "time-limit\n", "")

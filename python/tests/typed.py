"""How the package is used, for mypy --strict: nothing here is run."""

from __future__ import annotations

import stagecut


def told(event: stagecut.Progress) -> None:
    print(event.seconds, event.objective_ms, event.bound_ms, event.gap)


def even(problem: dict[str, object]) -> list[list[str]]:
    return [["conv"], ["dense"]]


def use(path: str) -> list[float]:
    plan: stagecut.Plan = stagecut.solve(path, stages=4, cluster="h100", time_limit=10, schedule="gpipe", progress=told)
    loads: list[float] = [stage.load_ms for stage in plan.stages]
    if plan.objective_ms is not None and plan.gap is not None:
        loads.append(plan.objective_ms * (1 - plan.gap))
    compared = stagecut.compare(path, methods=["exact", even], stages=4)
    best: stagecut.Plan | None = compared.best
    checked: bool = bool(plan.check()) and best is not None
    run: stagecut.Simulation = plan.simulate(micro_batches=8)
    swept: stagecut.WhatIf = stagecut.what_if(path, stages=(2, 4), bandwidth="1GB/s..100GB/s", threads=2)
    checked = checked and bool(swept.plans) and plan.status != "feasible" and plan.stopped_by == "completed"
    known: list[float | None] = [point["objective_ms"] for curve in swept.curves for point in curve["points"]]
    print(known, run.events[0]["end_ms"], plan.statistics["seconds"], compared[0].status == "no-plan")
    rows: list[dict[str, object]] = stagecut.Study("study.toml").run() if checked else []
    try:
        stagecut.solve(path, stages=4, recompute="choose", memory_limit="16GB")
    except stagecut.InputError as error:
        print(error.faults[0].place, error.faults[0].remedy)
    except stagecut.Infeasible as none:
        print(none.plan.least_memory if none.plan else None)
    return [*loads, run.iteration_ms, float(len(rows))]

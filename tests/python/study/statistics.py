"""Computes every table of a study's report again, from its rows alone, and compares: FOLDER of `stagecut study report --output`.

Nothing here knows how the program does it. numpy and scipy do the statistics; the bootstrap is scipy's, with its own random
numbers, so intervals are compared up to what resampling leaves open.
"""

import csv
import math
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy import stats

TOLERANCE = 1e-7  # of a proof, as plans state it
SHORTEST_S = 1e-6
FAILURES = {"invalid", "over-limit", "out-of-memory", "crashed"}


def read(folder, name):
    with open(Path(folder) / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


def number(text):
    return float(text) if text != "" else None


class Study:
    def __init__(self, folder):
        rows = [row for row in read(folder, "results") if row["status"] not in ("inapplicable", "invalid")]
        limits = defaultdict(set)
        for row in read(folder, "results"):
            limits[row["method"]].add(row["time_limit_s"])
        self.problems = defaultdict(list)
        for row in rows:
            limit = f", {float(row['time_limit_s']):g} s" if len(limits[row["method"]]) > 1 else ""
            row["label"] = row["method"] + limit
            for name in ("objective_ms", "bound_ms", "seconds"):
                row[name] = number(row[name])
            self.problems[row["content"], row["options"]].append(row)
        self.best, self.bound, self.infeasible = {}, {}, set()
        for key, of in self.problems.items():
            objectives = [row["objective_ms"] for row in of if row["objective_ms"] is not None]
            bounds = [row["bound_ms"] for row in of if row["bound_ms"] is not None]
            self.best[key] = min(objectives, default=None)
            self.bound[key] = max(bounds, default=0.0)
            if any(row["status"] == "infeasible" for row in of):
                self.infeasible.add(key)
        self.runs = defaultdict(list)
        for key, of in self.problems.items():
            if key not in self.infeasible:
                for row in of:
                    row["key"] = key
                    row["gap"] = self.gap(key, row["objective_ms"])
                    self.runs[row["label"]].append(row)

    def gap(self, key, objective):
        if objective is None or self.best[key] is None:
            return None
        if objective <= 0:
            return (0.0, 0.0)
        low = max((objective - self.best[key]) / objective, 0.0)
        high = max((objective - self.bound[key]) / objective, low)
        return (low, low if high - low <= TOLERANCE else high)

    def by_problem(self, label, cost):
        """Mean cost of a method's runs on each problem it was run on."""
        costs = defaultdict(list)
        for row in self.runs[label]:
            costs[row["key"]].append(cost(row))
        return {key: float(np.mean(of)) for key, of in costs.items()}


def same(what, ours, theirs, tolerance=1e-9):
    if ours is None or theirs is None:
        assert ours is None and theirs is None, (what, ours, theirs)
    else:
        assert math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=1e-12), (what, ours, theirs)


def check_methods(study, folder):
    table = read(folder, "methods")
    assert {row["method"] for row in table} == set(study.runs)
    labels = [row["method"] for row in table]
    reference = next((label for label in labels if label.startswith("exact")), labels[0])
    clock = lambda row: max(row["seconds"], SHORTEST_S) if row["seconds"] is not None else math.inf
    of_reference = study.by_problem(reference, clock)
    for row in table:
        runs = study.runs[row["method"]]
        gaps = [run["gap"] for run in runs if run["gap"] is not None]
        solved = sum(gap[1] <= TOLERANCE for gap in gaps)
        same("runs", len(runs), float(row["runs"]))
        same("solved", solved, float(row["solved"]))
        same("share", solved / len(runs), float(row["solved_share"]))
        same("none", sum(run["objective_ms"] is None for run in runs), float(row["without_plan"]))
        same("failed", sum(run["status"] in FAILURES for run in runs), float(row["failed"]))
        for end, name in enumerate(("low", "high")):
            of = np.array([gap[end] for gap in gaps])
            for what, statistic in (
                ("mean", np.mean),
                ("median", np.median),
                ("p95", lambda of: np.percentile(of, 95)),
                ("worst", np.max),
            ):
                value = float(statistic(of)) if gaps else None
                same((row["method"], what, name), value, number(row[f"{what}_gap_{name}"]))
        seconds = np.array([run["seconds"] for run in runs if run["seconds"] is not None])
        same("median_s", float(np.median(seconds)), number(row["median_s"]))
        same("p95_s", float(np.percentile(seconds, 95)), number(row["p95_s"]))
        own = study.by_problem(row["method"], clock)
        ratios = np.array([own[key] / of_reference[key] for key in own if key in of_reference])
        ratios = ratios[np.isfinite(ratios) & (ratios > 0)]
        low, high = number(row["time_ratio_95_low"]), number(row["time_ratio_95_high"])
        if len(ratios) == 0:
            assert row["time_ratio"] == "" and low is None and high is None
            continue
        same("time ratio", float(stats.gmean(ratios)), number(row["time_ratio"]))
        if row["method"] == reference:
            assert low == high == 1.0
            continue
        interval = stats.bootstrap(
            (np.log(ratios),), np.mean, n_resamples=9999, method="percentile", random_state=np.random.default_rng(7)
        ).confidence_interval
        width = interval.high - interval.low
        for end, theirs in ((math.log(low), interval.low), (math.log(high), interval.high)):
            assert abs(end - theirs) <= 0.1 * width, (row["method"], end, theirs, width)


def check_profile(study, folder, name, cost):
    """Dolan and Moré's profile, by its definition: a sum over problems for every ratio of the table."""
    costs = {label: study.by_problem(label, cost) for label in study.runs}
    best = {key: min((of[key] for of in costs.values() if key in of), default=math.inf) for key in study.problems}
    table = read(folder, name)
    for label, of in costs.items():
        jumps = {of[key] / best[key] if of[key] != best[key] else 1.0 for key in of if math.isfinite(of[key])}
        listed = sorted(float(row["ratio"]) for row in table if row["method"] == label)
        assert np.allclose(listed, sorted(jumps), rtol=1e-9, atol=0), (name, label)
    for row in table:
        of = costs[row["method"]]
        ratio = float(row["ratio"])
        within = sum(1 for key in of if math.isfinite(of[key]) and of[key] <= ratio * best[key] * (1 + 1e-12))
        same((name, row), within / len(of), float(row["share_low"]))
    assert table


# Gaps that are equal but for rounding may be steps of their own in a table.
ROUNDING = 1e-12


def between(what, share, gap, theirs):
    """Whether a share is what counts at a gap, or at one that is equal but for rounding."""
    low, high = (float(share(gap * (1 + sign * ROUNDING))) for sign in (-1, 1))
    assert low - ROUNDING <= theirs <= high + ROUNDING, (what, low, theirs, high)


def check_gaps(study, folder):
    for row in read(folder, "gaps"):
        runs = study.runs[row["method"]]
        for end, name in ((1, "low"), (0, "high")):
            gaps = [run["gap"][end] if run["gap"] is not None else math.inf for run in runs]
            if len(gaps) > 0:
                share = lambda gap: np.mean(np.array(gaps) <= gap)
                between(("gaps", row), share, float(row["gap"]), float(row[f"share_{name}"]))
    # Once more by scipy, at the median of each method's gaps.
    for label, runs in study.runs.items():
        gaps = [run["gap"][1] for run in runs if run["gap"] is not None]
        if len(gaps) == len(runs):
            curve = stats.ecdf(gaps).cdf
            at = [row for row in read(folder, "gaps") if row["method"] == label]
            for row in at:
                between(("ecdf", row), curve.evaluate, float(row["gap"]), float(row["share_low"]))


def mean_gaps(what, runs, row, prefix):
    for end, which in enumerate(("low", "high")):
        value = float(np.mean([run["gap"][end] for run in runs])) if runs else None
        same((what, row, which), value, number(row[f"{prefix}_{which}"]))


def check_families(study, folder):
    families = {run["family"] for of in study.problems.values() for run in of}
    for row in read(folder, "by-family"):
        assert {name.removesuffix("_low") for name in row if name.endswith("_low")} == families
        for family in families:
            runs = [run for run in study.runs[row["method"]] if run["gap"] is not None and run["family"] == family]
            mean_gaps("by-family", runs, row, family)


def check_groups(study, folder, name, column, size):
    found = defaultdict(list)
    for label, runs in study.runs.items():
        for run in runs:
            if run["gap"] is not None and run[size] != "":
                found[label, run[column], run[size]].append(run)
    table = read(folder, name)
    assert len(table) == len(found), name
    for row in table:
        runs = found[row["method"], row[column], row[size]]
        same("runs", len(runs), float(row["runs"]))
        mean_gaps(name, runs, row, "mean_gap")


def check_wins(study, folder):
    objective = lambda row: math.inf if row["objective_ms"] is None else row["objective_ms"]
    costs = {label: study.by_problem(label, objective) for label in study.runs}
    for row in read(folder, "wins"):
        for other in study.runs:
            if other == row["method"] or f"{other}_low" not in row or row[f"{other}_low"] == "":
                continue
            pairs = [(costs[row["method"]][key], costs[other][key]) for key in costs[row["method"]] if key in costs[other]]
            alike = [a == b or abs(a - b) <= TOLERANCE * max(a, b) for a, b in pairs]
            better = [a < b and not tie for (a, b), tie in zip(pairs, alike)]
            same("wins", float(np.mean(better)), float(row[f"{other}_low"]))
            same("ties", float(np.mean(better) + np.mean(alike)), float(row[f"{other}_high"]))


def check_worst(study, folder):
    table = read(folder, "worst")
    worst = defaultdict(float)
    for label, runs in study.runs.items():
        for run in runs:
            if run["gap"] is not None:
                worst[label, run["content"]] = max(worst[label, run["content"]], run["gap"][0])
    gaps = sorted(worst.values(), reverse=True)
    assert len(table) == sum(gap > TOLERANCE for gap in gaps[:10])
    for row, gap in zip(table, gaps):
        same("worst", gap, float(row["gap_low"]))
        same("worst", (float(row["objective_ms"]) - float(row["best_ms"])) / float(row["objective_ms"]), gap)


def check_problems(study, folder):
    table = read(folder, "problems")
    assert len(table) == len(study.problems)
    # Both are in the order in which the rows name problems first.
    for row, (key, of) in zip(table, study.problems.items()):
        assert (row["instance"], row["family"], row["options"]) == (of[0]["instance"], of[0]["family"], key[1]), row
        best = study.best[key]
        bounds = [run["bound_ms"] for run in of if run["bound_ms"] is not None]
        same("best", best, number(row["objective_ms"]))
        same("bound", max(bounds, default=None), number(row["bound_ms"]))
        gap = study.gap(key, best)
        same("gap", gap and gap[1], number(row["gap"]))
        finders = {run["method"] for run in of if best is not None and run["objective_ms"] == best}
        assert finders == set(row["best"].split()), row


def main():
    folder = sys.argv[1]
    study = Study(folder)
    check_methods(study, folder)
    check_profile(study, folder, "quality", lambda row: math.inf if row["objective_ms"] is None else row["objective_ms"])
    solved = lambda row: row["gap"] is not None and row["gap"][1] <= TOLERANCE
    check_profile(
        study, folder, "speed", lambda row: max(row["seconds"], SHORTEST_S) if solved(row) else math.inf
    )
    check_gaps(study, folder)
    check_families(study, folder)
    check_groups(study, folder, "by-stages", "stages", "stages")
    check_groups(study, folder, "by-size", "instance", "layers")
    check_wins(study, folder)
    check_worst(study, folder)
    check_problems(study, folder)
    runs = sum(len(of) for of in study.runs.values())
    print(f"statistics agree: {runs} runs, {len(study.problems)} problems, {len(study.runs)} methods")


if __name__ == "__main__":
    main()

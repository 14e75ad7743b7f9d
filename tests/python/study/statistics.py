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


def paired(study, first, second):
    """Mean objectives of two methods on every problem that both have runs on."""
    objective = lambda row: math.inf if row["objective_ms"] is None else row["objective_ms"]
    one, other = (study.by_problem(label, objective) for label in (first, second))
    return [(one[key], other[key]) for key in one if key in other]


def difference(first, second):
    """By how much the first is better; objectives that are alike within the tolerance of a proof do not differ."""
    finite = math.isfinite(first) and math.isfinite(second)
    if first == second or (finite and abs(first - second) <= TOLERANCE * max(first, second)):
        return 0.0
    # Equal ratios of different objectives share a rank.
    return float(f"{math.log(second / first):.11e}") if finite else math.copysign(math.inf, second - first)


def counts(study, first, second):
    differences = [difference(*pair) for pair in paired(study, first, second)]
    return differences, [sum(of) for of in zip(*((one > 0, one == 0, one < 0) for one in differences))]


def check_wins(study, folder):
    for row in read(folder, "wins"):
        for other in study.runs:
            found = [row.get(f"{other}_{what}", "") for what in ("wins", "ties", "losses")]
            if other == row["method"] or not paired(study, row["method"], other):
                assert not any(found), row
                continue
            _, expected = counts(study, row["method"], other)
            assert [int(one) for one in found] == expected, (row["method"], other, found, expected)


def wilcoxon(differences):
    """The probability by scipy: every pair of signs where these are few, else the one that it calls exact, else the normal one."""
    left = np.array([one for one in differences if one != 0])
    if len(left) == 0:
        return 1.0
    tied = len(np.unique(np.abs(left))) < len(left)
    if len(left) > 50:
        method = "asymptotic"
    elif not tied:
        method = "exact"
    elif len(left) <= 12:
        method = stats.PermutationMethod(n_resamples=np.inf)
    else:
        return by_counting(stats.rankdata(np.abs(left)), left > 0)
    return float(stats.wilcoxon(left, zero_method="wilcox", correction=False, method=method).pvalue)


def by_counting(ranks, positive):
    """The same for equal ranks, which scipy only draws: all sums of doubled ranks, as a product of polynomials."""
    doubled = np.rint(2 * ranks).astype(int)
    ways = np.array([1.0])
    for rank in doubled:
        longer = np.zeros(len(ways) + rank)
        longer[: len(ways)] += ways
        longer[rank:] += ways
        ways = longer / 2
    won = int(doubled[positive].sum())
    return min(1.0, 2 * float(min(ways[: won + 1].sum(), ways[won:].sum())))


def check_significance(study, folder):
    table = read(folder, "significance")
    labels = [row["method"] for row in read(folder, "methods")]
    pairs = [(a, b) for at, a in enumerate(labels) for b in labels[at + 1 :] if paired(study, a, b)]
    assert [(row["method"], row["other"]) for row in table] == pairs
    found = []
    for row in table:
        differences, (wins, ties, losses) = counts(study, row["method"], row["other"])
        assert [int(row[name]) for name in ("wins", "ties", "losses")] == [wins, ties, losses], row
        assert (int(row["problems"]), int(row["pairs"])) == (len(differences), wins + losses), row
        left = np.array([one for one in differences if one != 0])
        ranks = stats.rankdata(np.abs(left)) if len(left) else np.array([])
        same("ranks", float(ranks[left > 0].sum()), float(row["rank_sum"]))
        found.append(wilcoxon(differences))
        same(("p", row["method"], row["other"]), found[-1], float(row["p"]), 1e-6)
    # Holm's rule by its definition: no other hypothesis is rejected before those of less probability.
    for row, p in zip(table, found):
        raised = max((sum(other >= least for other in found) * least for least in found if least <= p))
        same(("Holm", row["method"], row["other"]), min(1.0, raised), float(row["p_holm"]), 1e-6)
        half = int(row["pairs"]) * (int(row["pairs"]) + 1) / 4
        better = row["method"] if float(row["rank_sum"]) > half else row["other"]
        assert row["better"] == (better if float(row["p_holm"]) < 0.05 else "neither"), row


def check_reasons(study, folder):
    rows = [row for row in read(folder, "results") if row["objective_ms"] == "" and row["status"] != "infeasible"]
    failures = read(folder, "failures")
    assert len(failures) == len(rows), (len(failures), len(rows))
    counted = defaultdict(int)
    for row in failures:
        counted[row["method"], row["status"], row["reason"]] += 1
    reasons = {(row["method"], row["status"], row["reason"]): int(row["runs"]) for row in read(folder, "reasons")}
    assert reasons == dict(counted) and all(row["reason"] for row in failures)


def check_gap_to_best(study, folder):
    """`gap_to_best_bound` of the rows: to the best bound of all methods, not the row's own."""
    for of in study.problems.values():
        bound = max((row["bound_ms"] for row in of if row["bound_ms"] is not None), default=None)
        for row in of:
            same("best bound", bound, number(row["best_bound_ms"]))
            objective = row["objective_ms"]
            expected = None if objective is None or bound is None else max((objective - bound) / objective, 0.0)
            found = number(row["gap_to_best_bound"])
            assert (found is None) == (expected is None) and (found is None or abs(found - expected) <= TOLERANCE), row


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
    check_significance(study, folder)
    check_reasons(study, folder)
    check_gap_to_best(study, folder)
    check_worst(study, folder)
    check_problems(study, folder)
    runs = sum(len(of) for of in study.runs.values())
    print(f"statistics agree: {runs} runs, {len(study.problems)} problems, {len(study.runs)} methods")


if __name__ == "__main__":
    main()

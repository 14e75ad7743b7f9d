"""Plots of the CSV files as SVG. Lines differ by mark and dash as well as by colour."""
import csv
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from common import unique
from panels import panels, save

MARKS = ["o", "D", "v", "^", "s", "P", "X"]
COLORS = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9"]


def read(name):
    with open(HERE / name) as file:
        return list(csv.DictReader(file))


def policies():
    """Each policy: mean time over the clairvoyant bound at the budgets, against what it paid of them."""
    rows = read("policies.csv")
    scenarios = unique(rows, "scenario")
    cases = [(scenario, reading) for reading in unique(rows, "reading") for scenario in scenarios]
    figure, axes = panels([", ".join(case) for case in cases], columns=len(scenarios))
    for axis, case in zip(axes, cases):
        of = [row for row in rows if (row["scenario"], row["reading"]) == case]
        for policy, mark, color in zip(unique(of, "policy"), MARKS, COLORS):
            runs = [row for row in of if row["policy"] == policy]
            times = [float(row["time_ms"]) / float(row["clairvoyant_ms"] or row["lagrangian_ms"]) for row in runs]
            costs = [float(row["cost_of_budget"]) for row in runs]
            axis.plot(costs, times, color=color, marker=mark, markersize=4, linestyle="", alpha=0.7, label=policy)
        axis.axhline(1, color="#cccccc", linewidth=0.8, zorder=0)
        axis.axvline(1, color="#cccccc", linewidth=0.8, zorder=0)
        axis.set_yscale("log")
        ticks = [1, 1.2, 1.5, 2, 3, 4]
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_yticks([], minor=True)
        axis.set_xlabel("cost / budget")
    axes[0].set_ylabel("mean time / clairvoyant bound")
    save(figure, axes, HERE / "policies.svg", "Time and cost of every policy, a mark a seed: fast is low, within the budget is left of 1")


def tradeoff():
    """Time gap and queue against V, means and ranges over seeds, with the slope that theory gives as a bound."""
    rows = read("tradeoff.csv")
    scenarios = unique(rows, "scenario")
    shown = [("gap_ms", "time gap, ms", -1), ("mean_queue", "mean queue", 1)]
    figure, axes = panels([f"{scenario}: {name}" for _, name, _ in shown for scenario in scenarios], columns=len(scenarios))
    for axis, (column, name, power, scenario) in zip(axes, [(*of, scenario) for of in shown for scenario in scenarios]):
        of = [row for row in rows if row["scenario"] == scenario]
        for states, mark, color in zip(unique(of, "states"), MARKS, COLORS):
            by_weight = [[float(row[column]) for row in of if (row["states"], row["weight"]) == (states, weight)] for weight in unique(of, "weight")]
            weights = [float(weight) for weight in unique(of, "weight")]
            means = [statistics.fmean(values) for values in by_weight]
            errors = [[mean - min(values) for mean, values in zip(means, by_weight)], [max(values) - mean for mean, values in zip(means, by_weight)]]
            axis.errorbar(weights, means, yerr=errors, color=color, marker=mark, markersize=4, linewidth=1.2, capsize=2, elinewidth=0.8,
                          label={"chains": "the scenario's chains", "independent": "independent slots"}[states])
        # Through what the scenario's chains have at V = 1.
        level = statistics.fmean(float(row[column]) for row in of if row["states"] == "chains" and float(row["weight"]) == 1)
        axis.plot(weights, [level * weight ** power for weight in weights], color="#000000", linestyle=":", linewidth=1, label="order of theory")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("V, 1/ms")
        axis.set_ylabel(name)
    save(figure, axes, HERE / "tradeoff.svg", "The trade-off of V: exact slots, free moves")


def queues():
    """Queue over slots against slots."""
    rows = read("queues.csv")
    scenarios = unique(rows, "scenario")
    figure, axes = panels(scenarios, sharey=True)
    for axis, scenario in zip(axes, scenarios):
        of = [row for row in rows if row["scenario"] == scenario]
        cases = unique([{"case": (row["policy"], row["reading"])} for row in of], "case")
        for case, mark, color in zip(cases, MARKS, COLORS):
            slots = unique(of, "slots")
            largest = [max(float(row["queue_of_budget"]) for row in of if (row["policy"], row["reading"], row["slots"]) == (*case, t)) for t in slots]
            axis.plot([int(t) for t in slots], largest, color=color, marker=mark, markersize=4, linewidth=1, label=", ".join(case))
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("slots")
    axes[0].set_ylabel("queue / slots / budget")
    save(figure, axes, HERE / "queues.svg", "Budgets are kept in the time average: the largest queue of all seeds over the slots so far")


policies()
tradeoff()
queues()

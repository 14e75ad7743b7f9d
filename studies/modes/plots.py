"""Plots of gains.csv and rules.csv as SVG. Lines differ by mark and dash as well as by colour."""
import csv
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from common import unique
from panels import panels, save

VARIANTS = {
    "nothing recomputed": ("#000000", "o", ":"),
    "everything recomputed": ("#0072b2", "v", "--"),
    "no tensor degrees": ("#cc79a7", "s", (0, (1, 3))),
    "no replicas": ("#009e73", "D", "-."),
    "cut first": ("#d55e00", "^", "-"),
}
DEVICES = {2: ("#000000", "o", ":"), 4: ("#0072b2", "v", "--"), 8: ("#d55e00", "^", "-")}
# Memories of a network whose gains are shown by devices.
MEMORIES = 2
# Networks on which Piper's knapsack loses most.
NETWORKS = 8


def gigabytes(row):
    return float(row["memory"].removesuffix("GB"))


def lines(axis, rows, place):
    """How much longer each variant takes; a gap where it has no plan."""
    for variant, (color, mark, dash) in VARIANTS.items():
        points = [(place(row), float(row[variant]) if row[variant] else float("nan")) for row in rows]
        axis.plot(*zip(*points), color=color, marker=mark, linestyle=dash, markersize=4, linewidth=1.2, label=variant)
    axis.axhline(1, color="#cccccc", linewidth=0.8, zorder=0)
    axis.set_yscale("log", base=2)
    axis.set_yticks([1, 1.5, 2, 3, 4], ["1", "1.5", "2", "3", "4"])
    axis.minorticks_off()


def by_memory(rows):
    keys = [(network, devices) for network in unique(rows, "network") for devices in unique([row for row in rows if row["network"] == network], "devices")]
    figure, axes = panels([f"{network}, {devices} GPUs" for network, devices in keys], sharey=True)
    for axis, key in zip(axes, keys):
        lines(axis, [row for row in rows if (row["network"], row["devices"]) == key], gigabytes)
        axis.set_xlabel("GB of a GPU")
    axes[0].set_ylabel("period / joint period")
    save(figure, axes, HERE / "memory.svg", "How much longer plans take that choose less, by memory")


def by_devices(rows):
    panels_of = []
    for network in unique(rows, "network"):
        own = [row for row in rows if row["network"] == network]
        shared = [memory for memory in unique(own, "memory") if sum(row["memory"] == memory for row in own) > 1]
        panels_of += [(network, memory) for memory in sorted(shared, key=lambda memory: gigabytes({"memory": memory}))[:MEMORIES]]
    figure, axes = panels([f"{network}, {memory}" for network, memory in panels_of], sharey=True)
    for axis, key in zip(axes, panels_of):
        own = [row for row in rows if (row["network"], row["memory"]) == key]
        lines(axis, own, lambda row: int(row["devices"]))
        axis.set_xscale("log", base=2)
        ticks = [int(row["devices"]) for row in own]
        axis.set_xticks(ticks, ticks)
        axis.set_xlabel("GPUs")
    axes[0].set_ylabel("period / joint period")
    save(figure, axes, HERE / "devices.svg", "How much longer plans take that choose less, by number of GPUs")


def knapsack(rows):
    """What Piper's knapsack loses, by where the limit lies between the least that fits and what needs no recomputation."""
    best = {(row["network"], row["devices"], row["memory_bytes"]): row["objective_ms"] for row in rows if row["method"] == "exact" and row["status"] == "optimal"}
    lost = {}
    for row in rows:
        key = (row["network"], row["devices"], row["memory_bytes"])
        if row["method"] == "piper" and row["objective_ms"] and key in best:
            lost[key] = 100 * (float(row["objective_ms"]) / float(best[key]) - 1)
    largest = {}
    for (network, *_), percent in lost.items():
        largest[network] = max(percent, largest.get(network, 0))
    networks = sorted(largest, key=lambda network: -largest[network])[:NETWORKS]
    figure, axes = panels(networks)
    for axis, network in zip(axes, networks):
        for devices, (color, mark, dash) in DEVICES.items():
            limits = [int(row["memory_bytes"]) for row in rows
                      if row["method"] == "exact" and row["network"] == network and row["devices"] == str(devices)]
            of = [(100 * at / len(limits), lost.get((network, str(devices), str(limit)), float("nan"))) for at, limit in enumerate(limits)]
            if of:
                axis.plot(*zip(*of), color=color, marker=mark, linestyle=dash, markersize=3, linewidth=1, label=f"{devices} stages")
        axis.axhline(0, color="#cccccc", linewidth=0.8, zorder=0)
        axis.set_xlabel("memory limit, in % of the way")
    axes[0].set_ylabel("% longer than the optimum")
    save(figure, axes, HERE / "knapsack.svg", "What Piper's knapsack loses, by memory limit: from the least that fits to what needs no recomputation")


gains = [row for row in csv.DictReader(open(HERE / "gains.csv")) if row["status"] in ("optimal", "feasible")]
by_memory(gains)
by_devices(gains)
knapsack(list(csv.DictReader(open(HERE / "rules.csv"))))

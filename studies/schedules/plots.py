"""Plots of orders.csv and joint.csv as SVG. Lines differ by mark and dash as well as by colour."""
import csv
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from panels import panels, save

RULES = {
    "gpipe": ("#000000", "o", ":"),
    "1f1b": ("#0072b2", "v", "--"),
    "interleaved": ("#0072b2", "s", "-"),
    "zb-h1": ("#009e73", "D", "-."),
    "zb-h2": ("#cc79a7", "s", (0, (1, 3))),
    "zb-v": ("#d55e00", "^", "-"),
    "v-half": ("#009e73", "v", "--"),
    "v-min": ("#cc79a7", "o", ":"),
    "dualpipe": ("#56b4e9", "D", "-."),
}
TITLES = {
    "whole": "one chunk, whole backward",
    "split": "one chunk, split backward",
    "loop": "two chunks, loop, whole backward",
    "v": "two chunks, V, split backward",
}
LINES = {"best rule": ("fixed_ms", "#d55e00", "-"), "order alone": ("best_order_ms", "#0072b2", "--")}


def rules(rows):
    """Median of what a rule takes beyond the best order, by micro-batches for each device."""
    figure, axes = panels(list(TITLES.values()))
    for axis, form in zip(axes, TITLES):
        own = [row for row in rows if row["form"] == form and row["room"] == "none" and row["iteration_ms"]]
        rounds = sorted({int(row["micro_batches"]) // int(row["devices"]) for row in own})
        for rule, (color, mark, dash) in RULES.items():
            points = []
            for round_ in rounds:
                at = [row for row in own if int(row["micro_batches"]) == round_ * int(row["devices"]) and row[rule]]
                if at:
                    longer = [100 * (float(row[rule]) / float(row["iteration_ms"]) - 1) for row in at]
                    points.append((round_, statistics.median(longer)))
            # The legend is that of the first panel: every rule has a line there, be it an empty one.
            axis.plot(*(zip(*points) if points else ([], [])), color=color, marker=mark, linestyle=dash, markersize=4, linewidth=1.2, label=rule)
        axis.set_xscale("log", base=2)
        axis.set_xticks(rounds, [str(round_) for round_ in rounds])
        axis.set_xlabel("micro-batches for each device")
        axis.set_ylim(bottom=-0.5)
    axes[0].set_ylabel("% longer than the best order found, median")
    save(figure, axes, HERE / "rules.svg", "Published schedules against the best order of the same chunks, any room")


def joint(rows):
    """How much longer fixed rules take than cut and order together, problems in order."""
    forms = [form for form in TITLES if any(row["form"] == form for row in rows)]
    figure, axes = panels([TITLES[form] for form in forms], columns=3)
    for axis, form in zip(axes, forms):
        own = [row for row in rows if row["form"] == form and row["iteration_ms"]]
        for name, (column, color, dash) in LINES.items():
            longer = sorted(100 * (float(row[column]) / float(row["iteration_ms"]) - 1) for row in own if row[column])
            places = [(at + 1) / len(longer) for at in range(len(longer))]
            axis.plot(places, longer, color=color, linestyle=dash, linewidth=1.4, label=name)
        axis.set_xlabel("share of the problems")
        axis.axhline(0, color="#cccccc", linewidth=0.8, zorder=0)
    axes[0].set_ylabel("% longer than cut and order together")
    save(figure, axes, HERE / "joint.svg", "What choosing cut and order together gains")


def read(name):
    with open(HERE / name, newline="") as file:
        return list(csv.DictReader(file))


rules(read("orders.csv"))
joint(read("joint.csv"))

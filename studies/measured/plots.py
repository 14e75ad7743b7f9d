"""Plots of plans.csv and megatron.csv as SVG: predicted against measured, with the diagonal."""
import csv
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from panels import panels, save

WAYS = {
    "peaks": ("#000000", "o"),
    "one efficiency": ("#d55e00", "v"),
    "measured layers": ("#0072b2", "s"),
    "measured layers, calibrated": ("#009e73", "D"),
}
TITLES = ["OPT-350 on GH200: iteration, s", "OPT-350 on GH200: memory, GB", "GPT on A100: iteration, s"]


def read(name):
    with open(HERE / name, newline="") as file:
        return list(csv.DictReader(file))


def scatter(axis, points, way):
    color, mark = WAYS[way]
    axis.plot(*(zip(*points) if points else ([], [])), color=color, marker=mark, linestyle="", markersize=5, fillstyle="none" if mark != "D" else "full", label=way)


def diagonal(axis, least, most, ticks):
    axis.axline((1, 1), slope=1, color="#999999", linewidth=0.8, zorder=0)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(least, most)
    axis.set_ylim(least, most)
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("measured")


def main():
    figure, axes = panels(TITLES)
    plans, gpts = read("plans.csv"), read("megatron.csv")
    for way in WAYS:
        scatter(axes[0], [(float(row["measured_s"]), float(row[f"{way}, s"])) for row in plans], way)
        if way.startswith("measured"):
            scatter(axes[1], [(float(row["measured_bytes"]) / 1e9, float(row[f"{way}, bytes"]) / 1e9) for row in plans], way)
    for way, column in (("peaks", "peaks, s"), ("one efficiency", "by other models, s")):
        scatter(axes[2], [(float(row["measured_s"]), float(row[column])) for row in gpts], way)
    diagonal(axes[0], 2e-3, 4, [0.01, 0.1, 1])
    diagonal(axes[1], 2, 50, [2, 5, 10, 20, 50])
    diagonal(axes[2], 0.5, 30, [0.5, 1, 2, 5, 10, 20])
    axes[0].set_ylabel("predicted")
    save(figure, axes, HERE / "measured.svg", "Predicted against measured; what is calibrated is calibrated on other plans")


if __name__ == "__main__":
    main()

"""Plot of costs.csv as SVG: a point a layout, by model; marks tell pipelines with and without virtual stages apart."""
import csv
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from panels import panels, save

FORMS = {"one chunk a device": ("o", "#0072b2"), "several chunks": ("^", "#d55e00")}


def main():
    with open(HERE / "costs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    models = sorted({row["model"] for row in rows})
    figure, axes = panels(["over the best plan found", "over the bound"], columns=2)
    for axis, what in zip(axes, ("best", "bound")):
        for form, (mark, color) in FORMS.items():
            own = [row for row in rows if (int(row["chunks"]) > 1) == (form == "several chunks")]
            # Those of one model and form lie beside each other.
            shift = 0.15 if form == "several chunks" else -0.15
            points = [(float(row[f"layout_over_{what}_percent"]), models.index(row["model"]) + shift) for row in own]
            axis.plot(*zip(*points), linestyle="", marker=mark, color=color, markersize=4, alpha=0.7, label=form)
        axis.set_yticks(range(len(models)), [model if len(model) < 30 else model[:27] + "..." for model in models] if what == "best" else [])
        axis.set_ylim(len(models) - 0.5, -0.5)
        axis.set_xlabel("% longer iteration")
        axis.set_xlim(left=-0.5)
        axis.grid(axis="y", linewidth=0.3)
    save(figure, axes, HERE / "gaps.svg", "Published layouts of Megatron on our costs")


main()

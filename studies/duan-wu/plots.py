"""Plots of results.csv as SVG. Lines differ by mark and dash as well as by colour."""
import csv
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

from matplotlib.ticker import LogLocator, NullLocator

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from common import unique
from panels import panels, save


def looks():
    loader = SourceFileLoader("run", str(HERE / "run"))
    module = module_from_spec(spec_from_loader("run", loader))
    loader.exec_module(module)
    return module.LOOKS, module.MICRO_BATCHES


def plot(name, rows, plans, x, label, title, scale="linear"):
    """A panel a network: simulated iteration against `x`; a logarithmic scale tells plans apart that differ by large factors."""
    styles, micro_batches = looks()
    figure, axes = panels(networks := unique(rows, "network"))
    for axis, network in zip(axes, networks):
        for plan in plans:
            points = [(int(r[x]), float(r["iteration_ms"])) for r in rows if (r["network"], r["plan"]) == (network, plan) and r["iteration_ms"]]
            color, mark, dash = styles[plan]
            axis.plot(*zip(*points), color=color, marker=mark, linestyle=dash, markersize=4, linewidth=1.2, label=plan)
        axis.set_xlabel(label)
        axis.set_xticks(sorted({int(r[x]) for r in rows}))
        axis.set_yscale(scale)
        if scale == "linear":
            axis.set_ylim(bottom=0)
        else:
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_minor_locator(NullLocator())
            axis.yaxis.set_major_formatter("{x:g}")
    axes[0].set_ylabel(f"time of {micro_batches} micro-batches, ms")
    save(figure, axes, HERE / f"{name}.svg", title)


rows = list(csv.DictReader(open(HERE / "results.csv")))
shares = ["1F1B", "even shares", "theorem shares", "global shares", "best shares"]
groups = ["1F1B", "greedy groups", "exact groups", "greedy + local search", "best shares"]
of = lambda study, cluster: [row for row in rows if (row["study"], row["cluster"]) == (study, cluster)]
for cluster in ("equal", "unequal", "concave"):
    plot(f"depth-{cluster}", of("depth, alike", cluster), shares, "stages", "stages, a worker each", f"Depth, workers alike ({cluster})")
plot("depth-mixed", of("depth, mixed", "mixed"), groups, "stages", "stages", "Depth on 8 mixed devices; best shares are the joint plan", "log")
plot("devices", of("devices", "mixed"), groups, "devices", "devices", "Mixed devices in 4 stages; best shares are the joint plan", "log")

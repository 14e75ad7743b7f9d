"""Plots of gains.csv as SVG. Lines differ by mark and dash as well as by colour."""
import csv
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from common import unique
from panels import panels, save

LINES = {2: ("#000000", "o", ":"), 4: ("#009e73", "D", "-."), 6: ("#0072b2", "v", "--"), 8: ("#d55e00", "^", "-")}
# Without transfers PipeDream finds the best tied plan, so that it needs no line of its own.
GAINS = {
    "the best separate plan": ("gain_over_tied", "#d55e00", "^", "-"), "bi-partition": ("heuristic", "#009e73", "D", ":"),
}


def number(row, column):
    return float(row[column]) if row[column] else None


def by_link(rows, name, over, least, most):
    """What is left of a gain as links get slower; ranges where a run is not proved."""
    left_out = {row["network"] for row in rows if row["link"] == "as given" or not row[f"gain_over_{name}"]}
    rows = [row for row in rows if row["network"] not in left_out and row["communication"] != "blocking"]
    if not rows:
        return
    links = unique([row for row in rows if row["link"]], "link") + [""]
    figure, axes = panels(networks := unique(rows, "network"), sharey=True)
    for axis, network in zip(axes, networks):
        for stages, (color, mark, dash) in LINES.items():
            of = {row["link"]: row for row in rows if row["network"] == network and int(row["stages"]) == stages}
            of = [of[link] for link in links]
            gains = [number(row, f"gain_over_{name}") for row in of]
            errors = [[gain - number(row, least) for gain, row in zip(gains, of)], [number(row, most) - gain for gain, row in zip(gains, of)]]
            axis.errorbar(range(len(links)), gains, yerr=errors, color=color, marker=mark, linestyle=dash, markersize=4, linewidth=1.2,
                          capsize=2, elinewidth=0.8, label=f"{stages} stages")
        axis.set_xticks(range(len(links)), [link or "no transfers" for link in links], rotation=40, ha="right")
        axis.axhline(1, color="#cccccc", linewidth=0.8, zorder=0)
    axes[0].set_ylabel(f"{over} / best separate period")
    save(figure, axes, HERE / f"over-{name}.svg", f"{over} over the best with separate cuts, by link (transfers overlapped)")


def by_stages(rows):
    rows = [row for row in rows if row["communication"] == "ignored"]
    for row in rows:
        heuristic = number(row, "bi-partition_ms")
        row["heuristic"] = number(row, "tied_ms") / heuristic if heuristic else ""
    figure, axes = panels(networks := unique(rows, "network"), sharey=True)
    for axis, network in zip(axes, networks):
        for name, (column, color, mark, dash) in GAINS.items():
            points = [(int(row["stages"]), number(row, column)) for row in rows if row["network"] == network and row[column]]
            if points:
                axis.plot(*zip(*points), color=color, marker=mark, linestyle=dash, markersize=4, linewidth=1.2, label=name)
        axis.set_xlabel("stages")
        axis.axhline(1, color="#cccccc", linewidth=0.8, zorder=0)
    axes[0].set_ylabel("best tied period / period")
    save(figure, axes, HERE / "stages.svg", "What separate cuts gain where transfers take no time")


rows = list(csv.DictReader(open(HERE / "gains.csv")))
by_link(rows, "tied", "Best tied period", "at_least", "at_most")
by_link(rows, "pipedream", "PipeDream's period", "gain_over_pipedream", "at_most_over_pipedream")
by_stages(rows)

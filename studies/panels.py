"""Panels, one a network, under one title and one legend: the look of every study's plots."""
import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "stagecut", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
import matplotlib.pyplot as plt

COLUMNS = 4
HEIGHT = 3.4  # inches of a row


def panels(networks, sharey=False, columns=COLUMNS):
    """The figure and an axis for each network, which bears its name."""
    columns = min(len(networks), columns)
    rows = -(-len(networks) // columns)
    size = (max(3.1 * columns, 6), HEIGHT * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, sharey=sharey)
    for axis, network in zip(axes.flat, networks):
        axis.set_title(network, fontsize=9)
    for axis in axes.flat[len(networks):]:
        axis.set_visible(False)
    return figure, axes.flat[:len(networks)]


def save(figure, axes, path, title):
    """Writes the same bytes for the same lines."""
    handles, labels = axes[0].get_legend_handles_labels()
    row = HEIGHT / figure.get_figheight()
    figure.suptitle(title, fontsize=10, y=1 - 0.02 * row)
    figure.legend(handles, labels, loc="lower center", ncol=len(labels), frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.07 * row, 1, 1))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)

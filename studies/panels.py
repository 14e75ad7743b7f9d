"""A row of panels, one a network, under one title and one legend: the look of every study's plots."""
import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "stagecut", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
import matplotlib.pyplot as plt


def panels(networks):
    """The figure and an axis for each network, which bears its name."""
    figure, axes = plt.subplots(1, len(networks), figsize=(max(3.1 * len(networks), 6), 3.4), squeeze=False)
    for axis, network in zip(axes[0], networks):
        axis.set_title(network, fontsize=9)
    return figure, axes[0]


def save(figure, axes, path, title):
    """Writes the same bytes for the same lines."""
    handles, labels = axes[0].get_legend_handles_labels()
    figure.suptitle(title, fontsize=10)
    figure.legend(handles, labels, loc="lower center", ncol=len(labels), frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, 0.07, 1, 1))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)

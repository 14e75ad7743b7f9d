"""Runs a notebook from start to end, far from the checkout: `run_notebook.py NOTEBOOK [--write]`.

With `--write` its outputs are kept in it; without, nothing is written, and a cell that raises ends the program.
"""

import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

path = Path(sys.argv[1])
notebook = nbformat.read(path, as_version=4)
with tempfile.TemporaryDirectory() as folder:
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}}).execute()
cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
print(f"{path.name}: {len(cells)} cells ran")
if "--write" in sys.argv[2:]:
    for cell in cells:
        # When a cell ran changes with every run, and says nothing.
        cell.metadata.pop("execution", None)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(notebook, path)

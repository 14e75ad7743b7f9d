"""Runs the Python examples of pages, one file after the other: `documents.py [--torch] ROOT FILE...`.

A block that begins with ```python is run, with what the blocks before it on the page have defined, from the root of the checkout.
Those that begin with ```python torch need PyTorch, and run with `--torch` alone. A block whose first line is `import stagecut    # NAME.py`
is a script, and runs as one in a folder of its own.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

arguments = sys.argv[1:]
has_torch = arguments[0] == "--torch"
root, *names = arguments[has_torch:]
fence = "python(?: torch)?" if has_torch else "python"
os.chdir(root)
for name in names:
    text = Path(name).read_text(encoding="utf-8")
    blocks = re.findall(rf"^```{fence}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    defined = {"__name__": "__main__"}
    for at, block in enumerate(blocks, 1):
        if script := re.match(r"import stagecut +# (\w+\.py)\n", block):
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, script[1]).write_text(block, encoding="utf-8")
                subprocess.run([sys.executable, script[1]], cwd=folder, check=True)
            continue
        exec(compile(block, f"{name}, block {at}", "exec"), defined)
    print(f"{name}: {len(blocks)} blocks ran")

"""Runs the Python examples of pages, one file after the other: `documents.py ROOT FILE...`.

A block that begins with ```python is run, with what the blocks before it on the page have defined, from the root of the checkout.
Those that need what is not installed here say so after the word: ```python torch.
"""

import os
import re
import sys
from pathlib import Path

root, *names = sys.argv[1:]
os.chdir(root)
for name in names:
    text = Path(name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    defined = {"__name__": "__main__"}
    for at, block in enumerate(blocks, 1):
        exec(compile(block, f"{name}, block {at}", "exec"), defined)
    print(f"{name}: {len(blocks)} blocks ran")

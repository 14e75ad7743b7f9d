"""How another copy of the program is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def words() -> list[str]:
    """The words that start it, its arguments come behind: the program that pip wrote where this is it, else this interpreter."""
    program = Path(sys.argv[0] if sys.argv else "")
    if program.name == "stagecut" and program.is_file() and os.access(program, os.X_OK):
        return [str(program.absolute())]
    if not sys.executable:
        return []
    # Wherever the package was found, and whatever lies in the folder that the copy is started in.
    found_in = str(Path(__file__).absolute().parent.parent)
    start = f"import sys; sys.path.insert(0, {found_in!r}); from stagecut.__main__ import main; sys.exit(main())"
    return [sys.executable, "-c", start]

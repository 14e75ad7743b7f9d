"""The command line: ``python -m stagecut``, and ``stagecut`` where pip puts programs."""

from __future__ import annotations

import sys

from . import _stagecut


def main() -> int:
    """Runs the command line; returns its exit code."""
    return _stagecut.program(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())

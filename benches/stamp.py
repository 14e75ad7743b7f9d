"""What a table of this folder is of: the commit, the day and the machine."""
import os
import subprocess
import time
from pathlib import Path


def commit():
    """The commit of the checkout, short."""
    command = ["git", "-C", Path(__file__).parent, "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def stamp():
    """All of it, at the end of the measurement."""
    return f"at {commit()}, {time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end"

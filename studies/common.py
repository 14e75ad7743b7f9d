"""What every study does: run stagecut, write CSV, find matplotlib."""
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAGECUT = Path(os.environ.get("STAGECUT", ROOT / "target/release/stagecut"))


def solve(problem, method, limit, patience=None):
    """The plan of `stagecut solve`, as its JSON.

    None where there is no such method, where it does not apply, or where it takes longer than `patience` seconds, as heuristics
    may that look at no limit.
    """
    command = [STAGECUT, "solve", *problem, "--method", method, "--time-limit", str(limit), "--quiet", "--format", "json"]
    try:
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=patience)
    except subprocess.TimeoutExpired:
        return None
    if ended.returncode == 2 and any(reason in ended.stderr for reason in ("does not apply", "for '--method")):
        return None
    if ended.returncode not in (0, 3, 4):
        sys.exit(f"{' '.join(map(str, command))} ended with {ended.returncode}: {ended.stderr}")
    return json.loads(ended.stdout)


def unique(rows, key):
    return list(dict.fromkeys(row[key] for row in rows))


def write(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def plot(script):
    """Runs a script in a Python with matplotlib, which goes to .tools/study."""
    venv = ROOT / ".tools/study"
    if not (venv / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([venv / "bin/python", "-m", "pip", "install", "--quiet", "matplotlib"], check=True)
    subprocess.run([venv / "bin/python", script], check=True)

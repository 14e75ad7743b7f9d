"""Constants that were calibrated, in constants.json: what they are, from what, and how far off on what they have not seen."""
import json
from pathlib import Path

FILE = Path(__file__).resolve().parent / "constants.json"


def read(name):
    return json.loads(FILE.read_text())[name] if FILE.exists() else {}


def write(name, values):
    """Replaces what the file says under a name."""
    whole = json.loads(FILE.read_text()) if FILE.exists() else {}
    whole[name] = values
    FILE.write_text(json.dumps(dict(sorted(whole.items())), indent=2) + "\n")

"""Writes `stagecut/_options.py` from what the native half says of its options: `python python/generate_options.py`.

Run it where the package is installed, after an option has changed; `python/tests/test_options.py` fails until then.
"""

import json
import pathlib
import textwrap

from stagecut import _stagecut

HEADER = '''"""The options of a problem, as keywords. Written by `python/generate_options.py`; do not edit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypedDict, Union


class Problem(TypedDict, total=False):
    """What may be asked of a network: the options of an instance file, and the flags of ``stagecut solve``.

    What is left out, the network's own options and then the defaults decide.
    """
'''


def annotation(schema: dict, definitions: dict) -> str:
    """The type of a value."""
    if "$ref" in schema:
        return annotation(definitions[schema["$ref"].rsplit("/", 1)[1]], definitions)
    alternatives = schema.get("anyOf", []) + schema.get("oneOf", [])
    words = [one["const"] for one in alternatives if "const" in one] + schema.get("enum", [])
    others = [one for one in alternatives if "const" not in one and one.get("type") != "null"]
    types = [f"Literal[{', '.join(json.dumps(word) for word in words)}]"] if words else []
    types += [annotation(one, definitions) for one in others]
    if "const" in schema:
        types.append(f"Literal[{json.dumps(schema['const'])}]")
    if not alternatives and not words and "const" not in schema:
        named = schema.get("type", "null")
        for name in [named] if isinstance(named, str) else named:
            if name == "array":
                types.append(f"Sequence[{annotation(schema.get('items', {}), definitions)}]")
            elif name != "null":
                types.append({"string": "str", "number": "float", "integer": "int", "boolean": "bool"}[name])
    types = list(dict.fromkeys(types)) or ["object"]
    return types[0] if len(types) == 1 else f"Union[{', '.join(types)}]"


def text() -> str:
    """The module."""
    names = json.loads(_stagecut.names())
    lines = [HEADER]
    for name, schema in names["problem"].items():
        lines.append(f"    {name}: {annotation(schema, names['$defs'])}\n")
        words = textwrap.wrap(schema.get("description", ""), 110)
        lines.append('    """' + "\n    ".join(words) + '"""\n')
    return "".join(lines)


if __name__ == "__main__":
    pathlib.Path(__file__).with_name("stagecut").joinpath("_options.py").write_text(text(), encoding="utf-8")

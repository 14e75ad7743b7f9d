"""tools/trace_torch.py: a trace that it makes is an instance whose layers are the modules, in order, with both passes."""

import json
import pathlib
import tempfile
import unittest

import common

TRACER = common.ROOT / "tools" / "trace_torch.py"
MODEL = """
import torch
from torch import nn


def build():
    inside = nn.Sequential(nn.Linear(32, 64), nn.GELU())
    return nn.Sequential(inside, nn.Linear(64, 16)), torch.randn(8, 32)
"""


class Traces(unittest.TestCase):
    def traced(self, *options):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            (folder / "model.py").write_text(MODEL)
            code, _, stderr = common.python(TRACER, f"{folder}/model.py:build", "--steps", "2", "-o", folder / "trace.json", *options)
            self.assertEqual(code, 0, stderr)
            return json.loads(common.stagecut("import", folder / "trace.json", "--quiet"))["network"]["layers"]

    def test_modules_are_layers(self):
        layers = self.traced()
        self.assertEqual([layer["id"] for layer in layers], ["0", "1"])
        self.assertTrue(all(layer["forward_ms"] > 0 and layer["backward_ms"] > 0 for layer in layers), layers)

    def test_depth(self):
        self.assertEqual([layer["id"] for layer in self.traced("--depth", "2")], ["0.0", "0.1", "1"])

    def test_no_such_file(self):
        code, _, stderr = common.python(TRACER, "none.py:build", "-o", "trace.json")
        self.assertEqual(code, 1)
        self.assertIn("there is no file `none.py`", stderr)


if __name__ == "__main__":
    unittest.main()

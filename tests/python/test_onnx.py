"""tools/profile_onnx.py and the ONNX export, under onnxruntime."""

import json
import pathlib
import tempfile
import unittest

import common
import onnx
import torch

PROFILER = common.ROOT / "tools" / "profile_onnx.py"


def export_onnx(model, inputs, path):
    """Writes a model as ONNX, with random running statistics, so that normalisation does something."""
    model.train()
    with torch.no_grad():
        model(*inputs)
    torch.onnx.export(model.eval(), inputs, str(path), dynamo=False)


class Onnx(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.small, cls.googlenet = cls.folder / "small.onnx", cls.folder / "googlenet.onnx"
        model, inputs = common.module(common.MODELS).branches()
        export_onnx(model, tuple(inputs.values()), cls.small)
        from torchvision.models import googlenet

        torch.manual_seed(1)
        export_onnx(
            googlenet(weights=None, aux_logits=False, init_weights=False), (torch.randn(2, 3, 64, 64),), cls.googlenet
        )

    def profile(self, model, *more):
        file = self.folder / "instance.json"
        code, _, errors = common.python(
            PROFILER, model, "--warmup", 1, "--repeats", 3, "--threads", 1, "-o", file, *more
        )
        self.assertEqual(code, 0, errors)
        return file

    def test_layers_and_tensors_are_those_of_the_importer(self):
        for model in (common.ROOT / "instances" / "googlenet.onnx", self.googlenet):
            ours = json.loads(self.profile(model).read_text())["network"]
            theirs = json.loads(common.stagecut("import", model))["network"]
            ids = [[layer["id"] for layer in network["layers"]] for network in (ours, theirs)]
            self.assertEqual(*ids)
            tensors = [
                sorted((tensor["producer"], tensor["consumers"], tensor["bytes"]) for tensor in network["tensors"])
                for network in (ours, theirs)
            ]
            self.assertEqual(*tensors)
            self.assertTrue(all(layer["times"]["cpu"]["forward_ms"] >= 0 for layer in ours["layers"]))

    def test_random_plans_compute_the_same(self):
        export = common.module(common.TEMPLATES / "onnx.py")
        instance = json.loads(self.profile(self.small).read_text())
        for seed in range(10):
            export.PLAN = common.plan_literal(common.random_stages(instance, 2 + seed % 4, seed), "inference")
            stages = export.split(self.small, self.folder / f"stages-{seed}")
            self.assertEqual(export.check(self.small, stages), 0.0, f"seed {seed}")

    def test_googlenet_in_four_planned_stages(self):
        plan = json.loads(common.solved(self.profile(self.googlenet), 4, self.folder / "plan.json").read_text())
        stages = [stage["forward"] for stage in plan["stages"]]
        script = common.filled("onnx.py", common.plan_literal(stages, "inference"), self.folder / "split.py")
        output = self.folder / "stages"
        code, text, errors = common.python(script, self.googlenet, "--output", output, "--check")
        self.assertEqual(code, 0, errors)
        self.assertIn("largest relative difference to the whole model: 0", text)
        files = sorted(output.glob("stage-*.onnx"))
        self.assertEqual(len(files), 4)
        # Every weight is in one file.
        weights = [weight.name for file in files for weight in onnx.load(file).graph.initializer]
        self.assertEqual(len(weights), len(set(weights)))

    def test_the_command_writes_the_script(self):
        instance = self.profile(self.small)
        plan = common.solved(instance, 3, self.folder / "small-plan.json")
        script = self.folder / "small-split.py"
        common.stagecut("export", instance, plan, "--to", "onnx", "-o", script)
        code, text, errors = common.python(script, self.small, "--output", self.folder / "small-stages", "--check")
        self.assertEqual(code, 0, errors)
        self.assertIn("largest relative difference to the whole model: 0", text)

    def test_faults_are_one_line(self):
        text = self.folder / "text.onnx"
        text.write_text("no protobuf")
        cases = {
            ("missing.onnx",): "there is no file `missing.onnx`",
            (text,): "is no ONNX model",
            (self.small, "--provider", "Nothing"): "onnxruntime has no provider `Nothing` here",
        }
        for arguments, words in cases.items():
            code, _, errors = common.python(PROFILER, *arguments)
            self.assertEqual(code, 1)
            self.assertIn(words, errors)
            self.assertNotIn("Traceback", errors)
        script = common.filled("onnx.py", common.plan_literal([["nothing"]]), self.folder / "wrong.py")
        code, _, errors = common.python(script, self.small)
        self.assertEqual(code, 1)
        self.assertIn("the model has no node `nothing`", errors)


if __name__ == "__main__":
    unittest.main()

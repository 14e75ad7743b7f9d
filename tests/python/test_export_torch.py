"""The torch export: stages compute what the whole model computes, one after the other and under torch's own schedules."""

import json
import pathlib
import re
import tempfile
import unittest

import common
from torch.utils._pytree import tree_leaves

PROFILER = common.ROOT / "tools" / "profile_torch.py"


class Export(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def profile(self, spec, *more):
        file = self.folder / "instance.json"
        code, _, errors = common.python(
            PROFILER, spec, "--warmup", 1, "--repeats", 1, "--threads", 1, "-o", file, *more
        )
        self.assertEqual(code, 0, errors)
        return file

    def test_random_plans_compute_the_same(self):
        export = common.exporter()
        profiler = common.module(PROFILER)
        for granularity in ("operator", "module"):
            model, inputs = common.module(common.MODELS).branches()
            layers, graph_module, _ = profiler.profile(model, inputs, common.profile_options(granularity=granularity))
            instance = profiler.instance("test", "test", "cpu", layers, graph_module, True)
            for seed in range(20):
                stages = common.random_stages(instance, 2 + seed % 5, seed)
                export.PLAN = common.plan_literal(stages)
                for training in (True, False):
                    model, inputs = common.module(common.MODELS).branches()
                    made, difference = export.check(model, inputs, training)
                    self.assertEqual(difference, 0.0, f"{granularity}, seed {seed}, training {training}: {stages}")
                    self.assertEqual(len(made), len(stages))

    def test_every_parameter_has_one_stage(self):
        export = common.exporter()
        model, inputs = common.module(common.MODELS).branches()
        names = list(export.operators(export.capture(model, inputs, True)).values())
        export.PLAN = common.plan_literal([names[:9], names[9:]])
        stages = export.split(model, inputs)
        parameters = [id(parameter) for stage in stages for parameter in stage.parameters()]
        self.assertEqual(sorted(parameters), sorted(id(parameter) for parameter in model.parameters()))

    def test_googlenet_in_four_planned_stages(self):
        instance = self.profile("torchvision:googlenet", "--batch", 1)
        plan = json.loads(common.solved(instance, 4, self.folder / "plan.json").read_text())
        stages = [stage["forward"] for stage in plan["stages"]]
        script = common.filled("torch.py", common.plan_literal(stages), self.folder / "split.py")
        code, text, errors = common.python(script, "torchvision:googlenet", "--check", "--batch", 1)
        self.assertEqual(code, 0, errors)
        self.assertEqual(len(re.findall(r"^stage \d on cpu:\d", text, re.MULTILINE)), 4, text)

    def test_the_command_writes_the_script(self):
        instance = self.profile(f"{common.MODELS}:branches")
        plan = common.solved(instance, 3, self.folder / "plan.json")
        script = self.folder / "split.py"
        common.stagecut("export", instance, plan, "--to", "torch", "-o", script)
        code, text, errors = common.python(script, f"{common.MODELS}:branches", "--check")
        self.assertEqual(code, 0, errors)
        self.assertIn("largest relative difference to the whole model: 0", text)

    def test_the_schedule_of_torch_computes_the_gradients_of_the_whole(self):
        instance = json.loads(self.profile(f"{common.MODELS}:branches").read_text())
        stages = common.random_stages(instance, 3, 5)
        self.assertEqual(len(stages), 3)
        script = common.filled("torch.py", common.plan_literal(stages), self.folder / "split.py")
        code, text, errors = common.python(
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            3,
            script,
            f"{common.MODELS}:branches",
            "--pipeline",
            "--micro-batches",
            4,
        )
        self.assertEqual(code, 0, errors)
        loss, norm = map(float, re.search(r"loss (\S+), norm of all gradients (\S+),", text).groups())
        model, inputs = common.module(common.MODELS).branches()
        whole = sum(output.square().mean() for output in tree_leaves(model(**inputs)))
        whole.backward()
        square = sum(parameter.grad.square().sum() for parameter in model.parameters())
        self.assertAlmostEqual(loss, float(whole.detach()), places=4)
        self.assertAlmostEqual(norm, float(square.sqrt()), places=4)

    def test_a_plan_of_another_model_is_refused(self):
        script = common.filled("torch.py", common.plan_literal([["0/linear"], ["9/relu"]]), self.folder / "split.py")
        code, _, errors = common.python(script, f"{common.MODELS}:chain", "--check")
        self.assertEqual(code, 1)
        self.assertIn("error: the model has no operator `9/relu`", errors)
        self.assertNotIn("Traceback", errors)

    def test_a_plan_against_the_flow_is_refused(self):
        stages = [["2/linear"], ["0/linear", "1/relu"]]
        script = common.filled("torch.py", common.plan_literal(stages), self.folder / "split.py")
        code, _, errors = common.python(script, f"{common.MODELS}:chain")
        self.assertEqual(code, 1)
        self.assertIn("`1/relu` is planned after `2/linear`, which reads it", errors)


if __name__ == "__main__":
    unittest.main()

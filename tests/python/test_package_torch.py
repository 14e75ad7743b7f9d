"""Models of PyTorch as networks of the Python package: `make wheel` leaves it where PYTHONPATH finds it."""

import unittest

import torch

import stagecut


class Small(torch.nn.Module):
    """A convolution and two layers behind it."""

    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten())
        self.head = torch.nn.Linear(8 * 14 * 14, 10)

    def forward(self, images):
        return self.head(self.features(images))


class Models(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.model, self.inputs = Small(), torch.randn(2, 3, 16, 16)

    def check(self, network, layers):
        self.assertEqual(set(network.layers), layers)
        plan = stagecut.solve(network, stages=2, cluster={"device_kinds": [{"name": "cpu", "count": 2}]})
        self.assertEqual(plan.status, "optimal")
        self.assertTrue(plan.check())

    def test_a_module_with_its_inputs(self):
        self.model.eval()
        network = stagecut.profile(self.model, self.inputs, repeats=2, warmup=1, name="small")
        self.assertEqual(network.name, "small")
        self.assertFalse(self.model.training)
        self.check(network, {"features.0/conv2d", "features.1/relu", "head/linear"})
        self.assertGreater(sum(layer.get("parameter_bytes", 0) for layer in network.to_dict()["network"]["layers"]), 8 * 14 * 14 * 10 * 4)

    def test_a_pair_is_a_network(self):
        plan = stagecut.solve((self.model, self.inputs), stages=2, cluster={"device_kinds": [{"name": "cpu", "count": 2}]})
        self.assertEqual(plan.instance, "Small")
        self.assertIn("class", plan.export("torch"))

    def test_an_exported_program_brings_its_inputs(self):
        program = torch.export.export(self.model, (self.inputs,))
        network = stagecut.network(program)
        self.check(network, {"features.0/conv2d", "features.1/relu", "head/linear"})

    def test_a_traced_module(self):
        traced = torch.fx.symbolic_trace(self.model)
        network = stagecut.profile(traced, self.inputs, repeats=2, warmup=1)
        self.assertEqual(len(network), 3)

    def test_unknown_names_are_told_with_those_that_are_known(self):
        for name, value, known in [
            ("granularity", "bananas", "operator, module"),
            ("mode", "train", "training, inference"),
            ("clock", "gpu", "wall, cpu"),
        ]:
            with self.assertRaisesRegex(stagecut.InputError, f"{name}: found '{value}', expected one of {known}"):
                stagecut.profile(self.model, self.inputs, **{name: value})
        with self.assertRaisesRegex(stagecut.InputError, "repeats: found 0"):
            stagecut.profile(self.model, self.inputs, repeats=0)

    def test_what_is_missing_is_told(self):
        with self.assertRaisesRegex(stagecut.InputError, "example inputs"):
            stagecut.solve(self.model, stages=2)
        with self.assertRaisesRegex(stagecut.InputError, "torch.export cannot capture"):
            stagecut.profile(self.model, torch.randn(2, 5, 16, 16))


if __name__ == "__main__":
    unittest.main()

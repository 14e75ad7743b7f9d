"""tools/profile_torch.py: what it measures agrees with torch itself, and stagecut reads what it writes."""

import json
import pathlib
import tempfile
import unittest
import unittest.mock

import common
import torch
from torch.utils._pytree import tree_leaves

TOOL = common.ROOT / "tools" / "profile_torch.py"
profile_torch = common.module(TOOL)


def profiled(function, **changed):
    """Layers by name, and the instance, of a model in models.py."""
    chosen = common.profile_options(**changed)
    model, inputs = getattr(common.module(common.MODELS), function)()
    layers, graph_module, _ = profile_torch.profile(model, inputs, chosen)
    made = profile_torch.instance(function, "test", "cpu", layers, graph_module, chosen.mode == "training")
    return {layer["id"]: layer for layer in made["network"]["layers"]}, made


class Measuring(unittest.TestCase):
    def test_a_sweep_computes_the_gradients_of_the_whole(self):
        for function in ("branches", "chain", "shared"):
            for granularity in ("operator", "module"):
                model, inputs = getattr(common.module(common.MODELS), function)()
                graph_module = profile_torch.capture(model, inputs, True)
                layers = profile_torch.group(graph_module, granularity, None)
                sweep = profile_torch.Sweep(graph_module, layers, inputs, True, torch.device("cpu"))
                sweep.run(lambda: None)
                swept = {name: parameter.grad for name, parameter in model.named_parameters()}
                model.zero_grad(set_to_none=True)
                args, kwargs = profile_torch.arguments(inputs)
                outputs = tree_leaves(model(*args, **kwargs))
                torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
                for name, parameter in model.named_parameters():
                    torch.testing.assert_close(swept[name], parameter.grad, msg=f"{function}, {granularity}: {name}")

    def test_layers_that_run_again_keep_their_inputs(self):
        layers, made = profiled("chain", recompute=True, granularity="module", depth=1)
        again = {name: layer for name, layer in layers.items() if "modes" in layer}
        for layer in again.values():
            kept, full = layer["modes"]
            self.assertEqual(full["recompute"], "full")
            self.assertLess(full["stash_bytes"], kept["stash_bytes"])
            self.assertEqual(full["stash_bytes"] + full["workspace_bytes"], kept["stash_bytes"])
            self.assertEqual(
                full["work"]["backward_flops"], kept["work"]["backward_flops"] + kept["work"]["forward_flops"]
            )
            self.assertEqual(kept["stash_bytes"], layer["stash_bytes"])
        # A block keeps its hidden layer too, unless it runs again.
        layers, made = profiled("blocks", recompute=True, granularity="module", depth=1)
        self.assertTrue(all("modes" in layer for layer in layers.values()), layers)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "blocks.json"
            file.write_text(profile_torch.lines(made))
            plan = json.loads(
                common.stagecut("solve", file, "--stages", 2, "--recompute", "full", "--format", "json", "--quiet")
            )
        self.assertEqual(plan["status"], "optimal")

    def test_bytes_and_flops_of_a_chain_by_hand(self):
        layers, made = profiled("chain")
        self.assertEqual(list(layers), ["0/linear", "1/relu", "2/linear"])
        # The first layer saves its input, ReLU its result, which is also what the last layer saves.
        self.assertEqual([layer.get("stash_bytes", 0) for layer in layers.values()], [4 * 8 * 4, 4 * 16 * 4, 0])
        self.assertEqual(
            [layer.get("parameter_bytes", 0) for layer in layers.values()], [(8 * 16 + 16) * 4, 0, (32 + 2) * 4]
        )
        work = [layer["work"] for layer in layers.values()]
        self.assertEqual([w["forward_flops"] for w in work], [2 * 4 * 8 * 16, 0, 2 * 4 * 16 * 2])
        # The input of the network wants no gradient.
        self.assertEqual([w["backward_flops"] for w in work], [2 * 4 * 8 * 16, 0, 2 * 2 * 4 * 16 * 2])
        self.assertEqual(
            made["network"]["tensors"],
            [
                {"producer": "0/linear", "consumers": ["1/relu"], "bytes": 4 * 16 * 4},
                {"producer": "1/relu", "consumers": ["2/linear"], "bytes": 4 * 16 * 4},
            ],
        )

    def test_gradients_of_weights_are_a_part_of_the_backward_pass(self):
        layers, made = profiled("chain")
        work = [layer["work"] for layer in layers.values()]
        # The first layer hands no gradient on, ReLU has no parameters, and of the last one's two products one is of the weights.
        self.assertEqual([w.get("weight_flops") for w in work], [2 * 4 * 8 * 16, None, 2 * 4 * 16 * 2])
        self.assertEqual(work[0]["weight_bytes"], work[0]["backward_bytes"])
        # Read: the gradient of the result, 4 x 2 numbers, and the input, 4 x 16; written: as much as the parameters.
        self.assertEqual(work[2]["weight_bytes"], 4 * (4 * 2 + 4 * 16 + 2 * 16 + 2))
        for function, granularity in (("chain", "operator"), ("branches", "operator"), ("branches", "module")):
            layers, made = profiled(function, granularity=granularity, recompute=True)
            for name, layer in layers.items():
                for times in [layer["times"]["cpu"], *(mode["times"]["cpu"] for mode in layer.get("modes", []))]:
                    self.assertEqual("weight_ms" in times, layer.get("parameter_bytes", 0) > 0, name)
                    self.assertTrue(0 <= times.get("weight_ms", 0) <= times["backward_ms"], name)
        # Gradients of weights take time where there are many and nothing else has one.
        layers, _ = profiled("chain")
        first = layers["0/linear"]["times"]["cpu"]
        self.assertEqual(first["weight_ms"], first["backward_ms"])

    def test_a_sweep_of_inputs_hands_on_the_same_gradients(self):
        model, inputs = common.module(common.MODELS).branches()
        graph_module = profile_torch.capture(model, inputs, True)
        layers = profile_torch.group(graph_module, "operator", None)
        sweep = profile_torch.Sweep(graph_module, layers, inputs, True, torch.device("cpu"))
        handed_on = []
        for name in ("backward", "input_gradients"):
            run = getattr(profile_torch, name)

            def watched(pairs, nodes, leaves, gradients, run=run):
                run(pairs, nodes, leaves, gradients)
                handed_on.append({node: gradients[node].clone() for node in nodes if node in gradients})

            with unittest.mock.patch.object(profile_torch, name, watched):
                sweep.run(lambda: None, inputs_only=name == "input_gradients")
        half = len(handed_on) // 2
        self.assertEqual(len(handed_on), 2 * half)
        for whole, inputs_only in zip(handed_on[:half], handed_on[half:]):
            self.assertEqual(whole.keys(), inputs_only.keys())
            for node in whole:
                torch.testing.assert_close(whole[node], inputs_only[node])

    def test_the_parts_of_a_split_are_tensors_of_their_own(self):
        _, made = profiled("branches")
        parts = [tensor for tensor in made["network"]["tensors"] if tensor["producer"] == "head/linear"]
        self.assertEqual([tensor["bytes"] for tensor in parts], [2 * 4 * 4] * 3)
        self.assertEqual(sorted(len(tensor["consumers"]) for tensor in parts), [1, 1, 1])

    def test_layers_that_read_the_input_beside_others_say_so(self):
        layers, _ = profiled("residual")
        self.assertEqual([name for name, layer in layers.items() if "reads_input" in layer], ["0/add"])

    def test_constants_are_computed_once(self):
        layers, _ = profiled("branches")
        self.assertFalse([name for name in layers if "cumsum" in name or "ones" in name])

    def test_a_table_of_two_layers_has_copies(self):
        layers, _ = profiled("shared")
        own = {name: layer for name, layer in layers.items() if "shared" in layer}
        self.assertEqual(list(own), ["linear/linear", "linear/linear_1"])
        self.assertEqual({layer["shared"] for layer in own.values()}, {"linear/linear"})
        self.assertEqual([layer["shared_bytes"] for layer in own.values()], [(16 + 4) * 4] * 2)
        self.assertFalse([name for name, layer in layers.items() if "tie" in layer])
        # Of two linear layers one is there twice.
        self.assertEqual(sum(layer.get("parameter_bytes", 0) for layer in layers.values()), 3 * (16 + 4) * 4)

    def test_what_is_not_trained_is_frozen(self):
        layers, _ = profiled("partly_frozen")
        frozen = {name: layer.get("frozen", False) for name, layer in layers.items()}
        # ReLU behind the tower has nothing to hand on; behind a trained layer it has, and so has a frozen layer there.
        expected = {"0/linear": True, "1/relu": True, "2/linear": False, "3/relu": False, "4/linear": True}
        self.assertEqual(frozen, expected)
        self.assertEqual([layers[name]["times"]["cpu"]["backward_ms"] for name in ("0/linear", "1/relu")], [0, 0])
        self.assertGreater(layers["4/linear"]["times"]["cpu"]["backward_ms"], 0)
        self.assertFalse(any("frozen" in layer for layer in profiled("chain")[0].values()))

    def test_modules_are_coarser(self):
        operators, _ = profiled("branches")
        modules, _ = profiled("branches", granularity="module", depth=1)
        self.assertIn("stem.0/conv2d", modules)
        self.assertNotIn("stem.1/batch_norm", modules)
        self.assertLess(len(modules), len(operators))
        for field in ("parameter_bytes", "stash_bytes", "resident_bytes"):
            sums = [sum(layer.get(field, 0) for layer in layers.values()) for layers in (operators, modules)]
            self.assertEqual(sums[0], sums[1], field)

    def test_inference_has_no_backward_pass(self):
        layers, _ = profiled("branches", mode="inference")
        for layer in layers.values():
            self.assertNotIn("backward_ms", layer["times"]["cpu"])
            self.assertNotIn("stash_bytes", layer)

    def test_every_layer_has_times(self):
        layers, _ = profiled("branches")
        self.assertTrue(all(layer["times"]["cpu"]["forward_ms"] > 0 for layer in layers.values()))
        self.assertGreater(layers["left/conv2d"]["times"]["cpu"]["backward_ms"], 0)


class CommandLine(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def profile(self, spec, *more):
        file = self.folder / "instance.json"
        code, _, errors = common.python(TOOL, spec, "--warmup", 1, "--repeats", 1, "--threads", 1, "-o", file, *more)
        self.assertEqual(code, 0, errors)
        return file

    def test_stagecut_solves_what_it_writes(self):
        file = self.profile(f"{common.MODELS}:branches")
        layers = [layer["id"] for layer in json.loads(file.read_text())["network"]["layers"]]
        plan = json.loads(common.solved(file, 3, self.folder / "plan.json").read_text())
        self.assertEqual(plan["status"], "optimal")
        self.assertEqual(sorted(layer for stage in plan["stages"] for layer in stage["forward"]), sorted(layers))
        # Another cluster takes the work instead of the times.
        common.stagecut("solve", file, "--stages", 3, "--cluster", "a100")

    def test_a_transformer_from_its_configuration(self):
        config = {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 50, "n_positions": 32}
        (self.folder / "config.json").write_text(json.dumps(config))
        file = self.profile(f"transformers:{self.folder / 'config.json'}", "--batch", 2, "--sequence", 16)
        layers = {layer["id"]: layer for layer in json.loads(file.read_text())["network"]["layers"]}
        attention = layers["h.1.attn/scaled_dot_product_attention"]
        # Two products for each of 2 samples, 2 heads: 16 x 8 by 8 x 16.
        self.assertEqual(attention["work"]["forward_flops"], 2 * 2 * 2 * (2 * 16 * 8 * 16))

    def test_grouped_queries_compute_with_their_shared_heads(self):
        file = self.profile(f"{common.MODELS}:grouped")
        layers = {layer["operator"].split(",")[0]: layer for layer in json.loads(file.read_text())["network"]["layers"]}
        # Four heads of queries in 2 samples, whatever they share: 16 x 8 by 8 x 16, twice; backward five such products, one of them anew.
        attention = layers["scaled_dot_product_attention"]["work"]
        self.assertEqual(attention["forward_flops"], 2 * 2 * 4 * (2 * 16 * 8 * 16))
        self.assertEqual(attention["backward_flops"], 5 * 2 * 4 * (2 * 16 * 8 * 16))

    def test_faults_are_one_line(self):
        cases = {
            "nothing": "names no model",
            "torchvision:nothing": "torchvision has no model `nothing`",
            "transformers:nothing": "`nothing` is no configuration file",
            "missing.py:build": "there is no file `missing.py`",
            f"{common.MODELS}:nothing": "has no function `nothing`",
            f"{common.MODELS}:no_pair": "must return (torch.nn.Module, example inputs)",
            f"{common.MODELS}:undecided": "torch.export cannot capture the model",
        }
        for spec, words in cases.items():
            code, _, errors = common.python(TOOL, spec)
            self.assertEqual(code, 1, spec)
            self.assertIn(words, errors)
            self.assertNotIn("Traceback", errors)
        cases = {
            ("--device", "nothing"): "torch cannot use the device `nothing`",
            ("--depth", 2): "--depth goes with --granularity module",
            ("--clock", "cpu"): "--clock cpu goes with --device cpu and --threads 1",
        }
        for arguments, words in cases.items():
            code, _, errors = common.python(TOOL, f"{common.MODELS}:chain", *arguments)
            self.assertEqual(code, 1)
            self.assertIn(words, errors)

    def test_help_has_examples(self):
        code, text, _ = common.python(TOOL, "--help")
        self.assertEqual(code, 0)
        self.assertIn("python tools/profile_torch.py torchvision:googlenet -o googlenet.json", text)


if __name__ == "__main__":
    unittest.main()

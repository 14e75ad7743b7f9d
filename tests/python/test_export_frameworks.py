"""The DeepSpeed and Megatron exports, under DeepSpeed and under Megatron's own parser of layouts."""

import json
import os
import pathlib
import shlex
import tempfile
import unittest
import warnings

import common

PROFILER = common.ROOT / "tools" / "profile_torch.py"


class Frameworks(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def residual(self):
        """The profile of six residual blocks, with times that put the best cuts between blocks."""
        file = self.folder / "instance.json"
        spec = f"{common.MODELS}:residual"
        code, _, errors = common.python(PROFILER, spec, "--warmup", 1, "--repeats", 1, "--threads", 1, "-o", file)
        self.assertEqual(code, 0, errors)
        instance = json.loads(file.read_text())
        for layer in instance["network"]["layers"]:
            milliseconds = 1.0 if layer["id"].endswith("/linear") else 0.01
            layer["times"] = {"cpu": {"forward_ms": milliseconds, "backward_ms": milliseconds}}
        file.write_text(json.dumps(instance))
        return file

    def test_deepspeed_trains_the_planned_stages(self):
        instance = self.residual()
        plan = common.solved(instance, 3, self.folder / "plan.json")
        partition = self.folder / "partition.py"
        common.stagecut("export", instance, plan, "--to", "deepspeed", "-o", partition)
        os.environ["DS_ACCELERATOR"] = "cpu"
        self.addCleanup(os.environ.pop, "DS_ACCELERATOR")
        code, text, errors = common.python(
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            3,
            pathlib.Path(__file__).with_name("train_deepspeed.py"),
            partition,
            "residual",
        )
        self.assertEqual(code, 0, errors)
        (line,) = [line for line in text.splitlines() if line.startswith("RESULT ")]
        result = json.loads(line.removeprefix("RESULT "))
        # A module is a block, the first as well, whose last layer reads the model's input; every rank built those of its stage.
        self.assertEqual(result["modules"], [[0, 1], [2, 3], [4, 5]])
        stages = json.loads(plan.read_text())["stages"]
        modules = common.plan_in(partition)["modules"]
        built = [sorted(sum((modules[i] for i in own), [])) for own in result["modules"]]
        self.assertEqual(built, [sorted(stage["forward"]) for stage in stages])
        # The second loss is that of weights which both trained with the gradients of the first.
        self.assertNotAlmostEqual(result["whole"][0], result["whole"][1], places=3)
        for planned, whole in zip(result["planned"], result["whole"], strict=True):
            self.assertAlmostEqual(planned, whole, places=6)

    def test_megatron_reads_the_layout(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from megatron.core.transformer.enums import LayerType
            from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
        instance = self.folder / "net.json"
        options = ("--preset", "gpt2", "--granularity", "block", "--output", instance)
        common.stagecut("generate", "transformer", *options)
        for count in (2, 3, 4, 6):
            plan = common.solved(instance, count, self.folder / "plan.json")
            flags = common.stagecut("export", instance, plan, "--to", "megatron")
            words = shlex.split(flags)
            values = dict(zip(words[::2], words[1::2]))
            layers, size = (int(values[f"--{name}"]) for name in ("num-layers", "pipeline-model-parallel-size"))
            self.assertEqual((layers, size), (12, count))
            layout = PipelineParallelLayerLayout(values["--pipeline-model-parallel-layout"], size)
            layout.validate_layer_layout(layers, 0)
            stages = json.loads(plan.read_text())["stages"]
            for rank, stage in enumerate(stages):
                start = layout.get_layer_offset(LayerType.decoder, 0, rank)
                length = layout.get_num_layers_to_build(LayerType.decoder, 0, rank)
                blocks = sorted((name for name in stage["forward"] if name[1:].isdigit()), key=lambda name: int(name[1:]))
                self.assertEqual(blocks, [f"b{i}" for i in range(start, start + length)], flags)

    def test_megatron_runs_the_interleaved_order_itself(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from megatron.core.pipeline_parallel.schedules import get_pp_rank_microbatches, get_schedule_table
            from megatron.core.transformer.enums import LayerType
            from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
        instance, plan, order = (self.folder / name for name in ("net.json", "plan.json", "order.csv"))
        options = ("--preset", "gpt2", "--granularity", "block", "--output", instance)
        common.stagecut("generate", "transformer", *options)
        for devices, chunks, micro_batches in ((2, 2, 2), (2, 3, 6), (4, 2, 8)):
            common.solved(instance, devices * chunks, plan)
            asked = ("--devices", devices, "--micro-batches", micro_batches, "--rule", "interleaved")
            common.stagecut("schedule", plan, *asked, "--output", order)
            flags = shlex.split(common.stagecut("export", instance, plan, "--to", "megatron", "--order", order))
            values = dict(zip(flags[::2], flags[1::2]))
            self.assertEqual(values["--pipeline-model-parallel-size"], str(devices))
            layout = PipelineParallelLayerLayout(values["--pipeline-model-parallel-layout"], devices)
            stages = json.loads(plan.read_text())["stages"]
            table = get_schedule_table(micro_batches, chunks, devices)
            for rank, line in enumerate(order.read_text().splitlines()):
                own = [stages[chunk * devices + rank]["forward"] for chunk in range(chunks)]
                counts = [layout.layout[rank][chunk].count(LayerType.decoder) for chunk in range(chunks)]
                self.assertEqual(counts, [sum(name[1:].isdigit() for name in names) for names in own])
                asks = Rank(devices, rank, chunks)
                total, _, ahead, left = get_pp_rank_microbatches(micro_batches, chunks, devices, p2p_communicator=asks)
                forward = [f"{chunk * devices + rank}F{number}" for number, chunk in table]
                backward = [f"{(chunks - 1 - chunk) * devices + rank}B{number}" for number, chunk in table]
                # As `forward_backward_pipelining_with_interleaving` goes through its table.
                turns = sum(zip(forward[ahead:], backward[:left], strict=True), ())
                self.assertEqual(line.split(","), [*forward[:ahead], *turns, *backward[left:total]])


class Rank:
    """What Megatron asks its communicator."""

    def __init__(self, size, rank, chunks):
        self.pp_group = self
        self.size, self.rank = (lambda: size), (lambda: rank)
        self.virtual_pipeline_model_parallel_size = chunks


if __name__ == "__main__":
    unittest.main()

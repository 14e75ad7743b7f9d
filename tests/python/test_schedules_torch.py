"""Exported orders under torch.distributed.pipelining: published rules and orders that `stagecut schedule` found, on four processes.
Losses and gradients are those of the unsplit model."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import common

PROFILER = common.ROOT / "tools" / "profile_torch.py"
DEVICES, MICRO_BATCHES = 4, 8
# Doubles differ in their last digits, since gradients are added in another order.
TOLERANCE = 1e-10
# The fourteen below take half of a minute on two cores, and a hang takes for ever.
SECONDS = 180
# Stages, how they lie, whether their times are even, and the rule or `best`; with the two gradients apart where it says so.
CASES = [
    (4, "loop", True, "gpipe"),
    (4, "loop", False, "1f1b"),
    (4, "loop", True, "zb-h1"),
    (4, "loop", False, "zb-h2"),
    (4, "loop", False, "best"),
    (4, "loop", False, "best split"),
    (8, "loop", True, "gpipe"),
    (8, "loop", True, "interleaved"),
    (12, "loop", False, "interleaved"),
    (8, "loop", False, "best"),
    (8, "loop", True, "best split"),
    (8, "v", True, "zb-v"),
    (8, "v", False, "v-half"),
    (8, "v", False, "best split"),
]
WHOLE = ("gpipe", "1f1b", "interleaved", "best")


class Orders(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def instance(self, is_even):
        """The tower's operators, all of which take as long or each as long as chance says."""
        profiler = common.module(PROFILER)
        model, inputs = common.module(common.MODELS).tower()
        layers, graph_module, _ = profiler.profile(model, inputs, common.profile_options())
        instance = profiler.instance("tower", "test", "cpu", layers, graph_module, True)
        chance = random.Random(3)
        for layer in instance["network"]["layers"]:
            forward = 1.0 if is_even else chance.uniform(0.5, 4.0)
            layer["times"] = {"cpu": {"forward_ms": forward, "backward_ms": 2 * forward}}
        for kind in instance["cluster"]["device_kinds"]:
            kind["count"] = 12
        file = self.folder / f"{'even' if is_even else 'uneven'}.json"
        file.write_text(json.dumps(instance))
        return file

    def exported(self, instance, case):
        """The script of one case, and its order."""
        stages, placement, is_even, rule = case
        name = f"{rule}-{stages}-{placement}-{'even' if is_even else 'uneven'}".replace(" ", "-")
        plan, order, script = (self.folder / f"{name}.{kind}" for kind in ("json", "csv", "py"))
        if not (plan := self.folder / f"plan-{stages}-{is_even}.json").exists():
            common.solved(instance, stages, plan)
        asked = ["--rule", rule] if not rule.startswith("best") else ["--time-limit", 2]
        split = [] if rule in WHOLE else ["--weight-share", 0.5]
        placed = ["--devices", DEVICES, "--placement", placement, "--micro-batches", MICRO_BATCHES]
        common.stagecut("schedule", plan, "--instance", instance, *placed, *split, *asked, "--output", order)
        common.stagecut("export", instance, plan, "--to", "torch", "--order", order, "--output", script)
        letters = set(re.findall("[A-Z]", order.read_text()))
        self.assertEqual(letters, set("FB") if rule in WHOLE else set("FIW"), name)
        return script

    def run_all(self, scripts):
        """Results of every rank by case. A group that hangs is killed, and where its ranks are is said."""
        worker = pathlib.Path(__file__).with_name("run_orders.py")
        launch = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
        command = [*launch, "--nproc-per-node", DEVICES, worker, self.folder, "tower", *scripts]
        with subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as group:
            try:
                text, _ = group.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(group.pid, signal.SIGKILL)
                at = {file.name: file.read_text() for file in sorted(self.folder.glob("rank-*.at"))}
                self.fail(f"killed after {SECONDS} s; ranks were at {at}: {group.communicate()[0][-2000:]}")
        self.assertEqual(group.returncode, 0, text[-4000:])
        files = [self.folder / f"rank-{rank}.json" for rank in range(DEVICES)]
        ranks = [json.loads(file.read_text()) for file in files]
        return {script.stem: [rank[script.stem] for rank in ranks] for script in scripts}

    def test_gradients_are_those_of_the_unsplit_model(self):
        instances = {is_even: self.instance(is_even) for is_even in (True, False)}
        scripts = [self.exported(instances[case[2]], case) for case in CASES]
        self.assertEqual(len(set(scripts)), len(CASES))
        for (name, ranks), case in zip(self.run_all(scripts).items(), CASES, strict=True):
            stages, placement = case[:2]
            with self.subTest(name):
                of_rank = [[s for s in range(stages) if device_of(s, placement) == rank] for rank in range(DEVICES)]
                self.assertEqual([rank["stages"] for rank in ranks], of_rank)
                learned = sorted(name for rank in ranks for name in rank["parameters"])
                self.assertEqual(learned, ranks[0]["all"])
                self.assertGreater(ranks[0]["largest"], 0.01)
                self.assertLessEqual(max(rank["gradients"] for rank in ranks), TOLERANCE)
                (losses,) = [rank["losses"] for rank in ranks if rank["losses"] is not None]
                self.assertLessEqual(losses, TOLERANCE)

    def test_a_deadlock_and_a_foreign_order_are_refused_before_anything_is_written(self):
        instance = self.instance(True)
        plan = common.solved(instance, 2, self.folder / "plan.json")
        for order, expected in [
            ("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "found a deadlock (device 0 waits with `0B0` for `1B0` of device 1"),
            ("0F0,0B0\n1F0,1B0\n2F0,2B0\n", "found an order of 3 chunks, expected 2"),
        ]:
            file, script = self.folder / "order.csv", self.folder / "never.py"
            file.write_text(order)
            with self.assertRaises(AssertionError) as refused:
                common.stagecut("export", instance, plan, "--to", "torch", "--order", file, "--output", script)
            self.assertIn(expected, " ".join(str(refused.exception).replace("│", " ").split()))
            self.assertFalse(script.exists())

    def test_what_torch_cannot_run_is_refused_and_nothing_else(self):
        """Random changes of an order: torch's own check and its own placing of sends and receives say whether it can be run."""
        from torch.distributed.pipelining import schedules

        file, chance = self.folder / "order.csv", random.Random(5)
        # Two chunks on each of two devices, in a V.
        even = ["--devices", 2, "--placement", "v", "--forward", 1, "--backward", 1, "--weight", 1]
        accepted = 0
        for trial in range(80):
            rule = chance.choice(["zb-v", "gpipe", "v-half"])
            common.stagecut("schedule", *even, "--rule", rule, "--micro-batches", 3, "--output", file)
            lines = [line.split(",") for line in file.read_text().splitlines()]
            for _ in range(chance.randrange(6)):
                line = chance.choice(lines)
                at = chance.randrange(len(line) - 1)
                to = min(len(line) - 1, at + chance.randrange(1, 4))
                line[at], line[to] = line[to], line[at]
            if trial % 10 == 0:
                chance.choice(lines).pop()
            file.write_text("".join(",".join(line) + "\n" for line in lines))
            done = subprocess.run(
                list(map(str, [common.STAGECUT, "schedule", *even, "--order", file, "--micro-batches", 3])),
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertIn(done.returncode, (0, 2), done.stderr)
            actions = {rank: list(map(schedules._Action.from_str, line)) for rank, line in enumerate(lines)}
            try:
                rank_of = schedules._validate_schedule(actions, 2, 4, 3)
                schedules._add_send_recv(actions, rank_of.__getitem__, 4)
                runs = True
            except AssertionError:
                runs = False
            self.assertEqual(done.returncode == 0, runs, f"trial {trial}: {lines} {done.stderr}")
            accepted += runs
        self.assertGreater(accepted, 10)
        self.assertLess(accepted, 70)


def device_of(stage, placement):
    """The device of a stage where they lie in a loop, or in a V."""
    round_, at = divmod(stage, DEVICES)
    return DEVICES - 1 - at if placement == "v" and round_ % 2 else at


if __name__ == "__main__":
    unittest.main()

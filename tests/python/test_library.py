"""The measured library agrees with published figures of its networks, and every file solves to proof."""

import json
import math
import re
import unittest

import common

MEASURED = common.ROOT / "instances" / "measured"

# Parameters, and billions of multiply-adds for one image where torchvision's documentation states them. GoogLeNet and
# Inception are counted without their auxiliary classifiers, BERT and GPT-2 without a head.
PUBLISHED = {
    "alexnet": (61_100_840, 0.71),
    "vgg16": (138_357_544, 15.47),
    "vgg19": (143_667_240, 19.63),
    "googlenet": (6_624_904, 1.5),
    "resnet50": (25_557_032, 4.09),
    "resnet101": (44_549_160, 7.8),
    "densenet121": (7_978_856, 2.83),
    "inception-v3": (23_834_568, 5.71),
    "mobilenet-v3-large": (5_483_032, 0.22),
    "efficientnet-b0": (5_288_548, 0.39),
    "vit-b-16": (86_567_656, 17.56),
    "bert-base": (109_482_240, None),
    "bert-large": (335_141_888, None),
    "gpt2": (124_439_808, None),
}


class Library(unittest.TestCase):
    def test_the_library_is_complete(self):
        self.assertEqual(sorted(file.stem for file in MEASURED.glob("*.json")), sorted(PUBLISHED))

    def test_figures_are_the_published_ones(self):
        for name, (parameters, giga_multiply_adds) in PUBLISHED.items():
            instance = json.loads((MEASURED / f"{name}.json").read_text())
            layers = instance["network"]["layers"]
            self.assertEqual(sum(layer.get("parameter_bytes", 0) for layer in layers), 4 * parameters, name)
            self.assertLess(len(layers), 500, name)
            if giga_multiply_adds:
                batch = int(re.search(r"input (\d+)x", instance["provenance"]).group(1))
                flops = sum(layer["work"]["forward_flops"] for layer in layers) / batch
                # The documentation rounds to two or three digits.
                self.assertLess(abs(flops / 2e9 - giga_multiply_adds), 0.01 + 0.005 * giga_multiply_adds, name)

    def test_layers_sum_to_about_the_whole(self):
        for name in PUBLISHED:
            text = json.loads((MEASURED / f"{name}.json").read_text())["provenance"]
            total, whole = map(
                float, re.search(r"sum to ([\d.]+) ms, the model as a whole takes ([\d.]+) ms", text).groups()
            )
            # Layers that are timed alone pay for each start; small layers most.
            self.assertLess(abs(math.log(total / whole)), math.log(1.25), name)

    def test_every_network_solves_on_its_cpu_and_as_a_roofline(self):
        for name in PUBLISHED:
            for cluster in ([], ["--cluster", "a100"]):
                file = MEASURED / f"{name}.json"
                text = common.stagecut("solve", file, "--stages", 4, "--format", "json", *cluster)
                self.assertEqual(json.loads(text)["status"], "optimal", f"{name} {cluster}")


if __name__ == "__main__":
    unittest.main()

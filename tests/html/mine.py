"""A method from outside, for the colours of the page: half of the layers each, whatever that costs."""

import json
import sys

layers = [layer["id"] for layer in json.load(sys.stdin)["instance"]["network"]["layers"]]
json.dump([layers[: len(layers) // 2], layers[len(layers) // 2 :]], sys.stdout)

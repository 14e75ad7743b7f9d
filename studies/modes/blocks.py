"""A network in blocks: runs of layers between places where a single tensor crosses, each of which takes some part of the time.

What is kept inside a block can be computed again from the one tensor that enters it (T. Chen et al., 2016).
"""
import json
import subprocess

from common import STAGECUT

# A block takes at least one part in so many of the time of the network, but for the last one.
PARTS = 32


def blocks(file):
    """The instance of blocks, without modes: `--recompute` may choose inputs in place of stashes."""
    command = [STAGECUT, "import", file, "--quiet"]
    instance = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    network = instance["network"]
    layers, tensors = network["layers"], network.get("tensors", [])
    order = topological(layers, tensors)
    place = {name: at for at, name in enumerate(order)}
    by_name = {layer["id"]: layer for layer in layers}
    ends = [0] * (len(order) + 1)
    for tensor in tensors:
        first, last = place[tensor["producer"]], max(place[to] for to in tensor["consumers"])
        ends[first + 1] += 1
        ends[last + 1] -= 1
    crossing, crossings = 0, []
    for change in ends:
        crossing += change
        crossings.append(crossing)
    total = sum(sum(times(layer)) for layer in layers)
    groups, group = [], []
    for at, name in enumerate(order):
        group.append(by_name[name])
        is_large = PARTS * sum(sum(times(layer)) for layer in group) >= total
        if (crossings[at + 1] == 1 and is_large) or at + 1 == len(order):
            groups.append(group)
            group = []
    block_of = {layer["id"]: at for at, group in enumerate(groups) for layer in group}
    network["layers"] = [block(at, group) for at, group in enumerate(groups)]
    network["tensors"] = []
    for tensor in tensors:
        home = block_of[tensor["producer"]]
        away = sorted({block_of[to] for to in tensor["consumers"]} - {home})
        if away:
            network["tensors"].append({**tensor, "producer": f"block.{home}", "consumers": [f"block.{to}" for to in away]})
    return instance


def topological(layers, tensors):
    """Layers in the order of the file where that may be, each before what reads it."""
    before = {layer["id"]: 0 for layer in layers}
    readers = {layer["id"]: set() for layer in layers}
    for tensor in tensors:
        readers[tensor["producer"]].update(tensor["consumers"])
    for names in readers.values():
        for name in names:
            before[name] += 1
    order, ready = [], [layer["id"] for layer in reversed(layers) if before[layer["id"]] == 0]
    while ready:
        name = ready.pop()
        order.append(name)
        for reader in sorted(readers[name], reverse=True):
            before[reader] -= 1
            if before[reader] == 0:
                ready.append(reader)
    return order


def times(layer):
    """Forward and backward ms of a layer that was measured on one kind of device."""
    of = next(iter(layer["times"].values())) if layer.get("times") else layer
    return of.get("forward_ms", 0), of.get("backward_ms", 0)


def block(at, group):
    forward, backward = (sum(times(layer)[phase] for layer in group) for phase in (0, 1))
    total = lambda field: sum(layer.get(field, 0) for layer in group)
    return {"id": f"block.{at}", "forward_ms": forward, "backward_ms": backward,
            "parameter_bytes": total("parameter_bytes"), "stash_bytes": total("stash_bytes"), "resident_bytes": total("resident_bytes")}

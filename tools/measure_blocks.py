#!/usr/bin/env python3
"""Measures blocks of published transformers and steps of decoding on a GPU, to hold rooflines against. Needs torch 2.6 or newer with CUDA.

    python tools/measure_blocks.py -o blocks.json

Numbers of 16 bits, random weights: nothing is fetched. `docs/rooflines.md` holds what an H200 measured against the peaks.

machine   Bytes a second of a copy (read and written) and of a sum of 4 GiB, FLOP/s of a product of two 8192 x 8192 matrices.
decode    One token for every sequence of a batch, with keys and values of `context` tokens in a static cache, as one CUDA graph: without it
          launches decide. Whole models of 7 and 8 billion parameters, with embedding and head; 8 of the 80 blocks of 70 billion.
iteration M micro-batches through blocks forward and backward, then the step of AdamW (fused, states of 16 bits) and gradients set to zero: what a
          training iteration of one device takes, and the step in it by itself.
train     Blocks with gradients that accumulate, as over the micro-batches of an iteration: forward, and forward with backward; with
          `recompute`, each block is run again from its input (torch.utils.checkpoint). `stash_bytes` is what the forward pass leaves in memory
          beside its result.

Times are medians of CUDA events, with the least and the most.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

# width, MLP width, heads, heads of keys and values, gated MLP, blocks of the model, vocabulary
MODELS = {
    "llama2-7b": (4096, 11008, 32, 32, True, 32, 32000),
    "llama3-8b": (4096, 14336, 32, 8, True, 32, 128256),
    "llama3-70b": (8192, 28672, 64, 8, True, 80, 128256),
    "gpt3-175b": (12288, 49152, 96, 96, False, 96, 50257),
}
DECODE = [("llama2-7b", 32, True), ("llama3-8b", 32, True), ("llama3-70b", 8, False)]
ITERATIONS = [("llama3-8b", 4, 4096, 1), ("llama3-8b", 4, 4096, 2), ("llama3-70b", 2, 4096, 1)]
TRAIN = [("llama2-7b", 4, 4096), ("llama3-8b", 4, 4096), ("llama3-8b", 4, 8192), ("llama3-70b", 2, 4096), ("gpt3-175b", 1, 2048)]
NUMBER = torch.bfloat16


class Block(nn.Module):
    """Attention and MLP behind normalisations, each added to what came in."""

    def __init__(self, width, hidden, heads, key_heads, gated):
        super().__init__()
        self.sizes = [heads * (width // heads), key_heads * (width // heads), key_heads * (width // heads)]
        self.heads = [heads, key_heads, key_heads]
        self.gated = gated
        normalisation = nn.RMSNorm if gated else nn.LayerNorm
        self.before_attention, self.before_mlp = normalisation(width), normalisation(width)
        self.read = nn.Linear(width, sum(self.sizes), bias=not gated)
        self.write = nn.Linear(width, width, bias=not gated)
        self.up = nn.Linear(width, hidden * (2 if gated else 1), bias=not gated)
        self.down = nn.Linear(hidden, width, bias=not gated)

    def forward(self, x, cache=None):
        batch, tokens, _ = x.shape
        parts = self.read(self.before_attention(x)).split(self.sizes, -1)
        query, key, value = (part.view(batch, tokens, heads, -1).transpose(1, 2) for part, heads in zip(parts, self.heads))
        if cache is not None:
            cache[0][:, :, -1:], cache[1][:, :, -1:] = key, value
            key, value = cache
        grouped = self.heads[0] != self.heads[1]
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=cache is None, enable_gqa=grouped)
        x = x + self.write(seen.transpose(1, 2).reshape(batch, tokens, -1))
        up = self.up(self.before_mlp(x))
        if self.gated:
            gate, up = up.chunk(2, -1)
            return x + self.down(functional.silu(gate) * up)
        return x + self.down(functional.gelu(up))


def blocks_of(name, count):
    with torch.device("cuda"):
        return nn.ModuleList(Block(*MODELS[name][:5]) for _ in range(count)).to(NUMBER)


def numbers(*modules):
    return sum(parameter.numel() for module in modules for parameter in module.parameters())


def timed(run, repeats=15, warmup=4):
    times = []
    for repeat in range(-warmup, repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        if repeat >= 0:
            times.append(begin.elapsed_time(end))
    return {"median_ms": statistics.median(times), "least_ms": min(times), "most_ms": max(times)}


def machine():
    source = torch.zeros(1 << 30, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    copy, read = timed(lambda: target.copy_(source)), timed(lambda: source.sum())
    left, right = (torch.randn(8192, 8192, device="cuda", dtype=NUMBER) for _ in range(2))
    product = timed(lambda: left @ right)
    size = source.numel() * source.element_size()
    return {
        "copy_bytes_per_s": 2e3 * size / copy["median_ms"],
        "read_bytes_per_s": 1e3 * size / read["median_ms"],
        "matmul_flop_per_s": 2e3 * 8192**3 / product["median_ms"],
    }


@torch.no_grad()
def decode(name, count, is_whole, batch, context):
    width, _, heads, key_heads, _, _, vocabulary = MODELS[name]
    blocks = blocks_of(name, count)
    embedding = nn.Embedding(vocabulary, width, device="cuda", dtype=NUMBER)
    head = nn.Linear(width, vocabulary, bias=False, device="cuda", dtype=NUMBER)
    shape = (batch, key_heads, context, width // heads)
    caches = [[torch.randn(shape, device="cuda", dtype=NUMBER) for _ in range(2)] for _ in blocks]
    tokens = torch.zeros(batch, 1, dtype=torch.long, device="cuda")

    def step():
        x = embedding(tokens)
        for block, cache in zip(blocks, caches):
            x = block(x, cache)
        return head(x).argmax(-1) if is_whole else x

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    time = timed(graph.replay, 30, 5)
    return {
        "model": name,
        "blocks": count,
        "head": is_whole,
        "batch": batch,
        "context": context,
        "weight_bytes": 2 * numbers(blocks, *([head] if is_whole else [])),
        "cache_bytes": 2 * 2 * count * batch * key_heads * context * (width // heads),
        "tokens_per_s": 1e3 * batch / time["median_ms"],
        **time,
    }


def train(name, count, sequence, micro_batch, recompute):
    blocks = blocks_of(name, count)
    for parameter in blocks.parameters():
        parameter.grad = torch.zeros_like(parameter)
    x = torch.randn(micro_batch, sequence, MODELS[name][0], device="cuda", dtype=NUMBER, requires_grad=True)

    def forward():
        y = x
        for block in blocks:
            y = checkpoint(block, y, use_reentrant=False) if recompute else block(y)
        return y

    before = torch.cuda.memory_allocated()
    y = forward()
    stash = torch.cuda.memory_allocated() - before - y.numel() * y.element_size()
    gradient = torch.randn_like(y)
    y.backward(gradient)
    del y
    return {
        "model": name,
        "blocks": count,
        "sequence": sequence,
        "micro_batch": micro_batch,
        "recompute": recompute,
        "parameters": numbers(blocks),
        "stash_bytes": stash,
        "forward": timed(forward, 10, 3),
        "forward_backward": timed(lambda: forward().backward(gradient), 10, 3),
    }


def iteration(name, count, sequence, micro_batch, micro_batches):
    blocks = blocks_of(name, count)
    optimizer = torch.optim.AdamW(blocks.parameters(), fused=True)
    x = torch.randn(micro_batch, sequence, MODELS[name][0], device="cuda", dtype=NUMBER, requires_grad=True)
    gradient = torch.randn_like(x)

    def step():
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    def run():
        for _ in range(micro_batches):
            y = x
            for block in blocks:
                y = block(y)
            y.backward(gradient)
        step()

    run()
    return {
        "model": name,
        "blocks": count,
        "sequence": sequence,
        "micro_batch": micro_batch,
        "micro_batches": micro_batches,
        "parameters": numbers(blocks),
        "step": timed(step, 10, 3),
        "iteration": timed(run, 10, 3),
    }


def attempt(rows, measure, *asked):
    """A row, or none where the memory is too small."""
    try:
        rows.append(measure(*asked))
        print(rows[-1], file=sys.stderr, flush=True)
    except torch.cuda.OutOfMemoryError:
        print(f"{measure.__name__}{asked}: out of memory", file=sys.stderr)
    torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the measurements [default: stdout]")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("error: torch sees no CUDA device")
    torch.manual_seed(0)
    found = {
        "provenance": f"tools/measure_blocks.py on {datetime.date.today()}, {torch.cuda.get_device_name()}, torch {torch.__version__}, bf16",
        **machine(),
        "decode": [],
        "train": [],
        "iteration": [],
    }
    for batch, context in ((1, 512), (1, 4096), (8, 512), (8, 4096), (32, 512)):
        for case in DECODE:
            attempt(found["decode"], decode, *case, batch, context)
    for case in TRAIN:
        for micro_batch in (1, 2, 4, 8):
            for recompute in (False, True):
                attempt(found["train"], train, *case, micro_batch, recompute)
    for case in ITERATIONS:
        for micro_batches in (1, 2, 4, 8, 16):
            attempt(found["iteration"], iteration, *case, micro_batches)
    text = json.dumps(found, indent=1) + "\n"
    if options.output:
        options.output.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()

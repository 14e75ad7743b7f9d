"""Llama-3 8B's embedding, some of its blocks and its head in 16 bits, for tools/profile_torch.py on a GPU.

    python tools/profile_torch.py tools/llama_blocks.py:blocks_8_sequences_1 --device cuda --granularity module --depth 2 --recompute -o llama.json

Sequences of 4,096 tokens; random weights, nothing is fetched. `blocks_B_sequences_S` has B blocks and micro-batches of S sequences.
"""

import pathlib
import re
import sys

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from measure_blocks import MODELS, NUMBER, Block  # noqa: E402

SEQUENCE = 4096


class Model(nn.Module):
    def __init__(self, shape, count, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, shape[0])
        self.blocks = nn.ModuleList(Block(*shape) for _ in range(count))
        self.head = nn.Sequential(nn.RMSNorm(shape[0]), nn.Linear(shape[0], vocabulary, bias=False))

    def forward(self, input_ids):
        x = self.embedding(input_ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def __getattr__(name):
    found = re.fullmatch(r"blocks_(\d+)_sequences_(\d+)", name)
    if not found:
        raise AttributeError(name)
    count, sequences = map(int, found.groups())
    *shape, _, vocabulary = MODELS["llama3-8b"]

    def build():
        model = Model(shape, count, vocabulary).to(NUMBER)
        return model, {"input_ids": torch.randint(vocabulary, (sequences, SEQUENCE))}

    return build

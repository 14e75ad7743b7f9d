"""Small models for the tests; each function returns (model, example inputs)."""

import torch
from torch import nn
from torch.nn import functional as F


class Branches(nn.Module):
    """Branches, a residual add, functional and in-place operators, a split, a constant mask and an integer input."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.left = nn.Conv2d(8, 8, 1)
        self.right = nn.Sequential(nn.Conv2d(8, 4, 1), nn.ReLU(inplace=True), nn.Conv2d(4, 8, 3, padding=1))
        self.pool = nn.AdaptiveAvgPool2d(4)
        self.head = nn.Linear(8 * 16, 12)
        self.label = nn.Embedding(5, 4)
        self.register_buffer("steps", torch.arange(4.0))

    def forward(self, image, label):
        x = self.stem(image)
        y = torch.cat([F.gelu(self.left(x)), self.right(x)], dim=1)
        first, second = y.chunk(2, dim=1)
        x = x + first * torch.sigmoid(second)
        h = self.head(torch.flatten(self.pool(x), 1))
        a, b, c = h.split(4, dim=1)
        mask = torch.ones(4).cumsum(0) * 2 - self.steps
        return {"logits": a * mask + F.silu(b + 1, inplace=True), "label": c + self.label(label)}


def branches():
    torch.manual_seed(1)
    return Branches(), {"image": torch.randn(2, 3, 8, 8), "label": torch.randint(5, (2,))}


def chain():
    """Two linear layers and a ReLU, for sums that one can do by hand."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)), torch.randn(4, 8)


def partly_frozen():
    """A frozen linear layer, a trained one, and a frozen one behind it."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
    for frozen in (model[0], model[4]):
        frozen.requires_grad_(False)
    return model, torch.randn(4, 8)


def blocks():
    """Two blocks of linear layers with a wider one inside."""
    torch.manual_seed(1)
    block = lambda: nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    return nn.Sequential(block(), block()), torch.randn(4, 8)


class Residual(nn.Module):
    """A linear layer and a ReLU that are added to what they read."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        return x + torch.relu(self.linear(x))


def residual():
    """Six equal blocks, with one tensor between two of them and two tensors inside."""
    torch.manual_seed(1)
    return nn.Sequential(*(Residual() for _ in range(6))), torch.randn(4, 8)


class Block(nn.Module):
    """Normalisation and two linear layers, added to what they read."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.widen, self.narrow = nn.Linear(8, width), nn.Linear(width, 8)

    def forward(self, x):
        return x + self.narrow(F.gelu(self.widen(self.norm(x))))


class Tower(nn.Module):
    """Eight blocks. What the second gives is read again by the seventh, and the labels are read in the middle, where what they
    become meets nothing that gradients come through before the last block."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block(8 * (1 + k % 3)) for k in range(8))
        self.label = nn.Embedding(5, 8)

    def forward(self, x, label):
        skip = said = None
        for k, block in enumerate(self.blocks):
            x = block(x)
            if k == 1:
                skip = x
            if k == 4:
                said = torch.tanh(self.label(label))
            if k == 6:
                x = x + skip
        return x * said


def tower():
    torch.manual_seed(1)
    return Tower().double(), {"x": torch.randn(2, 8).double(), "label": torch.randint(5, (2,))}


class Shared(nn.Module):
    """One linear layer, used twice."""

    def __init__(self):
        super().__init__()
        self.linear, self.between = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(torch.tanh(self.between(torch.tanh(self.linear(x)))))


def shared():
    torch.manual_seed(1)
    return Shared(), (torch.randn(3, 4),)


class Grouped(nn.Module):
    """Attention in which two heads of queries share one of keys and values."""

    def __init__(self):
        super().__init__()
        self.read, self.write = nn.Linear(32, 64), nn.Linear(32, 32)

    def forward(self, x):
        query, key, value = self.read(x).split([32, 16, 16], -1)
        query, key, value = (part.unflatten(-1, (-1, 8)).transpose(1, 2) for part in (query, key, value))
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.write(seen.transpose(1, 2).flatten(2))


def grouped():
    torch.manual_seed(1)
    return Grouped(), (torch.randn(2, 16, 32),)


class Undecided(nn.Module):
    """Its path depends on the data, which a graph cannot express."""

    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


def undecided():
    return Undecided(), torch.randn(3)


def no_pair():
    return nn.Linear(2, 2)

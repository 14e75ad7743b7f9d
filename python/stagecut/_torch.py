"""Models of PyTorch, measured by the program that is also ``tools/profile_torch.py``. torch is imported when it is needed."""

from __future__ import annotations

import datetime
import importlib
import sys
from types import SimpleNamespace
from typing import Any

from ._errors import Fault, InputError
from ._network import Network, network


def is_model(source: Any) -> bool:
    """Whether it is a model, alone or with inputs. What comes from torch has loaded it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if isinstance(source, tuple) and len(source) == 2:
        return isinstance(source[0], torch.nn.Module)
    return isinstance(source, (torch.nn.Module, torch.export.ExportedProgram))


def with_inputs(source: Any) -> tuple[Any, Any]:
    """The model and its inputs."""
    if isinstance(source, tuple):
        return source
    import torch

    if isinstance(source, torch.export.ExportedProgram):
        return source, None
    fault = Fault(
        "the network",
        "a torch.nn.Module alone",
        "a pair of the module and its example inputs, one micro-batch",
        "write `(model, inputs)`, or measure it once: `stagecut.profile(model, inputs)`",
    )
    raise InputError(str(fault), (fault,))


def profile(
    model: Any,
    inputs: Any = None,
    *,
    name: str | None = None,
    device: Any = None,
    kind: str | None = None,
    mode: str = "training",
    granularity: str = "operator",
    depth: int | None = None,
    recompute: bool = False,
    warmup: int = 2,
    repeats: int = 9,
    clock: str = "wall",
) -> Network:
    """Measures a PyTorch model, operator by operator, as ``tools/profile_torch.py`` does. Needs torch 2.6 or newer.

    ``model`` is a ``torch.nn.Module``, an fx-traced one among them, or a program of ``torch.export``, which brings its own
    inputs. ``inputs``, one micro-batch, are a tensor, a tuple of positional arguments or a dict of keyword arguments. The other
    arguments are the flags of the program; ``device`` is by default the one that the model is on.

    ::

        net = stagecut.profile(model, torch.randn(4, 3, 224, 224), granularity="module")
        plan = stagecut.solve(net, stages=4, cluster="dgx-h100")
    """
    import torch

    # It is a program too, and imports torch at its top.
    tool: Any = importlib.import_module("._profile_torch", __package__)
    if isinstance(model, torch.export.ExportedProgram):
        model, inputs = _as_module(model, inputs)
    own_device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    device = own_device if device is None else torch.device(device)
    if device != own_device and hasattr(model, "exported"):
        raise InputError(f"a program that was exported on {own_device} runs there, not on {device}")
    options = SimpleNamespace(
        device=device, mode=mode, granularity=granularity, depth=depth, recompute=recompute, warmup=warmup, repeats=repeats, clock=clock
    )
    was_training = model.training
    try:
        layers, graph, whole = tool.profile(model, inputs, options)
    except tool.Fault as fault:
        raise InputError(str(fault)) from fault
    finally:
        model.train(was_training)
    words, own_kind = tool.describe(device)
    name = name or type(model).__name__
    provenance = (
        f"stagecut.profile on {datetime.date.today()}: {mode}, torch {torch.__version__.split('+')[0]}, {words}, medians of "
        f"{repeats}; the model as a whole takes {whole:.1f} ms"
    )
    made = tool.instance(name, provenance, kind or own_kind, layers, graph, mode == "training")
    made["network"] |= tool.micro_batch(inputs, layers, mode == "training")
    return network(made)


def _as_module(program: Any, inputs: Any) -> tuple[Any, Any]:
    """An exported program as a module that the tool takes, and the inputs it was exported with."""
    import torch

    class Exported(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        """A program that was exported, which runs one way, whether it trains or not."""

        def __init__(self) -> None:
            super().__init__()
            self.runs = program.module()
            self.exported = program

        def forward(self, *arguments: Any, **keywords: Any) -> Any:
            return self.runs(*arguments, **keywords)

        def train(self, mode: bool = True) -> Any:
            self.training = mode
            return self

    if inputs is None:
        arguments, keywords = program.example_inputs
        if arguments and keywords:
            raise InputError("a program of torch.export with positional and keyword inputs; give `inputs`")
        inputs = keywords or arguments
    return Exported(), inputs

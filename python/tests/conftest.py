"""What several tests need."""

import pytest

import stagecut


def chain(times, link=100e9, count=4, **cluster):
    """A chain of layers as a native instance: forward times in ms, backward twice as long."""
    names = [f"layer{at}" for at in range(len(times))]
    return {
        "name": "chain",
        "network": {
            "layers": [{"id": name, "forward_ms": ms, "backward_ms": 2 * ms} for name, ms in zip(names, times)],
            "tensors": [{"producer": a, "consumers": [b], "bytes": 1e6} for a, b in zip(names, names[1:])],
        },
        "cluster": {
            "device_kinds": [{"name": "gpu", "count": count, **cluster}],
            "link": {"bandwidth_bytes_per_s": link},
        },
    }


@pytest.fixture
def small():
    return chain([3.0, 1.0, 2.0, 2.0])


@pytest.fixture(scope="session")
def gpt2():
    return stagecut.generate("transformer", preset="gpt2", granularity="block").on("dgx-h100")


#: A problem whose proof takes hours, and that has plans after a moment.
HARD = {"family": "random", "parameters": {"layers": 400, "seed": 3}, "options": {"stages": 8}}

"""What a network can be."""

import pickle
from pathlib import Path

import pytest
from conftest import chain

import stagecut

INSTANCES = Path(__file__).parents[2] / "instances"


def test_files_of_every_kind(tmp_path, small):
    onnx = stagecut.network(INSTANCES / "googlenet.onnx")
    assert len(onnx) > 100 and onnx.notes
    assert stagecut.solve(onnx, stages=4, time_limit=60).status == "optimal"
    assert stagecut.solve(str(INSTANCES / "googlenet.onnx"), stages=2, cluster="a100", time_limit=60).status == "optimal"
    native = tmp_path / "chain.json"
    native.write_text(stagecut.network(small).to_json())
    assert stagecut.solve(native, stages=2).objective_ms == stagecut.solve(small, stages=2).objective_ms
    with pytest.raises(stagecut.InputError, match="did you mean `chain.json`") as raised:
        stagecut.network(tmp_path / "chian.json")
    assert raised.value.path.endswith("chian.json") and raised.value.faults[0].expected


def test_dicts_and_every_fault_of_one(small):
    net = stagecut.network(small)
    assert net.name == "chain" and net.layers == ("layer0", "layer1", "layer2", "layer3") and len(net) == 4
    assert stagecut.network(net) is net and pickle.loads(pickle.dumps(net)).to_dict() == net.to_dict()
    assert net.to_dict()["schema"] == "stagecut-instance/1" and net.warnings == ()
    small["network"]["layers"][0]["forward"] = small["network"]["layers"][0].pop("forward_ms")
    del small["network"]["tensors"][1]["producer"]
    with pytest.raises(stagecut.InputError) as raised:
        stagecut.network(small)
    assert [fault.place for fault in raised.value.faults] == ["network.layers[0]", "network.tensors[1]"]
    assert raised.value.faults[0].remedy == "did you mean `forward_ms`?"


def test_values_of_another_type_have_a_place(small):
    small["network"]["layers"][1]["forward_ms"] = "fast"
    with pytest.raises(stagecut.InputError) as raised:
        stagecut.network(small)
    assert raised.value.faults[0].place == "layers[1].forward_ms"
    small["network"]["layers"][1]["forward_ms"] = float("nan")
    with pytest.raises(stagecut.InputError, match=r"layers\[1\].forward_ms: found nan"):
        stagecut.network(small)
    small["network"]["layers"][1]["forward_ms"] = -1
    with pytest.raises(stagecut.InputError, match="layer1"):
        stagecut.network(small)


def test_clusters(small):
    net = stagecut.network(small)
    slow = net.on({"device_kinds": [{"name": "gpu", "count": 2}], "link": {"bandwidth_bytes_per_s": "1GB/s"}})
    assert stagecut.solve(slow).objective_ms > stagecut.solve(net, stages=2).objective_ms
    assert stagecut.solve(net, cluster="h100", stages=2).objective_ms is not None and "h100" in stagecut.clusters()
    with pytest.raises(stagecut.InputError, match="did you mean `h100`"):
        net.on("h10")
    with pytest.raises(stagecut.InputError, match="did you mean `device_kinds`"):
        net.on({"device_kind": []})


def test_a_part_of_peak_rates(small):
    words = stagecut.generate("transformer", preset="gpt2", granularity="block")
    peak = stagecut.solve(words, stages=1).objective_ms
    for half in (stagecut.solve(words, stages=1, efficiency=0.5), stagecut.solve(words.at(0.5), stages=1)):
        # Each pass of a layer is rounded to a ns: once here, and twice as much in what is doubled.
        assert half.objective_ms == pytest.approx(2 * peak, abs=1.5e-6 * 2 * len(half.stages[0].layers))
    plan = stagecut.solve(words, stages=2, cluster="h100-bf16", efficiency=0.5)
    assert plan.throughput["mfu"] < 0.5 and plan.throughput["tokens_per_s"] > 0
    assert plan.times[0]["basis"] == "peak" and plan.times[0]["efficiency"] == 0.5
    measured = stagecut.solve(words, stages=2, cluster="h100-bf16", efficiency="measured")
    assert measured.times[0]["basis"] == "calibrated" and "H100" in measured.times[0]["source"]
    assert stagecut.solve(stagecut.network(small), stages=2).times[0]["basis"] == "measured"
    with pytest.raises(stagecut.InputError, match="measured"):
        words.at("half")
    assert stagecut.solve(stagecut.network(small), stages=2).throughput is None
    with pytest.raises(stagecut.InputError, match="part of peak rates"):
        words.at(1.5)
    with pytest.raises(stagecut.InputError, match="no time follows from rates"):
        stagecut.network(small).at(0.5)
    with pytest.raises(stagecut.InputError, match="h100-bf16"):
        words.on("h100")


def test_heads_that_do_not_come_out_even():
    with pytest.raises(stagecut.InputError, match="63 heads in a width of 8192"):
        stagecut.generate("transformer", preset="llama3-70b", heads=63)


def test_numbers_of_numpy_and_paths(small):
    numpy = pytest.importorskip("numpy")
    small["network"]["layers"][0]["forward_ms"] = numpy.float32(3)
    assert stagecut.solve(small, stages=numpy.int64(2)).objective_ms == stagecut.solve(chain([3.0, 1.0, 2.0, 2.0]), stages=2).objective_ms


def test_networkx_graphs(small):
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph(name="diamond", cluster=small["cluster"])
    for name, ms in [("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 1.0)]:
        graph.add_node(name, forward_ms=ms, backward_ms=ms, output_bytes=4e6)
    graph.add_edge("a", "b")
    graph.add_edge("a", "c")
    graph.add_edge("b", "d", bytes=1e6)
    graph.add_edge("c", "d", tensor="x", bytes=2e6)
    tensors = stagecut.network(graph).to_dict()["network"]["tensors"]
    assert [(tensor["producer"], tensor["consumers"], tensor["bytes"]) for tensor in tensors] == [
        ("a", ["b", "c"], 4e6),
        ("b", ["d"], 1e6),
        ("c", ["d"], 2e6),
    ]
    plan = stagecut.solve(graph, stages=2)
    assert plan.status == "optimal" and plan.instance == "diamond"
    with pytest.raises(TypeError, match="undirected"):
        stagecut.network(graph.to_undirected())
    graph.nodes["a"]["forward"] = 3
    with pytest.raises(stagecut.InputError, match="did you mean `forward_ms`"):
        stagecut.solve(graph, stages=2)
    graph.add_edge("c", "b", tensor="x", bytes=9.0)
    with pytest.raises(stagecut.InputError, match="same tensor"):
        stagecut.network(graph)


def test_generated_networks():
    assert len(stagecut.generate("random", layers=12, seed=1)) == 12
    with pytest.raises(stagecut.InputError, match="did you mean `random`"):
        stagecut.generate("randm")
    with pytest.raises(stagecut.InputError, match="did you mean `layers`"):
        stagecut.generate("random", layer=12)


def test_what_is_no_network():
    with pytest.raises(TypeError, match="no network"):
        stagecut.network(42)


def test_what_json_cannot_say_is_an_input_error(small):
    deep = inner = {}
    for _ in range(100_000):
        inner["a"] = {}
        inner = inner["a"]
    round_ = {}
    round_["round"] = round_
    half = "\ud800"
    for value in (10**400, -(10**400), 10**5000, half, deep, round_, [[[[deep]]]]):
        for place in ("forward_ms", "id"):
            bad = {"network": {"layers": [{**small["network"]["layers"][0], place: value}]}}
            with pytest.raises(stagecut.InputError):
                stagecut.network(bad)
        for cluster in ({"device_kinds": [{"name": "gpu", "count": value}]}, {"device_kinds": value}):
            with pytest.raises(stagecut.InputError):
                stagecut.network(small, cluster=cluster)
        with pytest.raises(stagecut.InputError):
            stagecut.solve(small, stages=value)
        with pytest.raises(stagecut.InputError):
            stagecut.evaluate(small, [[value]])
    for call in (
        lambda: stagecut.network({**small, "name": half}),
        lambda: stagecut.network(small, name=half),
        lambda: stagecut.network(small, cluster=half),
        lambda: stagecut.network(f"{half}.json"),
        lambda: stagecut.solve(small, method=half),
        lambda: stagecut.generate(half),
        lambda: stagecut.generate("random", layers=10**400),
    ):
        with pytest.raises(stagecut.InputError):
            call()
    # A hundred levels are read, and refused for what they are.
    deep = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(stagecut.InputError):
        stagecut.network({"network": {"layers": deep}})


def test_files_outside_of_the_folder_are_named_by_those_who_are_trusted(tmp_path, small):
    (tmp_path / "net.json").write_text(stagecut.network(small).to_json())
    (tmp_path / "below").mkdir()
    asks = tmp_path / "below" / "asks.toml"
    asks.write_text('network = { file = "../net.json" }')
    with pytest.raises(stagecut.InputError, match="outside of the folder") as raised:
        stagecut.network(asks)
    assert "`outside_files`" in raised.value.faults[0].remedy
    assert len(stagecut.network(asks, outside_files=True)) == len(stagecut.network(small))
    with pytest.raises(stagecut.InputError):
        stagecut.network(asks)

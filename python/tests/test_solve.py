"""Finding, comparing, checking and costing plans."""

import copy
import json
import pickle

import pytest
from conftest import chain

import stagecut


def best_period(times, stages, transfer_ms):
    """The best period of a chain, by trying every cut: forward and backward are one load, blocking transfers both ways."""
    count = len(times)
    best = float("inf")
    for mask in range(1 << (count - 1)):
        cuts = [at + 1 for at in range(count - 1) if mask >> at & 1]
        if len(cuts) + 1 > stages:
            continue
        bounds = [0, *cuts, count]
        loads = []
        for first, last in zip(bounds, bounds[1:]):
            ends = (first > 0) + (last < count)
            loads.append(3 * sum(times[first:last]) + 2 * ends * transfer_ms)
        best = min(best, max(loads))
    return best


@pytest.mark.parametrize("times", [[3, 1, 2, 2], [1, 1, 1, 9], [2.5, 2.5, 1, 4, 3, 0.5], [5]])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_plans_are_those_of_brute_force(times, stages):
    plan = stagecut.solve(chain(times, link=1e9), stages=stages)
    assert plan.status == "optimal"
    assert plan.gap == 0.0
    assert plan.objective_ms == pytest.approx(best_period(times, stages, transfer_ms=1.0))
    assert plan.bound_ms == plan.objective_ms
    assert plan.stopped_by == "completed"
    assert [layer for stage in plan.stages for layer in stage.layers] == [f"layer{at}" for at in range(len(times))]


def test_a_plan_says_everything(small):
    plan = stagecut.solve(small, stages=2)
    first = plan.stages[0]
    assert (first.index, first.layers, first.devices) == (1, ("layer0", "layer1"), ("gpu:1",))
    assert first.backward == first.layers
    assert first.in_flight == 2 and first.load_ms == pytest.approx(12.0, abs=0.1)
    assert plan.stage_of("layer3").index == 2
    with pytest.raises(KeyError):
        plan.stage_of("layer9")
    assert plan.instance == "chain" and plan.method == "exact" and plan.problem["stages"] == 2
    assert plan.statistics["items"] >= 1 and plan.least_memory is None and plan.overruns == ()
    assert plan.to_dict()["schema"] == "stagecut-plan/1"
    assert json.loads(plan.to_json()) == plan.to_dict()
    assert "2 stages" in repr(plan)


def test_results_never_change(small):
    plan = stagecut.solve(small, stages=2)
    with pytest.raises(AttributeError):
        plan.status = "better"
    with pytest.raises(AttributeError):
        plan.stages[0].load_ms = 0
    with pytest.raises(TypeError):
        plan.problem["stages"] = 3
    with pytest.raises(AttributeError):
        plan.network.name = "other"
    plan.to_dict()["stages"].clear()
    assert len(plan.to_dict()["stages"]) == 2


def test_plans_travel(small):
    plan = stagecut.solve(small, stages=2)
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan and hash(again) == hash(plan) and again.check()
    read = stagecut.Plan.from_json(plan.to_json())
    assert read == plan
    with pytest.raises(stagecut.InputError, match="without its network"):
        read.check()
    assert stagecut.Plan.from_json(plan.to_json(), stagecut.network(small)).check()
    with pytest.raises(stagecut.InputError):
        stagecut.Plan.from_json("{}")


def test_options_are_those_of_the_command_line(small):
    plan = stagecut.solve(small, stages=3, schedule="gpipe", objective="formula", micro_batches=8, bandwidth="1GB/s", memory_limit="none")
    assert plan.problem["schedule"] == "gpipe" and plan.problem["bandwidth_bytes_per_s"] == 1e9
    # What a plan states can be asked again.
    again = stagecut.solve(small, **plan.problem)
    assert again.objective_ms == plan.objective_ms
    other = stagecut.solve(small, method="slicing", stages=2, seed=7, gap=0.1, time_limit=5, memory="4GB")
    assert other.method == "slicing"


def test_every_wrong_option_is_told_at_once(small):
    with pytest.raises(stagecut.InputError) as raised:
        stagecut.solve(small, stagse=2, schedule="gipe", gap=2.0, micro_batches="many")
    faults = {fault.place: fault for fault in raised.value.faults}
    assert faults["the options"].remedy == "did you mean `stages`?"
    assert faults["schedule"].remedy == "did you mean `gpipe`?"
    assert set(faults) == {"the options", "schedule", "gap", "micro_batches"}
    assert isinstance(raised.value, ValueError) and "4 faults" in str(raised.value)


def test_options_that_contradict_are_named_as_keywords(small):
    with pytest.raises(stagecut.InputError) as raised:
        stagecut.solve(small, stages=9)
    assert raised.value.faults[0].place == "stages"
    assert "--" not in str(raised.value)
    with pytest.raises(stagecut.InputError) as raised:
        stagecut.solve(small, stages=2, virtual_stages=2, placement="v", schedule="interleaved")
    assert "with `virtual_stages=2, placement=\"v\"`" in str(raised.value)
    with pytest.raises(stagecut.InputError, match='`mode="training"`'):
        stagecut.solve(small, stages=2, mode="inference", cuts="separate")


def test_what_is_infeasible_says_how_much_memory_it_takes():
    net = chain([1.0, 1.0], memory_bytes=1e6)
    for layer in net["network"]["layers"]:
        layer["parameter_bytes"] = 1e6
    with pytest.raises(stagecut.Infeasible) as raised:
        stagecut.solve(net, stages=2, time_limit=5)
    plan = raised.value.plan
    assert plan.status == "infeasible" and plan.stages == () and plan.objective_ms is None
    assert plan.least_memory["at_least_bytes"] > 1e6
    assert stagecut.solve(net, stages=2, memory_limit=plan.least_memory["at_most_bytes"]).status == "optimal"
    with pytest.raises(stagecut.NoPlan):
        stagecut.solve(net, stages=2, time_limit=5)


def test_a_method_that_does_not_apply(small):
    with pytest.raises(stagecut.Inapplicable, match="piper"):
        stagecut.solve(small, method="piper", stages=2)
    with pytest.raises(stagecut.InputError, match="did you mean `slicing`"):
        stagecut.solve(small, method="slicng", stages=2)
    assert "exact" in stagecut.methods() and "piper" in stagecut.methods()


def test_bounds(small):
    bound = stagecut.bound(small, stages=2)
    plan = stagecut.solve(small, stages=2)
    assert 0 < bound.bound_ms <= plan.objective_ms
    assert bound.source and bound.bounds_ms


def test_comparisons_hold_functions_against_methods(small):
    def even(problem):
        assert problem["schema"] == "stagecut-question/1" and problem["options"]["stages"] == 2 and problem["seed"] == 5
        names = [layer["id"] for layer in problem["instance"]["network"]["layers"]]
        return [names[:2], {"layers": names[2:]}]

    def backwards(problem):
        names = [layer["id"] for layer in problem["instance"]["network"]["layers"]]
        return [names[2:], names[:2]]

    def nothing(problem):
        return []

    compared = stagecut.compare(small, methods=["exact", "slicing", even, backwards, nothing], stages=2, seed=5)
    assert compared[0].method in ("exact", "slicing", "even") and compared[0].ratio == 1.0
    row = compared.of("even")
    assert row.status in ("optimal", "feasible") and row.objective_ms == stagecut.evaluate(small, row.plan, stages=2).objective_ms
    assert compared.of("backwards").plan is None and "fails the check" in compared.of("backwards").note
    assert compared.of("nothing").status == "no-plan"
    assert compared.best.objective_ms == compared.of("exact").objective_ms
    assert "even" in repr(compared) and "<table>" in compared._repr_html_()
    whole = stagecut.compare(small, stages=2)
    assert {"exact", "slicing"} <= {row.method for row in whole} and len(whole[:2]) == 2
    with pytest.raises(KeyError):
        whole.of("milp")


def test_a_plan_that_lies_fails_its_check(small):
    plan = stagecut.solve(small, stages=2)
    assert plan.check() and plan.check().objective_ms == plan.objective_ms
    stated = plan.to_dict()
    stated["objective_ms"] = 1.0
    check = stagecut.check(small, stated, stages=2)
    assert not check and check.stated_objective_ms == 1.0 and check.violations
    moved = copy.deepcopy(plan.to_dict())
    moved["stages"][0]["forward"].reverse()
    moved["stages"][0]["forward"].append("layer9")
    assert not stagecut.check(small, moved, stages=2)
    with pytest.raises(stagecut.InputError):
        stagecut.check(small, {"stages": [["layer0"]]})


def test_stages_of_somebody_else(small, tmp_path):
    evaluation = stagecut.evaluate(small, [["layer0"], ["layer1", "layer2", "layer3"]], bound=True, stages=2)
    assert evaluation.passes and evaluation.objective_ms == evaluation.plan.objective_ms
    assert evaluation.bound_ms <= stagecut.solve(small, stages=2).objective_ms and evaluation.gap > 0
    assert [stage.layers for stage in evaluation.stages][0] == ("layer0",)
    file = tmp_path / "stages.csv"
    file.write_text("layer,stage\nlayer0,1\nlayer1,2\nlayer2,2\nlayer3,2\n")
    assert stagecut.evaluate(small, file, stages=2).objective_ms == evaluation.objective_ms
    wrong = stagecut.evaluate(small, [["layer1"], ["layer0", "layer2", "layer3"]])
    assert not wrong and wrong.violations[0].kind and "layer" in str(wrong.violations[0])
    with pytest.raises(stagecut.InputError, match="layer9"):
        stagecut.evaluate(small, [["layer0", "layer9"]])


def test_runs_of_a_plan(small):
    plan = stagecut.solve(small, stages=2)
    run = plan.simulate(micro_batches=4, schedule="gpipe", jitter=0.1, seed=1)
    assert run.micro_batches == 4 and run.schedule == "gpipe" and run.iteration_ms > 0
    assert run == plan.simulate(micro_batches=4, schedule="gpipe", jitter=0.1, seed=1)
    assert 0 <= run.bubble_share < 1 and run.events[0]["stage"] == 1 and len(run.resources) >= 2
    steady = plan.simulate(micro_batches=16)
    assert steady.period_ms == pytest.approx(plan.objective_ms)
    assert steady.svg().startswith("<svg") and "<svg" in run._repr_html_() and "4 micro-batches" in repr(run)
    with pytest.raises(stagecut.InputError, match="did you mean `schedule`"):
        plan.simulate(schedul="gpipe")
    with pytest.raises(stagecut.InputError, match="jitter"):
        plan.simulate(jitter=2)


def test_what_notebooks_show(small, gpt2):
    plan = stagecut.solve(small, stages=2)
    shown = plan._repr_html_()
    assert shown.count("<svg") == 2 and "<table>" in shown and "proved optimal" in shown
    names = [part.split('"')[0] for part in shown.split('id="')[1:]]
    assert len(names) == len(set(names)), "names in a page are unique"
    assert "<svg" in plan.svg() and "digraph" in plan.dot() and "digraph" in gpt2.dot() and "<svg" in gpt2._repr_html_()


def test_frames(small):
    pandas = pytest.importorskip("pandas")
    plan = stagecut.solve(small, stages=2)
    frame = plan.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and list(frame.index) == [1, 2]
    assert frame["load_ms"].max() == pytest.approx(plan.objective_ms)
    assert list(plan.simulate().to_pandas().columns)[:2] == ["resource", "stage"]
    assert "ratio" in stagecut.compare(small, methods=["exact"], stages=2).to_pandas()


def test_exports_and_programs(gpt2, small, tmp_path):
    with pytest.raises(stagecut.InputError, match='precision="bf16-mixed"'):
        stagecut.solve(gpt2, stages=2).export("megatron")
    plan = stagecut.solve(gpt2, stages=2, precision="bf16-mixed")
    assert set(stagecut.targets()) >= {"torch", "megatron", "vllm", "json"}
    assert "--pipeline-model-parallel-layout" in plan.export("megatron", tmp_path / "layout.txt")
    assert (tmp_path / "layout.txt").read_text() == plan.export("megatron")
    with pytest.raises(stagecut.InputError, match='mode="inference"'):
        plan.export("vllm")
    assert "VLLM_PP_LAYER_PARTITION" in stagecut.solve(gpt2, stages=2, mode="inference").export("vllm")
    assert json.loads(stagecut.export(plan, "json"))
    with pytest.raises(stagecut.InputError, match="did you mean"):
        plan.export("megatrn")
    with pytest.raises(stagecut.InputError, match="one GPU a stage"):
        plan.export("torch")
    plan = stagecut.solve(gpt2.on("h100-bf16"), stages=2)
    order = tmp_path / "order.csv"
    order.write_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
    assert '"micro_batches": 2' in plan.export("torch", order=order)
    order.write_text("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n")
    with pytest.raises(stagecut.InputError, match="deadlock"):
        stagecut.export(plan, "torch", order=order)
    with pytest.raises(stagecut.StagecutError, match="takes no order"):
        plan.export("deepspeed", order=order)
    written = stagecut.formulate(small, tmp_path / "chain.lp", stages=2)
    assert written.binaries > 0 and "unit of time" in (tmp_path / "chain.lp").read_text()
    with pytest.raises(stagecut.StagecutError):
        stagecut.formulate(small, tmp_path / "chain.xyz", stages=2)
    with pytest.raises(stagecut.WriteError):
        stagecut.formulate(small, tmp_path / "nowhere" / "chain.lp", stages=2)


def test_constraints_of_ones_own_hold(small):
    free = stagecut.solve(small, stages=2)
    names = [layer for stage in free.stages for layer in stage.layers]
    apart = stagecut.solve(small, stages=2, constraints=[{"apart": names[:2]}])
    assert apart.status == "optimal" and apart.objective_ms >= free.objective_ms
    assert names[0] in apart.stages[0].layers and names[1] in apart.stages[1].layers

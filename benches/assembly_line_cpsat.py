"""OR-Tools CP-SAT on an assembly line: the model that a competent user would write.

Reads a native instance in whole ms from stdin, as `stagecut import` writes it: workers are its device kinds, or alike where it
names none. Booleans say whether a task stands in the first k stations, and with workers who does it and who is where.

usage: assembly_line_cpsat.py STATIONS SECONDS THREADS        needs: benches/requirements.txt
prints one JSON line: status, objective_ms, bound_ms
"""
import json
import sys

from ortools.sat.python import cp_model


def main():
    stations, seconds, threads = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    instance = json.load(sys.stdin)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = threads
    status = solver.solve(build(instance["network"], instance.get("cluster"), stations))
    has_plan = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    print(json.dumps({
        "status": solver.status_name(status).lower(),
        "objective_ms": solver.objective_value if has_plan else None,
        "bound_ms": solver.best_objective_bound,
    }))


def build(network, cluster, stations):
    model = cp_model.CpModel()
    layers, positions = network["layers"], range(1, stations + 1)
    here = order(model, [layer["id"] for layer in layers], network.get("tensors", []), stations)
    if cluster is None:
        loads = [sum(int(layer["forward_ms"]) * here[layer["id"], k] for layer in layers) for k in positions]
    else:
        loads = assign(model, layers, [kind["name"] for kind in cluster["device_kinds"]], here, positions)
    slowest = [max([layer.get("forward_ms", 0), *(times["forward_ms"] for times in layer.get("times", {}).values())]) for layer in layers]
    period = model.new_int_var(0, int(sum(slowest)), "period")
    for load in loads:
        model.add(load <= period)
    model.minimize(period)
    return model


def order(model, tasks, precedences, stations):
    """Whether a task is done at a station, after the tasks before it."""
    prefix, here = {}, {}
    for task in tasks:
        prefix[task, 0], prefix[task, stations] = 0, 1
        for k in range(1, stations):
            prefix[task, k] = model.new_bool_var("")
        for k in range(1, stations - 1):
            model.add_implication(prefix[task, k], prefix[task, k + 1])
        for k in range(1, stations + 1):
            here[task, k] = model.new_bool_var("")
            model.add(here[task, k] == prefix[task, k] - prefix[task, k - 1])
    for tensor in precedences:
        for after in tensor["consumers"]:
            for k in range(1, stations):
                model.add_implication(prefix[after, k], prefix[tensor["producer"], k])
    return here


def assign(model, layers, workers, here, positions):
    """The loads of the workers: each is at one station at most, and does the tasks that are done there."""
    does = {(layer["id"], worker): model.new_bool_var("") for layer in layers for worker in layer["times"]}
    at = {(worker, k): model.new_bool_var("") for worker in workers for k in positions}
    for layer in layers:
        model.add_exactly_one(does[layer["id"], worker] for worker in layer["times"])
    for k in positions:
        model.add_exactly_one(at[worker, k] for worker in workers)
    for worker in workers:
        model.add_at_most_one(at[worker, k] for k in positions)
        for layer in layers:
            task = layer["id"]
            for k in positions:
                if worker not in layer["times"]:
                    model.add_bool_or(~here[task, k], ~at[worker, k])
                else:
                    model.add_bool_or(~does[task, worker], ~at[worker, k], here[task, k])
                    model.add_bool_or(~here[task, k], ~at[worker, k], does[task, worker])
    return [
        sum(int(layer["times"][worker]["forward_ms"]) * does[layer["id"], worker] for layer in layers if worker in layer["times"])
        for worker in workers
    ]


if __name__ == "__main__":
    main()

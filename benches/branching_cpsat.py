"""OR-Tools CP-SAT on a branching network in stages: the model that a competent user would write.

Reads a native instance from stdin, as `stagecut generate random` writes it: layers with a forward and a backward pass, both in one
stage, alike devices, no memory limit. Booleans say whether a layer stands in the first k stages, and whether a tensor crosses an end of a
stage: then the tensor comes or goes, and its gradient the other way.

usage: branching_cpsat.py STAGES COMMUNICATION SECONDS THREADS        needs: benches/requirements.txt
prints one JSON line: status, objective_ms, bound_ms
"""
import json
import sys

from assembly_line_cpsat import order
from ortools.sat.python import cp_model

# Nanoseconds in a millisecond, and in a second.
MS, S = 1_000_000, 1_000_000_000


def main():
    stages, communication, seconds, threads = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    instance = json.load(sys.stdin)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = threads
    status = solver.solve(build(instance, stages, communication))
    has_plan = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
    print(json.dumps({
        "status": solver.status_name(status).lower(),
        "objective_ms": solver.objective_value / MS if has_plan else None,
        "bound_ms": solver.best_objective_bound / MS,
    }))


def build(instance, stages, communication):
    model = cp_model.CpModel()
    layers, tensors = instance["network"]["layers"], instance["network"]["tensors"]
    bandwidth = instance["cluster"]["link"]["bandwidth_bytes_per_s"]
    work = {layer["id"]: round(layer.get("forward_ms", 0) * MS) + round(layer.get("backward_ms", 0) * MS) for layer in layers}
    cost = [round(tensor["bytes"] * S / bandwidth) for tensor in tensors]
    here = order(model, list(work), tensors, stages)
    period = model.new_int_var(0, sum(work.values()), "period")
    for k in range(1, stages + 1):
        worker = sum(ns * here[layer, k] for layer, ns in work.items())
        link = sum(ns * crosses(model, tensor, here, k) for tensor, ns in zip(tensors, cost))
        if communication == "blocking":
            # A tensor and its gradient.
            model.add(worker + 2 * link <= period)
        else:
            # One of the two on the link in, the other on the link out.
            model.add(worker <= period)
            model.add(link <= period)
    model.minimize(period)
    return model


def crosses(model, tensor, here, k):
    """Whether a tensor has an end in a stage and another outside that it goes to or comes from."""
    crosses = model.new_bool_var("")
    own = here[tensor["producer"], k]
    for consumer in tensor["consumers"]:
        model.add(crosses >= own - here[consumer, k])
        model.add(crosses >= here[consumer, k] - own)
    return crosses


if __name__ == "__main__":
    main()

"""Runs the missing tasks of a study on a Dask cluster: PROGRAM STUDY RESULTS SCHEDULER.

Every worker needs the program, the study and the folder of results at the same paths. A task whose worker dies is given to
another one; a result that is there already is not computed again. Needs `dask[distributed]`.
"""

import json
import subprocess
import sys

from distributed import Client, as_completed


def run_task(program, study, results, task):
    """One task in a process of its own; the row it leaves."""
    command = [program, "study", "run-task", study, "--results", results, task]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"exit code {done.returncode}")
    return json.loads(done.stdout)["status"]


def main():
    program, study, results, scheduler = sys.argv[1:5]
    listed = [program, "study", "tasks", study, "--results", results, "--missing"]
    lines = subprocess.run(listed, check=True, capture_output=True, text=True).stdout.splitlines()
    tasks = [json.loads(line)["id"] for line in lines]
    failed = 0
    with Client(scheduler) as client:
        # A worker may be lost again and again; the tasks are what must not be.
        client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 1000))
        asked = [client.submit(run_task, program, study, results, task, retries=2, pure=False) for task in tasks]
        for done, future in enumerate(as_completed(asked), start=1):
            # Waits where the worker that had the answer died since: the task is then given to another one.
            error = future.exception()
            if error is not None:
                failed += 1
                print(f"\n{error}", file=sys.stderr)
            if sys.stderr.isatty():
                print(f"\r{done} of {len(tasks)} tasks, {failed} failed", end="", file=sys.stderr)
    print(f"\r{len(tasks)} tasks, {failed} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

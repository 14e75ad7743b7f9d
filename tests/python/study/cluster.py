"""Runs a study on Dask, a scheduler and two workers on this machine, kills one worker on the way, and compares with a local run.

PROGRAM STUDY FOLDER; the interpreter must have `dask[distributed]`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from distributed import Client


def rows(results):
    """Rows by task, without times, and without the digest that knows them; not those still being written, which begin with a dot."""
    found = {}
    for path in Path(results).glob("rows/*/[!.]*.json"):
        row = json.loads(path.read_text())
        del row["seconds"], row["digest"]
        found[row["id"]] = row
    return found


def address_in(path):
    """The scheduler's address, once it has written all of its file."""
    for _ in range(600):
        try:
            return json.loads(Path(path).read_text())["address"]
        except (FileNotFoundError, json.JSONDecodeError):
            time.sleep(0.1)
    raise TimeoutError("the scheduler does not start")


def main():
    program, study, folder = sys.argv[1:4]
    local, remote = f"{folder}/local", f"{folder}/dask"
    subprocess.run([program, "study", "run", study, "--results", local, "--quiet"], check=True)
    address_file = f"{folder}/scheduler.json"
    log = open(f"{folder}/dask.log", "w")
    quiet = {"stdout": log, "stderr": log}
    scheduler = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
         "--scheduler-file", address_file], **quiet)
    workers = []
    try:
        address = address_in(address_file)
        for _ in range(2):
            # Without a nanny nobody starts it again: it stays dead.
            workers.append(subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", address_file, "--nthreads", "1",
                 "--no-nanny", "--no-dashboard", "--local-directory", folder], **quiet))
        with Client(address) as client:
            client.wait_for_workers(2)
        submitted = subprocess.Popen(
            [program, "study", "submit", study, "--results", remote, "--engine", "dask", "--scheduler", address,
             "--python", sys.executable])
        total = len(rows(local))
        while len(rows(remote)) < total // 3:
            assert submitted.poll() is None, "the driver ended early"
            time.sleep(0.05)
        os.kill(workers[0].pid, signal.SIGKILL)
        at = len(rows(remote))
        assert submitted.wait(timeout=600) == 0
    finally:
        for process in [*workers, scheduler]:
            process.kill()
            process.wait()
    assert rows(remote) == rows(local), "results differ"
    print(f"dask: {total} tasks on two workers, one killed at {at}; results are those of a local run")


if __name__ == "__main__":
    main()

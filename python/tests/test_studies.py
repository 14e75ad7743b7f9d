"""Studies, and the program that the package brings."""

import subprocess
import sys
from pathlib import Path

import pytest

import stagecut

STUDY = {
    "instances": [{"generator": "random", "parameters": {"layers": 10, "seed": [1, 2]}}],
    "options": [{"stages": [2, 3]}],
    "methods": [{"names": ["exact", "slicing"]}],
}

MINE = """
import stagecut

def halves(problem):
    names = [layer["id"] for layer in problem["instance"]["network"]["layers"]]
    return [names[: len(names) // 2], names[len(names) // 2 :]]

if __name__ == "__main__":
    stagecut.serve(halves)
"""


def test_a_study_runs_and_goes_on(tmp_path):
    events = []
    study = stagecut.Study(STUDY, folder=tmp_path)
    assert len(study.tasks) == 8 and study.rows() == [] and study.results == tmp_path / "study.results"
    rows = study.run(jobs=2, progress=events.append)
    assert len(rows) == 8 and {row["status"] for row in rows} <= {"optimal", "feasible"}
    assert events[-1].done == events[-1].total == 8
    # A second run has nothing to do, also from the file.
    again = stagecut.Study(tmp_path / "study.toml")
    assert again.run(progress=lambda event: pytest.fail("nothing is missing")) == rows
    assert "exact" in study.report(tmp_path / "report") and (tmp_path / "report" / "report.html").is_file()
    assert "8 of them done" in repr(study)
    pandas = pytest.importorskip("pandas")
    assert isinstance(study.to_pandas(), pandas.DataFrame)


def test_a_method_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    study = dict(STUDY, methods=[{"names": ["exact"]}, {"name": "halves", "command": [sys.executable, "mine.py"]}])
    rows = stagecut.Study(study, folder=tmp_path).run(jobs=2)
    mine = [row for row in rows if row["method"] == "halves"]
    assert len(rows) == 8 and len(mine) == 4
    for row in mine:
        assert row["status"] in ("feasible", "optimal", "crashed"), row
    best = {(row["content"], row["stages"]): row["objective_ms"] for row in rows if row["method"] == "exact"}
    assert all(row["objective_ms"] is None or row["objective_ms"] >= best[row["content"], row["stages"]] for row in mine)


def halves(problem):
    names = [layer["id"] for layer in problem["instance"]["network"]["layers"]]
    print("what it prints is no answer")
    return [names[: len(names) // 2], names[len(names) // 2 :]]


def nothing(problem):
    return None


def breaks(problem):
    raise ValueError("no idea")


def test_functions_are_methods(tmp_path):
    study = dict(STUDY, methods=[{"names": ["exact"]}, halves])
    study = stagecut.Study(study, folder=tmp_path, methods=["slicing", nothing, breaks])
    rows = study.run(jobs=2)
    of = {name: [row for row in rows if row["method"] == name] for name in ("exact", "halves", "slicing", "nothing", "breaks")}
    assert all(len(rows) == 4 for rows in of.values())
    for own, exact in zip(of["halves"], of["exact"]):
        assert own["status"] in ("optimal", "feasible", "crashed"), own
        if own["objective_ms"] is not None:
            assert own["gap_to_best_bound"] == pytest.approx(1 - exact["bound_ms"] / own["objective_ms"])
    assert any(row["objective_ms"] is not None for row in of["halves"])
    assert {row["status"] for row in of["nothing"]} == {"unknown"}
    assert all(row["status"] == "crashed" and "ValueError: no idea" in row["note"] for row in of["breaks"])
    # The same study has nothing left to do; its file says how it is run.
    assert stagecut.Study(tmp_path / "study.toml").run(progress=lambda event: pytest.fail("nothing is missing")) == rows
    assert "no idea" in study.report()


SCRIPT = """
import stagecut

def halves(problem):
    names = [layer["id"] for layer in problem["instance"]["network"]["layers"]]
    return [names[: len(names) // 2], names[len(names) // 2 :]]

GUARD:
    study = stagecut.Study(
        {"instances": [{"generator": "random", "parameters": {"layers": 10}}], "options": [{"stages": 2}]},
        folder="out",
        methods=["exact", halves],
    )
    for row in study.run(jobs=1):
        print(row["method"], row["status"], row["note"])
"""


def test_functions_of_scripts(tmp_path):
    def ran(guard):
        (tmp_path / "mine.py").write_text(SCRIPT.replace("GUARD", guard))
        done = subprocess.run([sys.executable, "mine.py"], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = ran('if __name__ == "__main__"')
    assert "exact optimal" in said and ("halves feasible" in said or "halves optimal" in said or "fails the check" in said), said
    # Loaded for its function, an unguarded script would start the study again, and so on.
    assert 'put that under `if __name__ == "__main__":`' in ran("if True")


def test_functions_that_no_other_process_finds(tmp_path):
    count = 2

    def parts(problem):
        names = [layer["id"] for layer in problem["instance"]["network"]["layers"]]
        return [names[: len(names) // count], names[len(names) // count :]]

    try:
        import cloudpickle  # noqa: F401
    except ImportError:
        with pytest.raises(TypeError, match="cannot call `parts`.*install cloudpickle"):
            stagecut.Study(dict(STUDY, methods=["exact"]), folder=tmp_path, methods=[parts])
    else:
        rows = stagecut.Study(dict(STUDY, methods=["exact"]), folder=tmp_path, methods=[parts]).run(jobs=2)
        assert len([row for row in rows if row["method"] == "parts" and row["seconds"] is not None]) == 4
    with pytest.raises(TypeError, match="says its methods"):
        stagecut.Study(tmp_path / "study.toml", methods=[halves])


def test_a_study_that_is_wrong(tmp_path):
    with pytest.raises(stagecut.InputError, match="did you mean `exact`"):
        stagecut.Study(dict(STUDY, methods=[{"names": ["exat"]}]), folder=tmp_path)
    with pytest.raises(TypeError, match="folder"):
        stagecut.Study(STUDY)


def run(*arguments, program=(sys.executable, "-m", "stagecut")):
    return subprocess.run([*program, *arguments], capture_output=True, text=True)


def test_the_program_is_here_too(tmp_path):
    version = run("--version")
    assert version.returncode == 0 and stagecut.__version__ in version.stdout
    made = run("generate", "random", "--layers", "8", "--output", str(tmp_path / "net.json"))
    assert made.returncode == 0, made.stderr
    solved = run("solve", str(tmp_path / "net.json"), "--stages", "2")
    assert solved.returncode == 0 and "optimal" in solved.stdout
    assert run("solve", "nowhere.json").returncode == 2
    script = Path(sys.executable).with_name("stagecut")
    if script.exists():
        assert run("--version", program=(script,)).stdout == version.stdout

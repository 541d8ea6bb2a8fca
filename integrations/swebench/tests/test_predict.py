"""Made-up instances with checkouts of their own, and a scripted model: from the folder to a file that SWE-bench's reader takes."""

import json
import os
import subprocess
from pathlib import Path

import pytest
import rawko_swebench

BINARY = os.environ["RAWKO_BINARY"]
BUGGY = "def area(width, height):\n    return width + height\n"
TEST = "from shapes import area\n\n\ndef test_area():\n    assert area(2, 3) == 6\n"


def turn(name, **given):
    return {"for": "developer", "tools": [{"name": name, "input": given}]}


SOLVED = [
    turn("Read", file_path="shapes.py"),
    turn("Edit", file_path="shapes.py", old_string="width + height", new_string="width * height"),
    turn("Write", file_path="notes/why ü.txt", content="An area is a product.\n"),
    turn("Report", outcome="success", summary="area multiplies"),
]
UNSOLVED = [turn("Report", outcome="failure", summary="I do not know how.")] * 9


class Bench:
    """A folder of tasks, and a user whose rawko answers from a script."""

    def __init__(self, place: Path):
        self.place, self.tasks, self.out = place, place / "tasks", place / "out"
        self.settings = place / "home" / ".config" / "rawko"
        self.settings.mkdir(parents=True)
        self.script(SOLVED)

    def script(self, replies):
        (self.settings / "script.json").write_text(json.dumps(replies))
        config = {
            "arbiter": {"mode": "rules"},
            "agents": {"builtin": ["developer"]},
            "verify": ["python3 -c 'from shapes import area; assert area(2, 3) == 6'"],
            "provider": {"default": "script", "script": {"type": "scripted", "script": str(self.settings / "script.json")}},
        }
        (self.settings / "config.yaml").write_text(json.dumps(config))

    def instance(self, name):
        repo = self.tasks / name / "repo"
        repo.mkdir(parents=True)
        self.git(repo, "init", "--quiet")
        (repo / "shapes.py").write_text(BUGGY)
        (repo / "test_shapes.py").write_text(TEST)
        base = self.commit(repo)
        # What was done later in the real project: the answer.
        (repo / "shapes.py").write_text(BUGGY.replace("+", "*"))
        self.commit(repo)
        instance = {"instance_id": name, "repo": "made/up", "base_commit": base, "problem_statement": "area(2, 3) is 5, not 6."}
        (self.tasks / name / "instance.json").write_text(json.dumps(instance))

    def commit(self, repo):
        self.git(repo, "add", "--all")
        self.git(repo, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", "a step")
        return self.git(repo, "rev-parse", "HEAD").strip()

    def git(self, repo, *arguments):
        return subprocess.run(["git", *arguments], cwd=repo, check=True, capture_output=True, text=True).stdout

    def run(self, *arguments):
        return rawko_swebench.main([str(self.tasks), "--out", str(self.out), "--rawko", BINARY, *arguments])

    def predictions(self):
        return [json.loads(line) for line in (self.out / "predictions.jsonl").read_text().splitlines()]


@pytest.fixture
def bench(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "RAWKO_PROVIDER", "RAWKO_MODEL"):
        monkeypatch.delenv(name, raising=False)
    return bench


def test_predictions_are_read_by_swebench_and_apply_to_the_base_commit(bench):
    for name in ("made__up-1", "made__up-2"):
        bench.instance(name)
    bench.run("--name", "rawko-scripted", "--jobs", "2")

    harness = pytest.importorskip("swebench.harness.utils")
    read = harness.get_predictions_from_file(str(bench.out / "predictions.jsonl"), "none", "test")
    assert sorted(each["instance_id"] for each in read) == ["made__up-1", "made__up-2"]
    for each in read:
        assert set(each) == {"instance_id", "model_name_or_path", "model_patch"}
        repo = bench.tasks / each["instance_id"] / "repo"
        bench.git(repo, "checkout", "--quiet", "HEAD~1")
        patch = bench.place / "patch.diff"
        patch.write_text(each["model_patch"])
        bench.git(repo, "apply", str(patch))
        assert "width * height" in (repo / "shapes.py").read_text()
        assert (repo / "notes" / "why ü.txt").exists()
        assert "pycache" not in each["model_patch"]
        assert json.loads((bench.out / each["instance_id"] / "result.json").read_text())["status"] == "verified"
        assert json.loads((bench.out / each["instance_id"] / "trajectory.json").read_text())["schema_version"] == "ATIF-v1.8"
        assert not (bench.out / each["instance_id"] / "work").exists()


def test_the_copy_holds_the_base_commit_and_nothing_that_came_later(bench):
    bench.instance("made__up-1")
    bench.run("--keep")

    work = bench.out / "made__up-1" / "work"
    assert bench.git(work, "show", "HEAD:shapes.py") == BUGGY
    answer = bench.git(bench.tasks / "made__up-1" / "repo", "rev-parse", "HEAD").strip()
    with pytest.raises(subprocess.CalledProcessError):
        bench.git(work, "cat-file", "-e", answer)


def test_a_task_is_not_done_twice_and_a_cut_line_is_done_again(bench):
    for name in ("made__up-1", "made__up-2"):
        bench.instance(name)
    assert bench.run("--only", "made__up-1") == 0
    first = bench.predictions()
    # A kill in the middle of the second prediction.
    with open(bench.out / "predictions.jsonl", "a") as file:
        file.write('{"instance_id": "made__up-2", "model_')
    bench.script([])

    assert bench.run("--only", "made__up-1") == 0, "no model is asked for a task that is predicted"
    assert bench.predictions() == first
    bench.script(SOLVED)
    assert bench.run() == 0
    assert [each["instance_id"] for each in bench.predictions()] == ["made__up-1", "made__up-2"]


def test_work_that_failed_is_a_prediction_and_a_run_that_could_not_be_made_is_none(bench):
    bench.instance("made__up-1")
    bench.script(UNSOLVED)
    assert bench.run() == 0
    assert bench.predictions()[0]["model_patch"] == ""

    bench.instance("made__up-2")
    (bench.settings / "config.yaml").write_text("no: such key")
    assert bench.run() == 1
    assert len(bench.predictions()) == 1


def test_a_folder_is_filled_from_a_data_set_without_its_solutions(bench, monkeypatch):
    pytest.importorskip("datasets")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(bench.place / "cache"))
    bench.instance("made__up-1")
    instance = json.loads((bench.tasks / "made__up-1" / "instance.json").read_text())
    remote = bench.place / "remote" / "made" / "up"
    remote.parent.mkdir(parents=True)
    (bench.tasks / "made__up-1" / "repo").rename(remote)
    bench.git(bench.place, "-C", str(remote), "config", "uploadpack.allowAnySHA1InWant", "true")
    data = bench.place / "data"
    data.mkdir()
    (data / "test.jsonl").write_text(json.dumps({**instance, "patch": "the answer", "test_patch": "its tests"}) + "\n")
    bench.tasks = bench.place / "filled"
    bench.tasks.mkdir()

    assert bench.run("--dataset", str(data), "--remote", (bench.place / "remote").as_uri()) == 0
    written = json.loads((bench.tasks / "made__up-1" / "instance.json").read_text())
    assert written["problem_statement"] == instance["problem_statement"]
    assert "patch" not in written and "test_patch" not in written
    assert "width * height" in bench.predictions()[0]["model_patch"]


def test_pictures_and_commits_of_an_agent_do_not_spoil_the_patch(bench):
    bench.instance("made__up-1")
    work = bench.place / "work"
    base = json.loads((bench.tasks / "made__up-1" / "instance.json").read_text())["base_commit"]
    rawko_swebench.copy(bench.tasks / "made__up-1" / "repo", base, work)
    (work / "plot.png").write_bytes(b"\x89PNG\0\0")
    (work / "shapes.py").write_text(BUGGY.replace("+", "*"))
    bench.commit(work)

    patch = rawko_swebench.difference(work, base)
    assert "plot.png" not in patch
    assert "+    return width * height" in patch


def test_a_folder_without_tasks_says_so(bench):
    bench.tasks.mkdir()
    with pytest.raises(SystemExit, match="no task at all"):
        bench.run()
    bench.instance("made__up-1")
    with pytest.raises(SystemExit, match="no task made__up-9"):
        bench.run("--only", "made__up-9")

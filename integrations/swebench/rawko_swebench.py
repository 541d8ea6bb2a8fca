"""From a folder of SWE-bench tasks to a predictions file, by running rawko on each.

    TASKS/<instance_id>/instance.json    the instance, as the data set has it
    TASKS/<instance_id>/repo             a git checkout that has its base commit
    OUT/predictions.jsonl                what `swebench.harness.run_evaluation` reads
    OUT/<instance_id>/                   rawko's result, its log, and the trajectory

Each task gets a copy of its own with the base commit alone: no history to look the answer up in. A task whose prediction is in the
file is not done again, so a script that was interrupted goes on where it was; the task that it was in begins anew.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Ends of rawko that say something about the work: done, failed, stopped by a limit. After any other nothing is predicted.
ENDS = (0, 1, 3)
FIELDS = ("instance_id", "base_commit", "problem_statement")
# What tests and tools leave behind, where a project does not ignore it itself.
LEFTOVERS = "__pycache__/\n*.pyc\n.pytest_cache/\n*.egg-info/\n.rawko/\n"
TASK = "Resolve this issue. Change the code of the project, not only its tests.\n\n{problem_statement}"


class Failed(Exception):
    """A task that could not be run, with the reason."""


def instances(tasks: Path, only: list[str]) -> list[dict]:
    """The tasks of a folder, in the order of their names."""
    found = []
    for path in sorted(tasks.glob("*/instance.json")):
        try:
            instance = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise SystemExit(f"{path} is not JSON: {error}") from error
        missing = [field for field in FIELDS if not isinstance(instance.get(field), str)]
        if missing:
            raise SystemExit(f"{path} has no {', '.join(missing)}: write the instance there as the data set has it")
        if instance["instance_id"] != path.parent.name:
            raise SystemExit(f"{path} is of {instance['instance_id']}: name its folder so")
        if not only or instance["instance_id"] in only:
            found.append(instance)
    unknown = set(only) - {instance["instance_id"] for instance in found}
    if unknown or not found:
        raise SystemExit(f"{tasks} has no task {', '.join(sorted(unknown)) or 'at all'}: is there a <instance_id>/instance.json?")
    return found


def predicted(path: Path) -> set[str]:
    """The instances in the predictions file. A last line that a kill cut off is taken out."""
    if not path.exists():
        return set()
    whole, done = [], set()
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        try:
            done.add(json.loads(line)["instance_id"])
        except (ValueError, KeyError, TypeError):
            continue
        whole.append(line if line.endswith("\n") else line + "\n")
    beside = path.with_suffix(".new")
    beside.write_text("".join(whole), encoding="utf-8")
    os.replace(beside, path)
    return done


def git(*arguments: str, cwd: Path) -> str:
    made = subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, text=True, errors="replace")
    if made.returncode:
        raise Failed(f"git {' '.join(arguments)} in {cwd}: {made.stderr.strip()}")
    return made.stdout


def copy(repo: Path, commit: str, work: Path) -> None:
    """The tree of one commit, as a repository of its own without any other."""
    if not repo.is_dir():
        raise Failed(f"{repo} is not there: check the instance's repository out there")
    if work.exists():
        shutil.rmtree(work)
    work.mkdir(parents=True)
    git("init", "--quiet", cwd=work)
    git("fetch", "--quiet", "--depth", "1", "--no-tags", repo.resolve().as_uri(), commit, cwd=work)
    git("checkout", "--quiet", "--detach", "FETCH_HEAD", cwd=work)
    (work / ".git" / "info").mkdir(exist_ok=True)
    (work / ".git" / "info" / "exclude").write_text(LEFTOVERS, encoding="utf-8")


def difference(work: Path, commit: str) -> str:
    """What changed since the commit, also where it was committed, as text: graders take no binary patches."""
    git("add", "--all", cwd=work)
    between = ("diff", "--cached", "--no-color", "--no-ext-diff", "--no-renames")
    counts = git(*between, "--numstat", "-z", commit, cwd=work).split("\0")
    binary = [line.removeprefix("-\t-\t") for line in counts if line.startswith("-\t-\t")]
    return git(*between, commit, "--", ".", *(f":(exclude,top,literal){path}" for path in binary), cwd=work)


def predict(instance: dict, repo: Path, out: Path, rawko: list[str], options: list[str], keep: bool) -> tuple[str, dict]:
    """The patch that rawko makes for an instance, and rawko's result."""
    work = out / "work"
    copy(repo, instance["base_commit"], work)
    task = TASK.format(problem_statement=instance["problem_statement"])
    with open(out / "log.txt", "w", encoding="utf-8") as log:
        ended = subprocess.run(
            [*rawko, "run", "--output", "json", *options, "-"],
            cwd=work,
            input=task,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    if ended.returncode not in ENDS:
        raise Failed(f"rawko ended with status {ended.returncode}: see {out / 'log.txt'}")
    result = json.loads(ended.stdout)
    (out / "result.json").write_text(json.dumps(result, indent=1), encoding="utf-8")
    session = result["session"]
    patch = difference(work, instance["base_commit"])
    (out / "trajectory.json").write_text(
        output([*rawko, "sessions", "export", session, "--format", "atif"], work), encoding="utf-8"
    )
    if not keep:
        shutil.rmtree(work)
    return patch, result


def output(command: list[str], cwd: Path) -> str:
    made = subprocess.run(command, cwd=cwd, capture_output=True, text=True, errors="replace")
    if made.returncode:
        raise Failed(f"{' '.join(command)} ended with status {made.returncode}: {made.stderr.strip()}")
    return made.stdout


def fill(tasks: Path, dataset: str, split: str, only: list[str], remote: str) -> None:
    """Writes the instances of a public data set into the folder, and clones what is missing."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise SystemExit("--dataset needs the package `datasets`: pip install 'rawko-swebench[dataset]'") from error
    for instance in load_dataset(dataset, split=split):
        if only and instance["instance_id"] not in only:
            continue
        place = tasks / instance["instance_id"]
        place.mkdir(parents=True, exist_ok=True)
        # The solution and its tests stay out of the folder.
        kept = {key: value for key, value in instance.items() if key not in ("patch", "test_patch")}
        (place / "instance.json").write_text(json.dumps(kept, indent=1, default=str), encoding="utf-8")
        if not (place / "repo").exists():
            print(f"{instance['instance_id']}: fetching {instance['repo']}", file=sys.stderr)
            # Under its name once it is whole.
            shutil.rmtree(place / "fetched", ignore_errors=True)
            git("init", "--quiet", "fetched", cwd=place)
            address = f"{remote}/{instance['repo']}"
            git("fetch", "--quiet", "--depth", "1", address, instance["base_commit"], cwd=place / "fetched")
            os.replace(place / "fetched", place / "repo")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rawko-swebench", description=__doc__.splitlines()[0])
    parser.add_argument("tasks", type=Path, help="the folder of tasks")
    parser.add_argument("--out", type=Path, required=True, help="where predictions.jsonl and all that belongs to it is written")
    parser.add_argument("--name", default="rawko", help="model_name_or_path of the predictions")
    parser.add_argument("--rawko", default="rawko", help="the program")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="these instances alone")
    parser.add_argument("--jobs", type=int, default=1, help="tasks at a time")
    parser.add_argument("--keep", action="store_true", help="keep the copies that rawko worked in, with its sessions")
    parser.add_argument("--dataset", help="fill the folder from this data set first, such as SWE-bench/SWE-bench_Verified")
    parser.add_argument("--split", default="test")
    parser.add_argument("--remote", default="https://github.com", help="where the repositories of a data set are")
    parser.add_argument("--option", action="append", default=[], help="of rawko run, such as --option=--timeout=30m; repeatable")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    asked = parse(arguments)
    # rawko starts elsewhere, so that a path to it has to hold there.
    program = shutil.which(asked.rawko)
    if program is None:
        raise SystemExit(f"{asked.rawko} is not a program: name it with --rawko")
    rawko = [str(Path(program).resolve())]
    if asked.dataset:
        try:
            fill(asked.tasks, asked.dataset, asked.split, asked.only, asked.remote)
        except Failed as failed:
            raise SystemExit(f"the folder could not be filled: {failed}") from failed
    found = instances(asked.tasks, asked.only)
    asked.out.mkdir(parents=True, exist_ok=True)
    path = asked.out / "predictions.jsonl"
    done = predicted(path)
    writing = threading.Lock()

    def one(instance: dict) -> bool:
        name = instance["instance_id"]
        try:
            patch, result = predict(
                instance, asked.tasks / name / "repo", asked.out.resolve() / name, rawko, asked.option, asked.keep
            )
        except Failed as failed:
            print(f"{name}: NOT predicted: {failed}", file=sys.stderr)
            return False
        line = json.dumps({"instance_id": name, "model_name_or_path": asked.name, "model_patch": patch})
        with writing, open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())
        print(f"{name}: {result['status']}, {len(patch.splitlines())} lines", file=sys.stderr)
        return True

    left = [instance for instance in found if instance["instance_id"] not in done]
    print(f"{len(found)} tasks, {len(found) - len(left)} predicted before", file=sys.stderr)
    with ThreadPoolExecutor(max_workers=max(1, asked.jobs)) as pool:
        ends = list(pool.map(one, left))
    return 0 if all(ends) else 1


if __name__ == "__main__":
    sys.exit(main())

"""What the project asks of the hosting site and of contributors' machines: the files parse, and call what exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKE = re.compile(r"(?:^|[ \t;&|])make((?:[ \t]+[\w=.-]+)+)", re.MULTILINE)
TARGET = re.compile(r"^([a-z][a-z-]*):(?!=)", re.MULTILINE)


def parsed(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    # To YAML 1.1 the key `on` is the word for true.
    return {"on" if key is True else key: value for key, value in content.items()}


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def called_targets(workflow: dict[str, Any]) -> set[str]:
    calls = [words for step in steps(workflow) for words in MAKE.findall(step.get("run", ""))]
    return {word for words in calls for word in words.split() if "=" not in word and not word.startswith("-")}


def targets() -> set[str]:
    return set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))


@pytest.fixture(params=WORKFLOWS, ids=lambda path: path.name)
def workflow(request):
    return parsed(request.param)


def test_they_are_there():
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "nightly.yml"]


def test_every_target_they_call_exists(workflow):
    called = called_targets(workflow)
    assert called
    assert called - targets() == set()


def test_calls_are_found_wherever_they_are_in_a_script():
    script = "cd folder && make check\nPYTHON=python3 make PYTHON=python3.12 test-fast docs\necho remake it\n"
    assert called_targets({"jobs": {"a": {"steps": [{"run": script}, {"uses": "somebody/make"}]}}}) == {
        "check",
        "docs",
        "test-fast",
    }


def test_they_may_only_read(workflow):
    assert workflow["permissions"] == {"contents": "read"}
    assert [job for job in workflow["jobs"].values() if "permissions" in job] == []
    checkouts = [step for step in steps(workflow) if step.get("uses", "").startswith("actions/checkout@")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_they_end(workflow):
    """No job hangs for the six hours that the site allows, and no older run stays in the way of a newer one."""
    assert [name for name, job in workflow["jobs"].items() if not 0 < job["timeout-minutes"] < 360] == []
    assert workflow["concurrency"]["group"]


def test_scripts_take_nothing_from_outside_unquoted(workflow):
    """An expression in a script is pasted in before the shell reads it; values go through the environment instead."""
    assert [step["run"] for step in steps(workflow) if "${{" in step.get("run", "")] == []


def test_every_python_and_every_jdk():
    matrix = parsed(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]["test"]["strategy"]["matrix"]["include"]
    assert {row["python"] for row in matrix} == {"3.10", "3.11", "3.12", "3.13"}
    assert {row["java"] for row in matrix} == {"17", "21"}
    # The oldest Python is also the one that the project promises.
    assert 'requires-python = ">=3.10"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_the_night_runs_everything_and_new_faults():
    nightly = parsed(ROOT / ".github" / "workflows" / "nightly.yml")
    assert "schedule" in nightly["on"]
    assert {"test-all", "test-faults"} <= called_targets(nightly)
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ntest-all:")[2].partition("\n\n")[0]
    assert "--tier all" in recipe


@pytest.mark.parametrize("name", ["bug.yml", "feature.yml"])
def test_issue_forms_have_what_the_site_requires(name):
    form = parsed(ROOT / ".github" / "ISSUE_TEMPLATE" / name)
    assert {"name", "description", "body"} <= form.keys()
    identities = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert identities
    assert len(set(identities)) == len(identities)
    assert all(field["attributes"].get("label") for field in form["body"] if field["type"] != "markdown")
    assert any(field.get("validations", {}).get("required") for field in form["body"])


def test_the_hooks_run_what_check_runs():
    hooks = parsed(ROOT / ".pre-commit-config.yaml")["repos"]
    local = [hook["entry"].removeprefix(".venv/bin/") for repo in hooks if repo["repo"] == "local" for hook in repo["hooks"]]
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ncheck:")[2].partition("\n\n")[0]
    checks = re.findall(r"\$\(BIN\)/(.+)", recipe)
    assert len(checks) >= 3
    # A hook mends what the check would only report.
    assert [check for check in checks if check.replace("format --check", "format").removesuffix(" .") not in
            {entry.removesuffix(" --fix") for entry in local}] == []  # fmt: skip

"""`holdfast new`: names, templates, and projects, each of which passes its own tests without Spark."""

from __future__ import annotations

import json
import os
import runpy
import stat
import subprocess
import sys
from importlib.resources import files

import pytest

import holdfast as hf
from holdfast.cli.main import main
from holdfast.errors import InputError
from holdfast.starter import templates as templates_module
from holdfast.starter.beginnings import BEGINNINGS
from holdfast.starter.from_recipes import kebab
from holdfast.starter.names import package_name
from holdfast.starter.project import make_project
from holdfast.starter.templates import find_template, templates

OURS = ("dedup", "sessions", "velocity")
COLUMNS = {"RunningCountColumns", "AssignIndexColumns", "FirstOccurrenceColumns"}
"""Twins of recipes that have a template."""
RECIPES = tuple(kebab(one.recipe) for one in BEGINNINGS)
SHOWN = (OURS[0], "sequence")
"""Templates whose projects are tested by day: those of recipes have one skeleton."""


@pytest.mark.parametrize("name", ["card-alerts", "a", "a_b-c2", "x" * 64])
def test_a_name_gives_its_package(name):
    assert package_name(name) == name.replace("-", "_")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Card",
        "1st",
        "-a",
        "a-",
        "a--b",
        "a.b",
        "a/b",
        "../a",
        "a b",
        "ä",
        "x" * 65,
        "class",
        "json",
        "pyspark",
        "holdfast",
    ],
)
def test_a_name_that_cannot_be_is_refused(name, tmp_path):
    with pytest.raises(InputError, match="cannot be the name of a project"):
        make_project(name, "velocity", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_templates_are_found_and_say_what_they_are(capsys):
    assert tuple(templates()) == (*RECIPES, *OURS)
    assert main(["new", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(f" {template.name} " in shown for template in templates().values())
    assert main(["new", "--list", "--json"]) == 0
    told = {one["name"]: one["summary"] for one in json.loads(capsys.readouterr().out)}
    assert told == {template.name: template.summary for template in templates().values()}


def test_every_recipe_can_be_begun_with():
    functions = (hf.DoFn, hf.CombineFn)
    classes = {name for name, one in vars(hf.recipes).items() if isinstance(one, type) and issubclass(one, functions)}
    assert {kebab(name) for name in classes - COLUMNS} <= set(templates())


def test_a_recipe_is_found_by_its_class_too():
    assert find_template("SlidingLimit") is not None
    assert find_template("SlidingLimit").name == find_template("sliding-limit").name == "sliding-limit"


@pytest.mark.parametrize("beginning", BEGINNINGS, ids=lambda one: one.recipe)
def test_what_a_recipe_begins_with_comes_out_as_it_says(beginning, tmp_path, monkeypatch):
    """The tests of the project, run in this process; that they pass in one of their own is shown for some."""
    made = make_project("mine", kebab(beginning.recipe), tmp_path)
    monkeypatch.syspath_prepend(str(made / "src"))
    module = kebab(beginning.recipe).replace("-", "_")
    for name in ("mine", f"mine.{module}"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    tests = runpy.run_path(str(made / "tests" / f"test_{module}.py"))
    found = [test for name, test in tests.items() if name.startswith("test_")]
    assert len(found) >= 2
    for test in found:
        test()
    for name in ("mine", f"mine.{module}"):
        sys.modules.pop(name, None)
    assert len(beginning.keys) == beginning.wanted.count("\n") + 1
    rows = [json.loads(line) for line in (made / "sample" / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == len(beginning.elements) + 1


def test_a_template_that_is_not_there_is_told_with_those_that_are(tmp_path, capsys):
    assert main(["new", "mine", "--from", "nothing", "--in", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "--from: there is no template 'nothing'" in said
    assert all(name in said for name in OURS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", ["file", "folder", "link"])
def test_nothing_is_written_over(there, tmp_path):
    (tmp_path / "other").mkdir()
    if there == "folder":
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "letter").write_text("dear")
    elif there == "file":
        (tmp_path / "mine").write_text("dear")
    else:
        (tmp_path / "mine").symlink_to(tmp_path / "other")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="there is something at"):
        make_project("mine", "velocity", tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_fails_half_way_leaves_nothing(tmp_path, monkeypatch):
    text = templates_module.Template.text

    def failing(self, file):
        if file == "sample.jsonl":
            raise OSError("no space left")
        return text(self, file)

    monkeypatch.setattr(templates_module.Template, "text", failing)
    with pytest.raises(OSError, match="no space"):
        make_project("mine", "velocity", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_it_made(tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    assert main(["new", "mine", "--in", str(tmp_path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    made = {str(path.relative_to(tmp_path / "mine")) for path in (tmp_path / "mine").rglob("*") if path.is_file()}
    assert set(said["files"]) == made
    assert {
        "README.md",
        "pyproject.toml",
        ".github/workflows/tests.yml",
        "src/mine/velocity.py",
        "tests/test_job.py",
    } <= made
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o755
    assert main(["new", "yours", "--in", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith(f"\n\nNext: cd {tmp_path / 'yours'}, and see its README.md.\n")
    assert main(["new"]) == 1
    assert "NAME is missing" in capsys.readouterr().err


def test_templates_of_another_package_are_found(tmp_path, monkeypatch):
    """A package of its own form: what is needed so that recipes can be begun with."""
    folder = tmp_path / "others" / "templates" / "own"
    folder.mkdir(parents=True)
    (tmp_path / "others" / "__init__.py").write_text("")
    for entry in files("holdfast.starter").joinpath("templates").joinpath("dedup").iterdir():
        (folder / entry.name).write_text(entry.read_text().replace("$package.dedup", "$package.own"))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(templates_module, "HOMES", ["holdfast.starter", "others"])
    assert set(templates()) == {*RECIPES, *OURS, "own"}
    made = make_project("mine", "own", tmp_path)
    assert "from mine.own import FirstOnly" in (made / "src" / "mine" / "job.py").read_text()
    assert find_template("own").summary in (made / "README.md").read_text()


@pytest.mark.parametrize(
    "template", [*SHOWN, *(pytest.param(name, marks=pytest.mark.night) for name in RECIPES if name not in SHOWN)]
)
def test_a_project_passes_its_own_tests_and_checks(template, tmp_path):
    made = make_project("my-project", template, tmp_path)
    text = "".join(path.read_text() for path in made.rglob("*") if path.is_file())
    assert "$" not in text.replace("${{ matrix.python }}", "")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    commands = [["pytest", "-q", "-p", "no:cacheprovider", "-m", "not spark"], ["ruff", "check", "."]]
    for command in [*commands, ["ruff", "format", "--check", "."]]:
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=made, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        if command[0] == "pytest":
            assert "passed, 1 deselected" in done.stdout


@pytest.mark.night
@pytest.mark.slow
@pytest.mark.parametrize("template", [*OURS, *RECIPES])
def test_its_test_on_spark_and_its_job_run(template, tmp_path, capsys):
    made = make_project("my-project", template, tmp_path)
    job = [sys.executable, "-m", "my_project.job", "sample", "out"]
    environment = {**os.environ, "PYTHONPATH": str(made / "src"), "XDG_STATE_HOME": str(tmp_path / "state")}
    for command in ([sys.executable, "-m", "pytest", "-q", "-m", "spark"], job):
        done = subprocess.run(command, cwd=made, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert list((made / "out" / "rows").rglob("*.parquet"))
    assert main(["state", "show", str(made / "out" / "checkpoint"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"], "there is something to see, as the README promises"

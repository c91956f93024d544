"""The package as a whole: its public names, what imports what, and its errors."""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import inspect
import json
import pickle
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import holdfast
import holdfast.model
from holdfast import errors, ops

SOURCES = Path(holdfast.__file__).parent
FOREIGN = ("pandas", "pyarrow", "pyspark", "xxhash")

# What parts of the model offer to each other, and not to users.
INNER_MODULES = {
    "holdfast.model.coders.base",
    "holdfast.model.coders.blocks",
    "holdfast.model.coders.column_types",
    "holdfast.model.coders.extensions",
    "holdfast.model.coders.integers",
    "holdfast.model.coders.plain_format",
    "holdfast.model.coders.record_shapes",
    "holdfast.model.coders.sessions",
    "holdfast.model.functions.culprits",
    "holdfast.model.docs",
    "holdfast.model.functions.batch_checks",
    "holdfast.model.extras",
    "holdfast.model.foreign",
    "holdfast.model.functions.options",
    "holdfast.model.functions.params",
    "holdfast.model.functions.lookup",
    "holdfast.model.functions.plain_functions",
    "holdfast.model.aggregate.partials",
    "holdfast.model.present",
    "holdfast.model.state.sessions",
    "holdfast.model.functions.signature",
    "holdfast.model.functions.step",
    "holdfast.model.time.units",
    "holdfast.model.functions.triggered",
    "holdfast.model.functions.undeclared",
    "holdfast.model.state.methods",
    "holdfast.model.windows.codec",
    "holdfast.model.windows.windowing",
}
INNER_NAMES = {
    "BuiltinSum",
    "CallableCombineFn",
    "Distribution",
    "Encoded",
    "FieldCombineFn",
    "Grouping",
    "Mask",
    "Moment",
    "OpaqueCoder",
    "Positions",
    "ValueColumns",
    "PlainFunction",
    "Wake",
    "as_function",
    "build",
    "build_grouping",
    "RecordViewCoder",
    "RowViewCoder",
    "StructSchema",
    "UserMetrics",
    "coder_from_description",
    "default_coder",
    "own_side_inputs",
    "timers_of",
    "window_from_bytes",
    "window_to_bytes",
}


def public_things():
    """What the public names stand for. Those that need Spark are looked up in it, so they are left out without it."""
    for name in holdfast.__all__:
        try:
            yield name, getattr(holdfast, name, None)
        except ModuleNotFoundError as missing:
            if str(missing.name).partition(".")[0] not in FOREIGN:
                raise


class TestPublicNames:
    def test_each_once_and_sorted(self):
        """Constants, then classes, then the rest, each by the alphabet."""

        def rank(name):
            return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)

        assert list(holdfast.__all__) == sorted(set(holdfast.__all__), key=rank)

    def test_each_is_there(self):
        assert [name for name, thing in public_things() if thing is None] == []

    def test_what_is_there_is_named(self):
        imported = [
            name
            for name, thing in vars(holdfast).items()
            if not name.startswith("_") and not isinstance(thing, types.ModuleType)
        ]
        assert [name for name in imported if name not in holdfast.__all__] == []

    def test_nothing_of_the_model_was_forgotten(self):
        forgotten = {}
        for found in pkgutil.walk_packages(holdfast.model.__path__, "holdfast.model."):
            module = importlib.import_module(found.name)
            if found.name not in INNER_MODULES:
                public = holdfast.flink.__all__ if ".flink." in found.name else holdfast.__all__
                missing = {name for name in getattr(module, "__all__", ()) if name not in public}
                aliases = {name for name in missing if name.endswith("CombineFn")}
                forgotten[found.name] = missing - INNER_NAMES - aliases
        assert {name: missing for name, missing in forgotten.items() if missing} == {}

    def test_all_are_listed_also_those_that_are_looked_up_later(self):
        assert set(dir(holdfast)) >= {*holdfast.__all__, "__doc__", "__file__"}
        assert set(dir(ops)) >= {*ops.__all__, "__doc__", "__file__"}

    def test_every_name_of_ops_is_there(self):
        pytest.importorskip("pyspark")
        assert list(ops._HOMES) == ops.__all__
        assert [name for name in ops.__all__ if getattr(ops, name).__module__ != ops._HOMES[name]] == []

    def test_every_public_class_has_a_docstring_of_its_own(self):
        classes = {name: thing for name, thing in public_things() if inspect.isclass(thing)}
        assert len(classes) > 50
        assert [name for name, cls in classes.items() if not cls.__dict__.get("__doc__")] == []

    def test_the_version(self):
        assert re.fullmatch(r"\d+\.\d+\.\d+\S*", holdfast.__version__)
        project = (SOURCES.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
        assert f'version = "{holdfast.__version__}"' in project


def modules_of(*packages):
    """Files of these packages, by the name of their module."""
    for package in packages:
        for path in sorted((SOURCES / package).rglob("*.py")):
            yield ".".join(path.relative_to(SOURCES.parent).with_suffix("").parts).removesuffix(".__init__"), path


@functools.cache
def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path, inside_functions=True):
    """The modules that a file imports."""
    tree = parsed(path)
    hidden = set()
    if not inside_functions:
        functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        hidden = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            if node.module == "holdfast":
                yield from (f"holdfast.{alias.name}" for alias in node.names)
            else:
                yield node.module


PACKAGES = ["model", "engine", "recipes", "checkpoint", "watch", "spark", "ops", "ui", "demo", "starter", "learn", "cli"]
"""From the lowest to the highest. Whatever a module imports is in its own package, or in one before it. `learn` may use
`testing` too: its exercises are checked with it."""

ROOMS = {
    "model": ["time", "coders", "windows", "aggregate", "state", "flink", "functions"],
    "engine": ["tables", "state", "metrics", "log", "stored", "backends", "run"],
    "checkpoint": ["files", "store"],
    "watch": ["health", "outlets"],
    "spark": ["session", "errors", "types", "stages", "steps", "graph", "api", "sources", "sinks", "job"],
    "ops": ["reading", "inspect", "upkeep", "move"],
    "ui": ["reading", "api"],
}


def may_import(own, module):
    if PACKAGES[own] == "learn" and part_of(module) == "testing":
        return True
    return part_of(module) == "errors" or module in {"holdfast.ops"} or part_of(module) in PACKAGES[: own + 1]


def rank_of(module):
    """Where a module's room stands in its package; what is in no room is below those of `model` and `watch`, else above."""
    _, package, *room = module.split(".")
    if room and room[0] in ROOMS[package]:
        return ROOMS[package].index(room[0])
    return -1 if package in ("model", "watch") else len(ROOMS[package])


def part_of(module):
    """Which part of the package a module is in: `holdfast.model.functions.dofn` is in the model."""
    return module.split(".")[1] if "." in module else ""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """The modules of a fresh process that imported all this. Foreign ones have stand-ins, so they can be loaded."""
    stand_ins = tmp_path_factory.mktemp("stand_ins")
    for name in FOREIGN:
        (stand_ins / f"{name}.py").write_text("", encoding="utf-8")
    parts = ["holdfast", *(name for name, _ in modules_of("model", "engine")), "holdfast.testing"]
    lines = [
        "import importlib, json, sys",
        f"sys.path.insert(0, {str(stand_ins)!r})",
        f"for part in {parts!r}:",
        "    importlib.import_module(part)",
        "print(json.dumps(sorted(sys.modules)))",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


class TestImports:
    """Imports point downwards: errors, model, engine, and then what builds on them."""

    def test_nothing_loads_spark(self, loaded):
        assert {
            "holdfast",
            "holdfast.model.functions.dofn",
            "holdfast.engine.run.step_runner",
            "holdfast.testing.run",
        } <= loaded
        assert {name for name in loaded if name.partition(".")[0] in FOREIGN} == set()
        assert {name for name in loaded if part_of(name) == "spark" and name.startswith("holdfast.")} == set()

    def test_nothing_below_names_spark(self):
        for name, path in modules_of("model", "engine"):
            assert not [m for m in imports(path) if m.partition(".")[0] in FOREIGN], name

    def test_errors_need_nothing(self):
        assert [m for m in imports(SOURCES / "errors.py") if m.startswith("holdfast")] == []

    def test_packages_import_downwards(self):
        found = dict(modules_of(*PACKAGES))
        assert len(found) > 200
        for name, path in found.items():
            own = PACKAGES.index(part_of(name))
            assert [m for m in imports(path) if m.startswith("holdfast.") and not may_import(own, m)] == [], name

    def test_rooms_import_downwards(self):
        for package, rooms in ROOMS.items():
            assert {path.name for path in (SOURCES / package).iterdir() if (path / "__init__.py").exists()} == set(rooms)
            for name, path in modules_of(package):
                if name != f"holdfast.{package}":
                    own = rank_of(name)
                    assert [m for m in imports(path) if part_of(m) == package and rank_of(m) > own] == [], name

    def test_testing_builds_on_the_engine(self):
        for name, path in modules_of("testing"):
            if path.stem.startswith("spark"):
                continue
            ours = [m for m in imports(path, inside_functions=False) if m.startswith("holdfast")]
            assert [m for m in ours if part_of(m) not in {"errors", "model", "engine", "testing"}] == [], name

    def test_the_check_can_fail(self, tmp_path):
        path = tmp_path / "module.py"
        path.write_text("from holdfast import engine\ndef f():\n    import pyspark.sql\n", encoding="utf-8")
        assert list(imports(path)) == ["holdfast.engine", "pyspark.sql"]
        assert list(imports(path, inside_functions=False)) == ["holdfast.engine"]


def error_classes():
    return [thing for thing in vars(errors).values() if inspect.isclass(thing) and issubclass(thing, Exception)]


def documented_tree():
    """Name → (name of the parent, name of the builtin class it also is), as the docstring draws it."""
    found = {}
    above = []
    line_of_tree = re.compile(r"^ {4}(?P<indent>[│├└─ ]*)(?P<name>[A-Z]\w+)(?P<text>.*)$")
    for line in errors.__doc__.splitlines():
        match = line_of_tree.match(line)
        if match is None:
            continue
        depth = len(match["indent"]) // 4
        above[depth:] = [match["name"]]
        also = re.search(r"\(also an? (\w+)\)", match["text"])
        found[match["name"]] = (above[depth - 1] if depth else None, also and also[1])
    return found


def example_of(cls):
    """An error with all its parts."""
    if cls is errors.InvalidStep:
        error = cls("payments", ["one is wrong.", "another is wrong."])
        error.todo = "mend both"
        return error.within(step="payments", micro_batch=3)
    return cls("It broke.", detail="line one\nline two", todo="mend it", context={"step": "payments", "key": ("a", 1)})


class TestErrors:
    def test_the_tree_of_the_docstring_is_that_of_the_classes(self):
        drawn = documented_tree()
        assert set(drawn) == {cls.__name__ for cls in error_classes()} == set(errors.__all__)
        for cls in error_classes():
            parents = [base.__name__ for base in cls.__bases__ if base in error_classes()]
            builtin = [base.__name__ for base in cls.__bases__ if base.__module__ == "builtins"]
            parent, also = drawn[cls.__name__]
            if cls is errors.HoldfastError:
                assert (parent, also, builtin) == (None, None, ["Exception"])
            else:
                assert ([parent], [also] if also else []) == (parents, builtin), cls.__name__

    def test_every_error_is_public(self):
        assert {name for name in errors.__all__ if name not in holdfast.__all__} == set()

    @pytest.mark.parametrize("again", [lambda e: pickle.loads(pickle.dumps(e)), copy.copy, copy.deepcopy])
    @pytest.mark.parametrize("cls", error_classes(), ids=lambda cls: cls.__name__)
    def test_an_error_comes_through_with_all_its_parts(self, cls, again):
        error = example_of(cls)
        error.within(cell="total")
        error.note = "an attribute of its own"
        same = again(error)
        assert type(same) is cls
        assert vars(same) == vars(error)
        assert {"what", "detail", "todo", "context"} <= set(vars(same))
        assert same.args == error.args
        assert str(same) == str(error)

    @pytest.mark.parametrize("cls", error_classes(), ids=lambda cls: cls.__name__)
    def test_the_three_parts_of_the_message(self, cls):
        error = example_of(cls)
        lines = str(error).splitlines()
        assert lines[0] == error.what
        assert lines[1].startswith("  where: step 'payments', ")
        assert lines[2:-1] == [f"  {line}" for line in error.detail.splitlines()]
        assert lines[-1] == f"  what to do: {error.todo}"

    def test_what_is_known_already_stays(self):
        error = errors.CoderError("no", context={"cell": "a"})
        assert error.within(cell="b", key=5) is error
        assert error.context == {"cell": "a", "key": 5}

    def test_a_short_error_is_one_line(self):
        assert str(errors.TimeError("It is too late.")) == "It is too late."

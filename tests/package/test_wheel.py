"""The wheel, as users get it: built from the sources, installed in an empty environment, and used there without Spark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
# What pip says when it cannot reach the index, rather than when it does not find what it asks for there.
NO_NETWORK = ("Failed to establish a new connection", "Temporary failure in name resolution", "Network is unreachable",
              "Connection refused", "Connection reset", "Read timed out", "ConnectTimeoutError", "ProxyError")  # fmt: skip

USE = """
import holdfast as hf
from holdfast.testing import TestStream, run


class Count(hf.DoFn):
    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())

    def process(self, element, count=hf.DoFn.StateParam(COUNT)):
        number = (count.read() or 0) + 1
        count.write(number)
        yield element[0], number


stream = TestStream().add_elements([("a", 1), ("b", 1)]).crash().add_elements([("a", 1)]).advance_watermark_to_infinity()
results = run(Count(), stream)
print(hf.__file__)
print(sorted(result.value for result in results))
print(results.state("a"))
"""


INSTALL = "pip install 'holdfast[spark]'"
TOOLS = "pip install 'holdfast[tools]'"
LOOKING = [["state", "ls"], ["state", "show"], ["state", "diff"], ["state", "history"], ["checkpoint", "verify"]]
"""They need no Spark for a local checkpoint."""
COMMANDS = [
    words.split()
    for words in (
        "state ls c", "state show c", "state diff c --from 1 --to 2", "state history c --key k", "state export c d",
        "state import d c", "savepoint create c d", "savepoint ls c", "savepoint verify c", "savepoint restore c d",
        "checkpoint show c", "checkpoint verify c", "checkpoint repair c", "stop c", "rescale c --partitions 2", "advise c",
        "run job.py", "jars kafka",
    )
]  # fmt: skip
"""Every command but `doctor`, `health`, `learn` and `top`."""


def clean_environment() -> dict[str, str]:
    """Nothing of this process that would let the sources in."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def call(*command: object, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**clean_environment(), "XDG_STATE_HOME": str(folder / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


def pip(python: Path | str, *words: object, folder: Path) -> None:
    """Runs pip; skips the test if the package index cannot be reached."""
    done = call(python, "-m", "pip", "--disable-pip-version-check", "--retries=1", "--timeout=10", *words, folder=folder)
    said = done.stdout + done.stderr
    if done.returncode != 0 and any(sign in said for sign in NO_NETWORK):
        pytest.skip("The package index cannot be reached, so nothing can be installed in an empty environment.")
    assert done.returncode == 0, said


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that nothing left over from an earlier build gets into it."""
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "holdfast"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, copy / name)
    shutil.copytree(SOURCES, copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", folder, copy, folder=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def empty(wheel, tmp_path_factory):
    """An environment with the wheel and what it requires, without any extra."""
    folder = tmp_path_factory.mktemp("empty")
    # Without a pip of its own, which takes longer to install than all the rest.
    venv.create(folder, with_pip=False)
    pip(sys.executable, "--python", folder / "bin" / "python", "install", "--quiet", wheel, folder=folder)
    return folder


def left_out(wheel: Path, sources: Path) -> list[str]:
    """Files of the sources that are not in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    files = [path for path in (sources / "holdfast").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return sorted({path.relative_to(sources).as_posix() for path in files} - packed)


def test_every_file_of_the_sources_is_in_it(wheel):
    assert left_out(wheel, SOURCES) == []


@pytest.mark.parametrize("name", ["py.typed", "log4j2.properties", "startup/sitecustomize.py"])
def test_what_is_not_imported_is_in_it_too(wheel, name):
    with zipfile.ZipFile(wheel) as archive:
        assert [entry for entry in archive.namelist() if entry.startswith("holdfast/") and entry.endswith(f"/{name}")]


def test_a_file_that_was_left_out_is_noticed(wheel, tmp_path):
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "data.json").write_text("{}")
    (tmp_path / "holdfast" / "py.typed").write_text("")
    assert left_out(wheel, tmp_path) == ["holdfast/data.json"]


def test_it_needs_no_spark(empty):
    done = call(empty / "bin" / "python", "-c", "import pyspark", folder=empty)
    assert "No module named 'pyspark'" in done.stderr


def test_a_function_runs_in_memory(empty):
    (empty / "use.py").write_text(USE, encoding="utf-8")
    done = call(empty / "bin" / "python", "-W", "error", "use.py", folder=empty)
    assert done.returncode == 0, done.stderr
    place, values, state = done.stdout.splitlines()
    assert Path(place).resolve().is_relative_to(empty.resolve())
    assert values == "[('a', 1), ('a', 2), ('b', 1)]"
    assert state == "{'count': 2}"


@pytest.mark.parametrize(
    ("words", "says"),
    [(["--version"], "holdfast 0."), (["--help"], "Usage"), (["state", "--help"], "Usage"), (["stop", "--help"], "Usage")],
    ids=" ".join,
)
def test_the_command_answers(empty, words, says):
    done = call(empty / "bin" / "holdfast", *words, folder=empty)
    assert done.returncode == 0, done.stderr
    assert says in done.stdout


def test_the_doctor_says_what_is_missing(empty):
    done = call(empty / "bin" / "holdfast", "doctor", "--json", folder=empty)
    assert (done.returncode, done.stderr) == (1, "")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    for name in ("pyspark", "pyarrow", "pandas", "xxhash"):
        assert (checks[name]["status"], checks[name]["found"]) == ("failed", "not installed")
        assert INSTALL in checks[name]["advice"]
    assert checks["numpy"]["status"] == "ok"
    assert checks["a local session"]["found"].startswith("not tried")


@pytest.mark.parametrize("name", ["keyed", "session", "Job", "sinks"])
@pytest.mark.parametrize("line", ["import holdfast as hf; hf.{}", "from holdfast import {}"])
def test_names_that_need_spark_say_what_to_install(empty, name, line):
    done = call(empty / "bin" / "python", "-c", line.format(name), folder=empty)
    wanted = f"hf.{name} needs pyspark, pyarrow, pandas, xxhash and lz4, which are not installed: {INSTALL}"
    assert done.stderr.splitlines()[-1] == f"holdfast.errors.MissingExtra: {wanted}"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_commands_that_need_spark_say_what_to_install(empty, words):
    (empty / "job.py").write_text("import holdfast as hf\nhf.session()\n", encoding="utf-8")
    done = call(empty / "bin" / "holdfast", *words, folder=empty)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith(f"not installed: {TOOLS if words[:2] in LOOKING else INSTALL}")


def test_health_needs_none(empty):
    (empty / "ckpt" / "holdfast" / "history").mkdir(parents=True)
    record = {"kind": "batch", "batch": 7, "at_ms": 1, "steps": {"s": {"keys": 1, "state_bytes": 9 << 30}}}
    (empty / "ckpt" / "holdfast" / "history" / "now.jsonl").write_text(json.dumps(record) + "\n")
    done = call(empty / "bin" / "holdfast", "health", "ckpt", "--json", folder=empty)
    assert (done.returncode, done.stderr) == (4, "")
    assert json.loads(done.stdout)["batch"] == 7


def test_exercises_need_none(empty):
    command = empty / "bin" / "holdfast"
    done = call(command, "learn", "start", "average", folder=empty)
    assert (done.returncode, done.stderr) == (0, "")
    assert call(command, "learn", "check", "average.py", folder=empty).returncode == 1
    (empty / "average.py").write_text(call(command, "learn", "solution", "average", folder=empty).stdout, encoding="utf-8")
    done = call(command, "learn", "check", "average.py", folder=empty)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("words", "extra"), [("top", "top"), ("health ckpt --prometheus", "prometheus")])
def test_commands_that_need_another_extra_say_so(empty, words, extra):
    (empty / "ckpt" / "offsets").mkdir(parents=True, exist_ok=True)
    done = call(empty / "bin" / "holdfast", *words.split(), folder=empty)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith(f"pip install 'holdfast[{extra}]'")


def test_a_script_that_imports_spark_itself(empty):
    (empty / "own.py").write_text("import pyspark.sql\n", encoding="utf-8")
    done = call(empty / "bin" / "holdfast", "run", "own.py", folder=empty)
    assert done.returncode == 1
    assert "import pyspark.sql" in done.stderr
    assert done.stderr.splitlines()[-1] == f"error: The script needs pyspark, which is not installed: {INSTALL}"

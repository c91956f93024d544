"""What type checkers, and so editors, know of a user's code: mypy and pyright read `users_code.py` and must agree."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

# The checkers look into pyspark, whose names are in the signatures.
pytest.importorskip("pyspark")

pytestmark = pytest.mark.slow

SOURCES = Path(holdfast.__file__).parents[1]
CODE = Path(__file__).with_name("users_code.py")
EXPECTED = re.compile(r"reveal_type\(.*\)  # (.+)$")
MYPY_LINE = re.compile(r"^[^:]+:(\d+): (note|error): (.+)$")
REVEALED = re.compile(r'(?:Revealed type is|Type of ".*" is) "(.+)"$', re.DOTALL)
MODULES = re.compile(r"\b(?:[a-z_][a-z_0-9]*\.)+")
SECONDS_MAX = 300


def expected(place: int) -> dict[int, str]:
    """By line, what the comments say: a type (of two, the one at the place), or "error"."""
    found: dict[int, str] = {}
    for number, line in enumerate(CODE.read_text(encoding="utf-8").splitlines(), start=1):
        revealed = EXPECTED.search(line)
        if revealed:
            found[number] = (revealed[1].split(" / ") * 2)[place]
        elif line.endswith("# error"):
            found[number] = "error"
    return found


def findings(messages: list[tuple[int, str, str]]) -> dict[int, str]:
    """By line, what a checker says: the type that it revealed, or "error"."""
    found: dict[int, str] = {}
    for line, severity, text in messages:
        revealed = REVEALED.search(text)
        if revealed:
            found[line] = MODULES.sub("", revealed[1])
        elif severity == "error":
            found[line] = "error"
    return found


def differences(found: dict[int, str], wanted: dict[int, str]) -> list[str]:
    return [
        f"line {line}: {found.get(line, 'nothing')}, not {wanted.get(line, 'nothing')}"
        for line in sorted({*found, *wanted})
        if found.get(line) != wanted.get(line)
    ]


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        env={**os.environ, **environment},
        check=False,
    )


def test_mypy_infers_what_the_comments_say(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nfollow_imports = silent\ncheck_untyped_defs = True\nignore_missing_imports = True\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(settings), "--cache-dir", str(tmp_path / "cache")]
    done = run([*command, "--no-pretty", "--hide-error-context", str(CODE)], MYPYPATH=str(SOURCES))
    lines = [found for line in done.stdout.splitlines() if (found := MYPY_LINE.match(line))]
    assert lines, done.stdout + done.stderr
    found = findings([(int(line[1]), line[2], line[3]) for line in lines])
    assert differences(found, expected(1)) == []


@pytest.mark.night
def test_pyright_infers_what_the_comments_say(tmp_path: Path) -> None:
    checker = pyright()
    shutil.copy(CODE, tmp_path)
    settings = {"extraPaths": [str(SOURCES)], "pythonVersion": "3.10"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    done = run([*checker, "--outputjson", "--pythonpath", sys.executable, "--project", str(tmp_path)])
    said = json.loads(done.stdout)["generalDiagnostics"]
    found = findings([(m["range"]["start"]["line"] + 1, m["severity"], m["message"]) for m in said])
    assert differences(found, expected(0)) == []


def pyright() -> list[str]:
    """The command; without it, which its package fetches when it is first used, the test is skipped."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed: pip install 'pyright[nodejs]'")
    command = [sys.executable, "-m", "pyright"]
    try:
        version = run([*command, "--version"])
    except subprocess.TimeoutExpired:
        pytest.skip(f"pyright did not start within {SECONDS_MAX} seconds; it may have no network to fetch itself from")
    if not re.search(r"pyright \d", version.stdout):
        pytest.skip(f"pyright does not start; it may have no network to fetch itself from: {version.stderr.strip()[-300:]}")
    return command

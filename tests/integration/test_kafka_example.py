"""The example between Kafka and PostgreSQL, by the two commands of its README."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "kafka_to_postgres"


@pytest.fixture
def commands(kafka, postgres_server, tmp_path):
    """The commands of the README, in a copy of the example beside the rest of the project. The services themselves are only
    asked for to know that they can be had."""
    for name in ("src", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("run", "__pycache__"))
    blocks = re.findall(r"```sh\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    assert all(line.startswith(".venv/bin/python ") for line in lines)
    return [[sys.executable, *shlex.split(line)[1:]] for line in lines]


@pytest.mark.night
def test_the_two_commands(commands, tmp_path):
    start, job = commands
    run = tmp_path / "examples" / "kafka_to_postgres" / "run"
    log = tmp_path / "services.log"
    with log.open("wb") as output:
        services = subprocess.Popen(
            start, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 120
        while not (run / "ready").exists():
            assert services.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        done = subprocess.run([*job, "--once"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    finally:
        # As Ctrl-C at a terminal does it: to all processes of the group.
        os.killpg(services.pid, signal.SIGINT)
        services.wait(60)
    assert not re.search("Traceback|FAIL|ERROR", log.read_text()), log.read_text()
    assert done.returncode == 0, done.stderr
    counts = {table: int(count) for table, count in re.findall(r"^(\w+): (\d+) rows$", done.stdout, re.MULTILINE)}
    assert counts.keys() == {"alerts", "newest_alerts", "unreadable", "refused"}
    assert counts["alerts"] >= counts["newest_alerts"] > 0
    assert "Traceback" not in done.stderr
    assert not run.exists()

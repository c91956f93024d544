"""`holdfast demo --serve`: the demo, and after it a job that goes on with payments as they happen, in a dashboard."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request

import pytest

SECONDS_MAX = 240


def live_alerts(database):
    with contextlib.closing(sqlite3.connect(database, timeout=60)) as connection:
        return connection.execute("SELECT count(*) FROM alerts WHERE card LIKE 'live-%'").fetchone()[0]


@pytest.mark.night
def test_the_demo_is_right_goes_on_and_stops(tmp_path):
    folder = tmp_path / "demo"
    command = [sys.executable, "-m", "holdfast", "demo", "--serve", "--payments", "4000", "--folder", str(folder)]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C ends it" in line:
                break
        assert "All is right." in said, said
        url = re.search(r"dashboard at (http://127\.0\.0\.1:\d+/)", said)[1]
        until = time.monotonic() + SECONDS_MAX
        while not live_alerts(folder / "found.db"):
            assert process.poll() is None, process.stdout.read()
            assert time.monotonic() < until, (folder / "job.log").read_text()
            time.sleep(0.2)
        with urllib.request.urlopen(f"{url}api/jobs") as response:
            assert [job["name"] for job in json.load(response)["jobs"]] == ["fraud"]
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(SECONDS_MAX) == 0, rest
        assert "stopping the job" in rest
        assert "none the worse" not in rest
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()
        process.stdout.close()
    assert not (folder / "checkpoint" / "holdfast" / "lock.json").exists()

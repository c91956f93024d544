"""An article on state in Flink: its counter, its SQL, its settings; its time to live is in unit/test_flink.py."""

from __future__ import annotations

import shlex

import pytest

import holdfast as hf
from holdfast.cli.main import main
from holdfast.testing import TestStream, run

from .snippets import run_snippet

HOUR = 3600

COUNTER = """
# Conceptually: what Flink is doing for a tumbling window aggregation
state = {}  # zone_id → (count, total_revenue)

for event in stream:
    zone = event['PULocationID']
    if zone not in state:
        state[zone] = {'count': 0, 'total': 0.0}
    state[zone]['count'] += 1
    state[zone]['total'] += event['total_amount']

# When window closes: emit aggregated results, reset state
"""

RIDES = [(132, 52.0, 600), (48, 9.5, 900), (132, 61.5, 1800), (132, 70.0, 4000), (48, 8.0, 7199)]
"""Zone, amount and time of pickup."""


class ZoneCounter(hf.DoFn):
    """The article's loop, with its dict as a cell."""

    STATE = hf.ValueStateSpec("state")
    CLOSES = hf.TimerSpec("closes", hf.TimeDomain.WATERMARK)

    def process(
        self,
        element,
        window=hf.DoFn.WindowParam,
        state=hf.DoFn.StateParam(STATE),
        closes=hf.DoFn.TimerParam(CLOSES),
    ):
        _, event = element
        sums = state.read() or {"count": 0, "total": 0.0}
        sums["count"] += 1
        sums["total"] += event["total_amount"]
        state.write(sums)
        closes.set(window.end)

    @hf.on_timer(CLOSES)
    def on_close(self, zone=hf.DoFn.KeyParam, state=hf.DoFn.StateParam(STATE)):
        yield zone, state.read()
        state.clear()


def rides():
    elements = [
        hf.TimestampedValue((zone, {"PULocationID": zone, "total_amount": amount}), at) for zone, amount, at in RIDES
    ]
    return TestStream().add_elements(elements[:3]).crash().add_elements(elements[3:])


def test_the_counter_of_each_zone():
    """Changes: the dict is a cell. In each hour it holds what the article's own loop gives for that hour."""
    out = run(ZoneCounter(), rides().advance_watermark_to(2 * HOUR), windowing=hf.FixedWindows(HOUR))
    expected = []
    for hour in range(2):
        events = [{"PULocationID": zone, "total_amount": amount} for zone, amount, at in RIDES if at // HOUR == hour]
        expected += sorted(run_snippet(COUNTER, {}, stream=events)["state"].items())
    assert sorted(out.values[:2]) + sorted(out.values[2:]) == expected
    assert out.keys() == []


def test_trips_and_revenue_of_each_zone_and_hour():
    """Changes: methods for SQL. TUMBLE is FixedWindows, GROUP BY the key, and COUNT and SUM are combiners."""
    trips = hf.CombinePerKey({"num_trips": hf.Count(), "revenue": hf.Sum("total_amount")})
    out = run(trips, rides().advance_watermark_to(2 * HOUR), windowing=hf.FixedWindows(HOUR))
    found = sorted(
        (output.window.start.micros // 3_600_000_000, output.value[0], *output.value[1].values()) for output in out
    )
    assert found == [(0, 48, 1, 9.5), (0, 132, 2, 113.5), (1, 48, 1, 8.0), (1, 132, 1, 70.0)]


SETTINGS = """
state.backend: rocksdb
state.backend.rocksdb.localdir: /tmp/flink-state
state.checkpoints.dir: s3://my-bucket/flink-checkpoints
"""

ENVIRONMENT = """
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()

# Checkpoint every 60 seconds
env.enable_checkpointing(60_000)

# Minimum time between checkpoints (prevent checkpoint overlap under slow conditions)
env.get_checkpoint_config().set_min_pause_between_checkpoints(30_000)

# Tolerate 3 consecutive checkpoint failures before failing the job
env.get_checkpoint_config().set_tolerable_checkpoint_failure_number(3)
"""


def test_the_settings():
    """Changes: the article's file of settings is options of a job. What it says is what the job has: no name differs."""
    pytest.importorskip("pyspark")
    lines = dict(line.split(": ") for line in SETTINGS.strip().splitlines())
    job = hf.Job(
        "rides",
        checkpoint=lines["state.checkpoints.dir"],
        backend=lines["state.backend"],
        state_dir=lines["state.backend.rocksdb.localdir"],
    )
    assert (job.checkpoint, job._backend) == ("s3://my-bucket/flink-checkpoints", "disk")


def test_the_environment():
    """Changes: the import line, which the article leaves out. What it is told are options of a job."""
    pytest.importorskip("pyspark")
    from holdfast.spark.job.triggers import Every

    env = run_snippet(ENVIRONMENT, {"pyflink": "holdfast.flink"})["env"]
    job = hf.Job("rides", checkpoint="/data/rides", **env.job_options())
    assert (job._trigger, job._pause._seconds, job._tolerated_failures) == (Every(hf.Duration(60)), 30, 3)


COMMANDS = """
# Trigger a savepoint
flink savepoint <job-id> s3://my-bucket/savepoints/

# Restart the job with new parallelism from the savepoint
flink run -p 8 -s s3://my-bucket/savepoints/savepoint-xxx \\
  -py /opt/src/job/aggregation_job.py
"""


def test_the_commands(tmp_path, monkeypatch, capsys):
    """Changes: the program's name, and the job's name for its id. Both are understood: what is missing is the job,
    and the savepoint. `ops/test_savepoint_by_name.py` and `ops/test_run_from.py` have both."""
    pytest.importorskip("pyspark")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    text = COMMANDS
    changes = {"flink ": "holdfast ", "<job-id>": "rides", "s3://my-bucket": str(tmp_path), "\\\n": " "}
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    savepoint, restart = (shlex.split(line)[1:] for line in text.splitlines() if line.startswith("holdfast "))
    assert main(savepoint) == 1
    assert "No job 'rides' is running" in capsys.readouterr().err
    assert restart == [
        "run",
        "-p",
        "8",
        "-s",
        f"{tmp_path}/savepoints/savepoint-xxx",
        "-py",
        "/opt/src/job/aggregation_job.py",
    ]
    assert main(restart) == 1
    assert f"There is nothing at '{tmp_path}/savepoints/savepoint-xxx'" in capsys.readouterr().err


def test_what_follows_the_script_is_its_own(tmp_path, capfd):
    pytest.importorskip("pyspark")
    script = tmp_path / "job.py"
    script.write_text("import sys\nprint(sys.argv[1:])\n", encoding="utf-8")
    assert main(["run", "-py", str(script), "-py", "8"]) == 0
    assert capfd.readouterr().out == "['-py', '8']\n"

"""The demo: its folder, in which nothing that is there already is touched; what it plants; and its judgement."""

from __future__ import annotations

import random
import re
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.cli.main import main
from holdfast.demo import live, runs
from holdfast.demo.by_hand import by_hand, seconds_of
from holdfast.demo.folder import Folder
from holdfast.demo.payments import WATERMARK_SECONDS, generate, live_payments, write_file
from holdfast.demo.report import Verdict, print_table
from holdfast.demo.runs import run_job
from holdfast.demo.travel import ImpossibleTravel
from holdfast.demo.velocity import Velocity
from holdfast.errors import InputError, JobFailed
from holdfast.testing import TestStream, run

ROOT = Path(__file__).parents[2]


@pytest.fixture
def shared(monkeypatch, tmp_path):
    """Where temporary folders are made."""
    folder = tmp_path / "shared"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_link_that_was_planted_leads_nowhere(shared, tmp_path):
    """A link of the folder's former name once emptied what it led to."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    (shared / "holdfast-demo").symlink_to(tmp_path / "mine")
    folders = {Folder.new(None).path for _ in range(3)}
    assert len(folders) == 3
    for folder in folders:
        assert folder.parent == shared.resolve()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert list(folder.iterdir()) == []
    assert (tmp_path / "mine" / "letter").read_text() == "dear"


def test_a_folder_of_ones_own_must_be_empty(tmp_path):
    assert Folder.new(tmp_path / "new" / "one").path == (tmp_path / "new" / "one").resolve()
    assert Folder.new(tmp_path / "new" / "one").path.is_dir()
    (tmp_path / "new" / "one" / "letter").write_text("dear")
    with pytest.raises(InputError, match="there is something in"):
        Folder.new(tmp_path / "new" / "one")
    assert (tmp_path / "new" / "one" / "letter").read_text() == "dear"


def test_no_program_of_ours_has_a_name_in_a_shared_folder_that_can_be_foreseen():
    """Whoever knows the name beforehand can put a link there. Names come from tempfile."""
    foreseen = re.compile(r"mktemp\(|/tmp\b|gettempdir\(\)\)? *[/+]")
    found = []
    for part in ("src", "examples", "benchmarks", "scripts"):
        for path in (ROOT / part).rglob("*"):
            if path.is_file() and path.suffix in (".py", ""):
                lines = path.read_text(errors="replace").splitlines()
                found += [f"{path.relative_to(ROOT)}: {line.strip()}" for line in lines if foreseen.search(line)]
    assert found == []


def test_the_rules_find_and_refuse_what_was_planted_and_what_was_worked_out_by_hand():
    payments, planted = generate(3, cards=100, payments=800, hours=12, fraud=3)
    end = seconds_of(payments[-1]) - WATERMARK_SECONDS
    elements = [hf.TimestampedValue((p.card, p), seconds_of(p)) for p in payments if seconds_of(p) <= end]
    alerts, letters = by_hand(payments)
    for name, rule in (("velocity", Velocity), ("travel", ImpossibleTravel)):
        out = run(rule(), TestStream().add_elements(elements), on_error="dead_letter", outputs={"dead_letter": None})
        assert sorted(value[0] for value in out.values) == sorted(card for rule, card, _ in alerts if rule == name)
        refused = {letter.value.payment for letter in out.tagged("dead_letter")}
        assert refused == planted.malformed[name] == {number for rule, number, _ in letters if rule == name}
        assert planted.cards[name] <= {value[0] for value in out.values}


ONE, OTHER = ("travel", "card-1", "12:00:00"), ("travel", "card-2", "12:00:00")


@pytest.mark.parametrize(
    ("got", "counts"),
    [
        ([ONE, OTHER], (2, 0, 0, 0)),
        ([ONE], (1, 1, 0, 0)),
        ([ONE, OTHER, ONE], (3, 0, 1, 0)),
        ([ONE, OTHER, ("travel", "card-1", "13:00:00")], (3, 0, 0, 1)),
    ],
    ids=["right", "lost", "doubled", "invented"],
)
def test_whatever_is_lost_doubled_or_invented_is_wrong(got, counts):
    verdict = Verdict("alerts", "travel", got, [OTHER, ONE], frozenset({"card-1"}))
    assert verdict.row[2:6] == counts
    assert verdict.is_right == (counts == (2, 0, 0, 0))


def test_what_was_planted_and_is_not_found_is_wrong_whatever_was_worked_out_by_hand():
    verdict = Verdict("alerts", "travel", [ONE], [ONE], frozenset({"card-1", "card-2"}))
    assert not verdict.is_right
    assert verdict.row[6:] == ("1.00", "0.50")


def test_columns_are_as_wide_as_what_is_in_them_and_numbers_are_to_the_right(capsys):
    print_table(("name", "rows"), [("velocity", 7), ("x", 12345)])
    assert capsys.readouterr().out.splitlines() == ["  name       rows", "  velocity      7", "  x         12345"]


def test_a_job_that_fails_ends_the_demo_with_its_log(monkeypatch, tmp_path):
    def failing(folder):
        with folder.log.open("ab") as log:
            return subprocess.Popen([sys.executable, "-c", "raise SystemExit('no Java here')"], stderr=log)

    monkeypatch.setattr(runs, "start_job", failing)
    for until in (None, 8):
        with pytest.raises(JobFailed, match="no Java here"):
            run_job(Folder(tmp_path), "first run", until)


def test_payments_as_they_happen_are_numbered_and_of_the_last_second():
    draw = random.Random(1)
    first, seconds = 0, [live_payments(draw, 0, 50_000, 1_800_000_000.0)]
    for second in range(1, 200):
        first += len(seconds[-1])
        seconds.append(live_payments(draw, first, 50_000, 1_800_000_000.0 + second))
    payments = [payment for one in seconds for payment in one]
    assert [payment.payment for payment in payments] == list(range(len(payments)))
    for second, one in enumerate(seconds):
        assert all(-1.001 <= seconds_of(payment) - 1_800_000_000.0 - second <= 0 for payment in one)
    alerts, letters = by_hand(sorted(payments, key=seconds_of))
    assert {rule for rule, _, _ in alerts} == {rule for rule, _, _ in letters} == {"velocity", "travel"}
    assert 20 < len(alerts) < 120, "some, but honest cards are left alone"


def test_a_file_is_seen_when_all_of_it_is_there(tmp_path, monkeypatch):
    """Spark reads no file whose name begins with a dot."""
    seen = []
    rename = Path.rename

    def noted(self, to):
        seen.append(self.name)
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", noted)
    write_file(live_payments(random.Random(1), 0, 10, 0.0), tmp_path / "a.json")
    assert seen == [".a.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


STAND_IN = """
import pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path(sys.argv[1]).write_text("ended"), sys.exit(0)))
print("ready", flush=True)
signal.pause()
"""


def test_told_to_end_it_stops_the_job_and_waits_for_it(monkeypatch, tmp_path):
    started = []

    def start(folder, word):
        assert word == "--live"
        command = [sys.executable, "-c", STAND_IN, str(tmp_path / "said")]
        process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
        started.append(process)
        signal.raise_signal(signal.SIGINT)
        return process

    monkeypatch.setattr(live, "start_job", start)
    (tmp_path / "input").mkdir()
    # Spark, if it was started in this process, has a handler of its own.
    before = signal.getsignal(signal.SIGINT)
    live.keep_running(Folder(tmp_path), 7, 100)
    started[0].stdout.close()
    assert (tmp_path / "said").read_text() == "ended"
    assert started[0].returncode == 0
    assert [path.name for path in (tmp_path / "input").iterdir()] == ["live-000000.json"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_job_that_goes_on_and_fails_is_told(monkeypatch, tmp_path):
    def start(folder, word):
        folder.log.write_text("no Java here")
        process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(5)"], start_new_session=True)
        process.wait()
        return process

    monkeypatch.setattr(live, "start_job", start)
    monkeypatch.setattr(live, "SECONDS", 0.0)
    (tmp_path / "input").mkdir()
    with pytest.raises(JobFailed, match="with exit code 5"):
        live.keep_running(Folder(tmp_path), 7, 0)


def test_wrong_options_are_told(tmp_path, capsys):
    (tmp_path / "letter").write_text("dear")
    assert main(["demo", "--folder", str(tmp_path)]) == 1
    assert "--folder: there is something in" in capsys.readouterr().err
    assert main(["demo", "--payments", "10"]) == 2

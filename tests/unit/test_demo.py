"""The demo: its folder, in which nothing that is there already is touched; what it plants; and its judgement."""

from __future__ import annotations

import importlib.util
import re
import stat
import sys
import tempfile
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.testing import TestStream, run

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def demo(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    spec = importlib.util.spec_from_file_location("demo_of_holdfast", EXAMPLES / "demo.py")
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks for its module by name.
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    yield module
    for name in ("payments", "travel", "velocity"):
        sys.modules.pop(name, None)


def test_a_link_that_was_planted_leads_nowhere(demo, tmp_path):
    """A link of the folder's former name once emptied what it led to."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("dear")
    (tmp_path / "shared" / "holdfast-demo").symlink_to(tmp_path / "mine")
    folders = {demo.new_folder(None) for _ in range(3)}
    assert len(folders) == 3
    for folder in folders:
        assert folder.parent == (tmp_path / "shared").resolve()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert list(folder.iterdir()) == []
    assert (tmp_path / "mine" / "letter").read_text() == "dear"


def test_a_folder_of_ones_own_must_be_empty(demo, tmp_path):
    assert demo.new_folder(tmp_path / "new" / "one") == (tmp_path / "new" / "one").resolve()
    assert demo.new_folder(tmp_path / "new" / "one").is_dir()
    (tmp_path / "new" / "one" / "letter").write_text("dear")
    with pytest.raises(SystemExit, match="There is something in"):
        demo.new_folder(tmp_path / "new" / "one")
    assert (tmp_path / "new" / "one" / "letter").read_text() == "dear"


def test_no_program_of_ours_has_a_name_in_a_shared_folder_that_can_be_foreseen():
    """Whoever knows the name beforehand can put a link there. Names come from tempfile."""
    root = EXAMPLES.parent
    foreseen = re.compile(r"mktemp\(|/tmp\b|gettempdir\(\)\)? *[/+]")
    found = []
    for part in ("src", "examples", "benchmarks", "scripts"):
        for path in (root / part).rglob("*"):
            if path.is_file() and path.suffix in (".py", ""):
                lines = path.read_text(errors="replace").splitlines()
                found += [f"{path.relative_to(root)}: {line.strip()}" for line in lines if foreseen.search(line)]
    assert found == []


def test_the_rules_find_and_refuse_what_was_planted_and_what_was_worked_out_by_hand(demo):
    from travel import ImpossibleTravel
    from velocity import Velocity

    payments, planted = demo.generate(3, cards=100, payments=800, hours=12, fraud=3)
    end = demo.seconds_of(payments[-1]) - demo.WATERMARK_SECONDS
    elements = [hf.TimestampedValue((p.card, p), demo.seconds_of(p)) for p in payments if demo.seconds_of(p) <= end]
    alerts, letters = demo.by_hand(payments)
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
def test_whatever_is_lost_doubled_or_invented_is_wrong(demo, got, counts):
    verdict = demo.Verdict("alerts", "travel", got, [OTHER, ONE], frozenset({"card-1"}))
    assert verdict.row[2:6] == counts
    assert verdict.is_right == (counts == (2, 0, 0, 0))


def test_what_was_planted_and_is_not_found_is_wrong_whatever_was_worked_out_by_hand(demo):
    verdict = demo.Verdict("alerts", "travel", [ONE], [ONE], frozenset({"card-1", "card-2"}))
    assert not verdict.is_right
    assert verdict.row[6:] == ("1.00", "0.50")


def test_columns_are_as_wide_as_what_is_in_them_and_numbers_are_to_the_right(demo, capsys):
    demo.print_table(("name", "rows"), [("velocity", 7), ("x", 12345)])
    assert capsys.readouterr().out.splitlines() == ["  name       rows", "  velocity      7", "  x         12345"]


def test_a_job_that_fails_ends_the_demo_with_its_log(demo, monkeypatch, tmp_path):
    def failing(folder, log):
        return demo.subprocess.Popen([sys.executable, "-c", "raise SystemExit('no Java here')"], stderr=log)

    monkeypatch.setattr(demo, "start_job", failing)
    for until in (None, 8):
        with pytest.raises(SystemExit, match="no Java here"):
            demo.run(tmp_path, "first run", until)

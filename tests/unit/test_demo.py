"""The demo's folder: new, private, and nothing that is there already is touched."""

from __future__ import annotations

import importlib.util
import re
import stat
import sys
import tempfile
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def demo(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "shared"))
    (tmp_path / "shared").mkdir()
    spec = importlib.util.spec_from_file_location("demo_of_holdfast", EXAMPLES / "demo.py")
    module = importlib.util.module_from_spec(spec)
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

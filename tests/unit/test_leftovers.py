"""State of micro-batches that were never committed is removed, and nothing else."""

from __future__ import annotations

import pytest

from holdfast.checkpoint.files.local import LocalFiles
from holdfast.checkpoint.leftovers import has_begun, remove_leftovers, remove_uncommitted_state


@pytest.mark.parametrize(("committed", "kept"), [([], 0), ([0], 1), ([0, 1, 2], 3)])
def test_only_what_follows_the_last_commit_goes(tmp_path, committed, kept):
    names = {
        "offsets": ["0", "1", "2", "3"],
        "commits": [str(number) for number in committed],
        "state/0/_metadata": ["v2"],
        "state/0/0": [f"{n}.{kind}" for n in range(1, 6) for kind in ("changelog", "zip")] + ["9.changelog.tmp", "_lock"],
        "state/0/0/SSTs": ["000001.sst"],
        "state/1/3": [f".{n}.changelog.crc" for n in range(1, 6)] + [f"{n}.changelog" for n in range(1, 6)],
        "sources/0": ["7"],
    }
    for folder, files in names.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        for name in files:
            (tmp_path / folder / name).touch()
    remove_uncommitted_state(LocalFiles(), str(tmp_path))
    for folder, files in names.items():
        left = {path.name for path in (tmp_path / folder).iterdir() if path.is_file()}
        gone = {n for n in range(1, 6) if n > kept} if folder in ("state/0/0", "state/1/3") else set()
        assert left == {name for name in files if not (name.strip(".").split(".")[0].isdigit() and _number(name) in gone)}


def _number(name):
    return int(name.strip(".").split(".")[0])


def test_without_state_there_is_nothing_to_do(tmp_path):
    remove_uncommitted_state(LocalFiles(), str(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("finished", [None, "offsets/0", "commits/0"])
def test_an_entry_that_was_never_finished_goes_if_there_is_no_other(tmp_path, finished):
    for folder in ("offsets", "commits", "sources/0"):
        (tmp_path / folder).mkdir(parents=True)
        for name in (".0.5f3e.tmp", "..0.5f3e.tmp.crc"):
            (tmp_path / folder / name).touch()
    if finished is not None:
        (tmp_path / finished).touch()
    remove_leftovers(LocalFiles(), str(tmp_path))
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    folders = ["offsets", "commits", "sources/0"] if finished else ["sources/0"]
    entries = {f"{folder}/{name}" for folder in folders for name in (".0.5f3e.tmp", "..0.5f3e.tmp.crc")}
    assert left == (entries | {finished} if finished else entries)


@pytest.mark.parametrize(
    ("planned", "committed", "begun"),
    [([], [], False), ([0], [], False), ([0], [0], True), ([1], [], True), ([], [0], True)],
)
def test_state_of_a_first_micro_batch_that_was_never_committed(tmp_path, planned, committed, begun):
    """All of it goes, with what describes it: the code may be another by now."""
    for name in ("state/0/_metadata/v2/0", "state/0/_stateSchema/default/0_a", "state/0/0/1.changelog"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    for folder, numbers in (("offsets", planned), ("commits", committed)):
        (tmp_path / folder).mkdir()
        for number in numbers:
            (tmp_path / folder / str(number)).touch()
    assert has_begun(LocalFiles(), str(tmp_path)) is begun
    remove_leftovers(LocalFiles(), str(tmp_path))
    assert (tmp_path / "state").exists() is begun

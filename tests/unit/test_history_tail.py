"""Following a history: only what is new, also when the file is replaced; and never more than so much."""

from __future__ import annotations

import os
import shutil

import msgspec
import pytest

from histories import Story
from holdfast.checkpoint.files.local import LocalFiles
from holdfast.watch import tail as module
from holdfast.watch.history import read_history
from holdfast.watch.records import BatchRecord, EventRecord
from holdfast.watch.tail import HistoryTail

RECORDS = Story(batches=30).history().batches


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "holdfast" / "history"
    place.mkdir(parents=True)
    return place


@pytest.fixture
def tail(tmp_path, folder):
    with HistoryTail(LocalFiles(), str(tmp_path)) as opened:
        yield opened


def append(folder, *records, end=b"\n"):
    with open(folder / "now.jsonl", "ab") as file:
        file.write(b"\n".join(map(msgspec.json.encode, records)) + end)


def numbers(tail):
    return [batch.batch for batch in tail.history.batches]


def test_only_what_is_new(folder, tail):
    assert tail.read() is False
    append(folder, *RECORDS[:3])
    assert tail.read() is True
    assert numbers(tail) == [0, 1, 2]
    assert tail.read() is False
    append(folder, RECORDS[3])
    assert tail.read() is True
    assert numbers(tail) == [0, 1, 2, 3]


def test_a_line_that_is_not_whole_yet(folder, tail):
    line = msgspec.json.encode(RECORDS[0])
    (folder / "now.jsonl").write_bytes(line[:50])
    assert tail.read() is False
    with open(folder / "now.jsonl", "ab") as file:
        file.write(line[50:] + b"\n")
    assert tail.read() is True
    assert tail.history == read_history(LocalFiles(), str(folder.parents[1]))


def test_the_file_is_replaced(folder, tail):
    append(folder, *RECORDS[:5])
    tail.read()
    append(folder, *RECORDS[5:8])
    os.replace(folder / "now.jsonl", folder / "before.jsonl")
    append(folder, *RECORDS[8:10])
    assert tail.read() is True
    assert numbers(tail) == list(range(10))


def test_the_file_is_away_for_a_moment(folder, tail):
    append(folder, *RECORDS[:5])
    tail.read()
    os.replace(folder / "now.jsonl", folder / "before.jsonl")
    assert tail.read() is False
    append(folder, *RECORDS[5:6])
    assert tail.read() is True
    assert numbers(tail) == list(range(6))


def test_what_came_before_is_read_first(folder, tail):
    append(folder, *RECORDS[:5])
    os.replace(folder / "now.jsonl", folder / "before.jsonl")
    append(folder, *RECORDS[5:7])
    tail.read()
    assert numbers(tail) == list(range(7))


def test_the_newer_becomes_the_older_while_they_are_opened(folder, tail, monkeypatch):
    """Nothing is missed, and nothing is taken twice."""
    append(folder, *RECORDS[:5])
    opened = module._opened

    def open_and_move(path):
        found = opened(path)
        if (folder / "now.jsonl").exists():
            os.replace(folder / "now.jsonl", folder / "before.jsonl")
        return found

    monkeypatch.setattr(module, "_opened", open_and_move)
    tail.read()
    monkeypatch.undo()
    append(folder, *RECORDS[5:7])
    tail.read()
    assert (numbers(tail), tail.history.again) == (list(range(7)), {})


def test_the_file_begins_anew(folder, tail):
    append(folder, *RECORDS[:5])
    tail.read()
    (folder / "now.jsonl").write_bytes(msgspec.json.encode(RECORDS[7]) + b"\n")
    assert tail.read() is True
    assert numbers(tail) == [7]


@pytest.mark.parametrize("looks_in_between", [False, True])
@pytest.mark.parametrize("rotated", [False, True])
def test_a_checkpoint_that_is_deleted_and_begins_anew(folder, tail, looks_in_between, rotated):
    """What was there is not taken for micro-batches that were done again."""
    append(folder, *RECORDS[:5])
    if rotated:
        os.replace(folder / "now.jsonl", folder / "before.jsonl")
        append(folder, *RECORDS[5:9])
    tail.read()
    before = tail.rewrites
    shutil.rmtree(folder)
    if looks_in_between:
        assert tail.read() is False
        assert len(numbers(tail)) == (9 if rotated else 5)
    folder.mkdir()
    append(folder, EventRecord("started", 5), *RECORDS[:2])
    assert tail.read() is True
    assert (numbers(tail), tail.history.again, len(tail.history.events)) == ([0, 1], {}, 1)
    assert tail.rewrites != before
    append(folder, RECORDS[2])
    assert tail.read() is True
    assert numbers(tail) == [0, 1, 2]


def test_two_files_were_filled_between_two_looks(folder, tail):
    append(folder, *RECORDS[:5])
    tail.read()
    for first in (5, 9):
        os.replace(folder / "now.jsonl", folder / "before.jsonl")
        append(folder, *RECORDS[first : first + 4])
    tail.read()
    assert numbers(tail) == list(range(5, 13))
    assert tail.history.again == {}


def test_of_a_file_that_is_too_large_the_end_is_read(folder, tail, monkeypatch):
    line = len(msgspec.json.encode(RECORDS[0])) + 1
    monkeypatch.setattr(module, "_READ_BYTES_MAX", 5 * line)
    append(folder, *RECORDS)
    tail.read()
    assert numbers(tail)[-1] == 29
    assert 3 <= len(numbers(tail)) <= 5


def test_so_many_are_kept(tmp_path, folder):
    with HistoryTail(LocalFiles(), str(tmp_path), records_max=4) as tail:
        append(folder, *RECORDS)
        tail.read()
        assert numbers(tail) == [26, 27, 28, 29]


def test_anything_but_a_file_is_nothing(folder, tail):
    os.mkfifo(folder / "now.jsonl")
    (folder / "before.jsonl").mkdir()
    assert tail.read() is False
    assert numbers(tail) == []


def test_a_job_that_goes_on_from_an_earlier_micro_batch(folder, tail):
    append(folder, *RECORDS[:10], EventRecord("started", 5, batch=6), RECORDS[7])
    tail.read()
    assert numbers(tail) == list(range(8))
    assert tail.history.again == {7: 1}
    before = tail.rewrites
    append(folder, RECORDS[8])
    tail.read()
    assert tail.rewrites == before
    append(folder, EventRecord("started", 5, batch=7))
    tail.read()
    assert tail.rewrites == before + 1


def test_a_file_system_that_is_not_local(tmp_path):
    class Remote(LocalFiles):
        """As if it were far away."""

        reads = 0

        @staticmethod
        def _path(path):
            return tmp_path / path.removeprefix("far://x/")

        def read(self, path):
            Remote.reads += 1
            return super().read(path)

    (tmp_path / "holdfast" / "history").mkdir(parents=True)
    append(tmp_path / "holdfast" / "history", *RECORDS[:3])
    with HistoryTail(Remote(), "far://x") as tail:
        assert tail.read() is True
        assert numbers(tail) == [0, 1, 2]
        assert tail.read() is False
        assert Remote.reads == 2


def test_unreadable_lines_are_counted(folder, tail):
    append(folder, BatchRecord(1, 2), end=b'\n{"kind": "batch"}\n\xff\n\n')
    tail.read()
    assert tail.history.unreadable == 2

"""The history of a job: what is appended is read back, whatever happened to the file in between."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.checkpoint.files.access import Files
from holdfast.checkpoint.files.local import LocalFiles
from holdfast.watch.history import BEFORE, NOW, HistoryFile, Telling, history_of, read_history
from holdfast.watch.records import BatchRecord, EventRecord, GroupsRecord, KeyCount, StepRecord

FILES = LocalFiles()


class WithoutAppend(LocalFiles):
    """A file system that can only replace whole files."""

    append = Files.append
    appends_in_place = False


def batch(number, rows=0, run="one"):
    return BatchRecord(batch=number, at_ms=1000 * number, rows=rows, run=run)


def started(after):
    return EventRecord("started", 0, batch=after)


@pytest.fixture(params=[LocalFiles, WithoutAppend])
def kept(request, tmp_path):
    """Appends records, and reads them back."""

    class Kept:
        path = str(tmp_path / "checkpoint")
        files = request.param()

        def append(self, *records, bytes_max=1 << 20):
            file = HistoryFile(self.files, self.path, bytes_max)
            for record in records:
                file.append(record)

        def read(self):
            return read_history(self.files, self.path)

    return Kept()


def test_there_is_none_yet(kept):
    assert kept.read() == history_of([])
    assert kept.read().last is None


def test_records_come_back_whole(kept):
    step = StepRecord(
        key_groups=4,
        counters={"elements": 3},
        user={"a": 1.5},
        distributions={"d": (2, 3, 1, 2)},
        groups=GroupsRecord([0, 5], [1, 2], [1, 1], [10, 20], [0, 0], [1, 1]),
        hot=[KeyCount("<k>\u00e9", 2)],
    )
    record = BatchRecord(batch=7, at_ms=1, steps={"S": step}, watermark_ms=-5, phases_ms={"addBatch": 3})
    kept.append(started(None), record)
    assert kept.read().batches == [record]
    assert kept.read().events == [started(None)]


def test_a_line_that_a_crash_cut_short_takes_no_other_with_it(kept, tmp_path):
    kept.append(batch(0), batch(1))
    file = tmp_path / "checkpoint" / NOW
    file.write_bytes(file.read_bytes()[:-5])
    kept.append(batch(2))
    assert [record.batch for record in kept.read().batches] == [0, 2]
    assert kept.read().unreadable == 1


def test_the_last_record_of_a_micro_batch_holds(kept):
    kept.append(batch(0, rows=1), batch(1, rows=1), batch(1, rows=2))
    assert [record.rows for record in kept.read().batches] == [1, 2]


def test_what_was_done_again_makes_the_rest_void(kept):
    kept.append(started(None), *map(batch, range(5)), started(2), batch(3, rows=9))
    assert [(record.batch, record.rows) for record in kept.read().batches] == [(0, 0), (1, 0), (2, 0), (3, 9)]
    kept.append(started(None))
    assert kept.read().batches == []


def test_it_is_bounded_and_keeps_the_newest(kept, tmp_path):
    kept.append(*map(batch, range(500)), bytes_max=2000)
    numbers = [record.batch for record in kept.read().batches]
    assert numbers == list(range(numbers[0], 500))
    assert 20 < len(numbers) < 500
    sizes = [(tmp_path / "checkpoint" / name).stat().st_size for name in (NOW, BEFORE)]
    assert max(sizes) <= 2000


def test_where_all_is_written_each_time_there_is_less_of_it(tmp_path):
    """A job should not send megabytes to an object store after each micro-batch."""
    long = EventRecord("failed", 0, text="x" * 100_000)
    sizes = []
    for files in (LocalFiles(), WithoutAppend()):
        file = HistoryFile(files, str(tmp_path / type(files).__name__))
        for _ in range(30):
            file.append(long)
        sizes.append((tmp_path / type(files).__name__ / NOW).stat().st_size)
    assert sizes[0] > 2_000_000
    assert 0 < sizes[1] <= 1 << 20


def test_one_who_goes_on_keeps_the_bound(kept, tmp_path):
    for number in range(300):
        kept.append(batch(number), bytes_max=2000)
    assert (tmp_path / "checkpoint" / NOW).stat().st_size <= 2000
    assert kept.read().last == batch(299)


def test_a_file_that_became_the_older_one_meanwhile_is_read_once(tmp_path):
    kept = HistoryFile(FILES, str(tmp_path))
    kept.append(started(None))
    content = (tmp_path / NOW).read_bytes()
    (tmp_path / BEFORE).write_bytes(content)
    assert read_history(FILES, str(tmp_path)).events == [started(None)]


def test_what_was_appended_before_it_became_the_older_one_is_not_done_again(tmp_path):
    """Read as `now`, then appended to and moved, then read as `before`."""
    records = [started(None), *map(batch, range(4))]
    first, second = (HistoryFile(FILES, str(tmp_path / name)) for name in ("read first", "read second"))
    for record in records[:3]:
        first.append(record)
    for record in records:
        second.append(record)

    class Moving(LocalFiles):
        def read(self, path):
            return super().read(str(tmp_path / ("read first" if path.endswith(NOW) else "read second") / NOW))

    history = read_history(Moving(), str(tmp_path))
    assert (history.events, [record.batch for record in history.batches]) == ([started(None)], [0, 1, 2, 3])
    assert history.again == {}


def test_going_back_makes_the_rest_void_even_if_the_start_is_not_told():
    telling = Telling()
    for number in (3, 4, 5, 2):
        telling.add(batch(number))
    assert [record.batch for record in telling.history().batches] == [2]
    telling.add(batch(3))
    assert telling.history().again == {3: 1}


class Counting(int):
    """A number that counts how often any is compared."""

    compared = 0

    def __gt__(self, other):
        Counting.compared += 1
        return int(self) > int(other)

    def __lt__(self, other):
        Counting.compared += 1
        return int(self) < int(other)


def test_a_record_is_taken_without_going_through_all_others():
    """A history of a small job has tens of thousands of records, and is followed by one reader after the other."""
    telling = Telling(records_max=100)
    for number in range(1_000):
        telling.add(batch(Counting(number)))
        telling.add(started(Counting(number)))
    assert [record.batch for record in telling.history().batches] == list(range(900, 1_000))
    assert 0 < Counting.compared < 5 * 1_000


@given(st.lists(st.binary(max_size=60) | st.sampled_from([b'{"kind":"batch","batch":1,"at_ms":2}', b"[]", b"[" * 5000])))
def test_foreign_lines_are_counted_and_never_raise(lines):
    history = history_of(lines)
    assert history.unreadable <= len(lines)
    assert all(record.batch == 1 for record in history.batches)


@pytest.mark.parametrize(
    "line",
    [
        b'{"kind":"batch","batch":-1,"at_ms":0}',
        b'{"kind":"batch","batch":1e400,"at_ms":0}',
        b'{"kind":"batch","batch":123456789012345678901234567890,"at_ms":0}',
        b'{"kind":"event","event":"gone","at_ms":0}',
        b'{"kind":"batch","batch":0,"at_ms":0,"steps":{"s":{"groups":{"labels":[-1]}}}}',
    ],
)
def test_numbers_out_of_range_are_not_taken(line):
    assert history_of([line]).unreadable == 1

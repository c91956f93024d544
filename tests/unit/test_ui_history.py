"""Histories as the dashboard reads them: bit by bit, bounded, and as columns."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dashboards import T0, append, batch_record
from holdfast.errors import InputError
from holdfast.ui.api.job_views import GROUPS_MAX, heat_of, keys_view
from holdfast.ui.api.series import series_of
from holdfast.ui.reading import tail as tail_module
from holdfast.ui.reading.tail import SharedTail
from holdfast.watch.history import BEFORE, NOW, history_of
from holdfast.watch.records import BatchRecord, EventRecord, GroupsRecord, SourceRecord, StepRecord


def numbers(tail: SharedTail) -> list[int]:
    return [record.batch for record in tail.history.batches]


class TestTail:
    def test_without_a_history(self, tmp_path):
        tail = SharedTail(str(tmp_path / "nothing"))
        assert tail.refresh() == tail.refresh() == 0
        assert tail.history.last is None

    def test_it_grows(self, tmp_path):
        tail = SharedTail(str(tmp_path))
        append(tmp_path, batch_record(0), batch_record(1))
        first = tail.refresh()
        assert numbers(tail) == [0, 1]
        assert tail.refresh() == first
        append(tmp_path, batch_record(2), EventRecord("stopped", T0, batch=2))
        assert tail.refresh() > first
        assert numbers(tail) == [0, 1, 2]
        assert [event.event for event in tail.history.events] == ["stopped"]

    def test_a_line_that_is_being_written_waits(self, tmp_path):
        append(tmp_path, batch_record(0))
        tail = SharedTail(str(tmp_path))
        tail.refresh()
        append(tmp_path / "other", batch_record(1))
        line = (tmp_path / "other" / NOW).read_bytes()
        with (tmp_path / NOW).open("ab") as file:
            file.write(line[:40])
            file.flush()
            tail.refresh()
            assert numbers(tail) == [0]
            file.write(line[40:])
        tail.refresh()
        assert numbers(tail) == [0, 1]
        assert tail.history.unreadable == 0

    def test_when_the_newer_file_becomes_the_older(self, tmp_path):
        append(tmp_path, *map(batch_record, range(3)))
        tail = SharedTail(str(tmp_path))
        tail.refresh()
        os.replace(tmp_path / NOW, tmp_path / BEFORE)
        tail.refresh()
        assert numbers(tail) == [0, 1, 2]
        append(tmp_path, batch_record(3))
        tail.refresh()
        assert numbers(tail) == [0, 1, 2, 3]
        os.replace(tmp_path / NOW, tmp_path / BEFORE)
        append(tmp_path, batch_record(4), batch_record(5))
        tail.refresh()
        assert numbers(tail) == [0, 1, 2, 3, 4, 5]

    def test_it_says_what_the_whole_file_says(self, tmp_path):
        records = [
            EventRecord("started", T0),
            *map(batch_record, range(5)),
            EventRecord("failed", T0 + 1, batch=4),
            EventRecord("started", T0 + 2, batch=2, run="run 2"),
            batch_record(3, run="run 2", rows=1),
            batch_record(4, run="run 2", rows=2),
        ]
        tail = SharedTail(str(tmp_path))
        for record in records:
            append(tmp_path, record)
            tail.refresh()
        told = history_of((tmp_path / NOW).read_bytes().splitlines())
        assert tail.history == told
        assert tail.history.again == {3: 1, 4: 1}

    @pytest.mark.parametrize("junk", [b"{", b"[]", b"\xff\xfe", b'{"kind":"batch"}', b"[" * 100_000, b'{"kind":"other"}'])
    def test_lines_that_cannot_be_read_are_counted(self, tmp_path, junk):
        append(tmp_path, batch_record(0))
        with (tmp_path / NOW).open("ab") as file:
            file.write(junk + b"\n")
        append(tmp_path, batch_record(1))
        tail = SharedTail(str(tmp_path))
        tail.refresh()
        assert numbers(tail) == [0, 1]
        assert tail.history.unreadable == 1

    def test_empty_lines_are_none(self, tmp_path):
        append(tmp_path, batch_record(0))
        with (tmp_path / NOW).open("ab") as file:
            file.write(b"\n\n")
        append(tmp_path, batch_record(1))
        tail = SharedTail(str(tmp_path))
        tail.refresh()
        assert (numbers(tail), tail.history.unreadable) == ([0, 1], 0)

    def test_memory_is_bounded(self, tmp_path, monkeypatch):
        monkeypatch.setattr(tail_module, "_DETAILED_MAX", 4)
        monkeypatch.setattr(tail_module, "_BATCHES_MAX", 10)
        append(tmp_path, *map(batch_record, range(30)))
        tail = SharedTail(str(tmp_path))
        tail.refresh()
        assert numbers(tail) == list(range(20, 30))
        detailed = [bool(record.steps["alerts"].groups.labels) for record in tail.history.batches]
        assert detailed == [False] * 6 + [True] * 4

    @pytest.mark.parametrize("name", ["now.jsonl", "before.jsonl"])
    @pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to(path.name)])
    def test_what_is_no_file_is_none(self, tmp_path, name, make):
        """One job's files never keep a dashboard from showing the others; a pipe would never end."""
        folder = tmp_path / "holdfast" / "history"
        folder.mkdir(parents=True)
        make(folder / name)
        tail = SharedTail(str(tmp_path))
        for _ in range(2):
            tail.refresh()
        assert numbers(tail) == []

    def test_elsewhere(self):
        with pytest.raises(InputError, match="not on a file system of this machine"):
            SharedTail("s3a://bucket/checkpoint")


def plain(number: int, **fields: object) -> BatchRecord:
    return BatchRecord(number, T0 + number * 1_000, run="r", **fields)


class TestSeries:
    def test_of_nothing(self):
        series = series_of([], 0, since=-1, points=10, whole=True)
        assert (series.batch, series.steps, series.sources) == ([], {}, [])

    def test_rates(self):
        records = [plain(0, rows=100, duration_ms=500), plain(1, rows=200, duration_ms=400), plain(2, rows=0)]
        series = series_of(records, 1, since=-1, points=10, whole=False)
        assert series.arriving == [None, 200.0, 0.0]
        assert series.processed == [200.0, 500.0, None]

    def test_the_newest_after_a_micro_batch(self):
        records = [plain(number) for number in range(10)]
        assert series_of(records, 1, since=6, points=10, whole=False).batch == [7, 8, 9]
        assert series_of(records, 1, since=-1, points=2, whole=False).batch == [8, 9]

    def test_neighbours_are_merged(self):
        records = [plain(number, rows=10, duration_ms=number, phases_ms={"addBatch": number}) for number in range(10)]
        series = series_of(records, 1, since=-1, points=4, whole=True)
        assert series.merged == 3
        assert series.batch == [2, 5, 8, 9]
        assert series.rows == [30, 30, 30, 10]
        assert series.duration_ms == [1.0, 4.0, 7.0, 9.0]
        assert series.phases_ms == {"addBatch": [1.0, 4.0, 7.0, 9.0]}

    def test_steps_and_sources_that_come_and_go(self):
        records = [
            plain(0, steps={"a": StepRecord(keys=1)}, sources=[SourceRecord("s", 5, 7)]),
            plain(
                1,
                steps={"b": StepRecord(keys=2, counters={"elements": 3})},
                sources=[SourceRecord("s", 6), SourceRecord("t", 1)],
            ),
        ]
        series = series_of(records, 1, since=-1, points=10, whole=False)
        assert series.steps["a"].keys == [1, 0]
        assert series.steps["b"].elements == [0, 3]
        assert series.lag == [7, None]
        assert [(source.name, source.rows) for source in series.sources] == [("s", [5, 6]), ("t", [0, 1])]

    def test_phases_in_their_order_without_the_sum(self):
        records = [plain(0, phases_ms={"commitOffsets": 1, "triggerExecution": 9, "addBatch": 2, "walCommit": 3, "own": 1})]
        assert list(series_of(records, 1, since=-1, points=1, whole=False).phases_ms) == [
            "walCommit",
            "addBatch",
            "commitOffsets",
            "own",
        ]

    def test_no_watermark_yet(self):
        assert series_of([plain(0, watermark_ms=0)], 1, since=-1, points=1, whole=False).watermark_ms == [None]


class TestKeys:
    def test_of_a_step_and_a_micro_batch(self):
        history = history_of([])
        history = type(history)([batch_record(1), batch_record(2)])
        view = keys_view(history, "alerts", 1)
        assert (view.step, view.batch, view.batches, len(view.groups.labels)) == ("alerts", 1, [1, 2], 64)
        assert view.hot[0].count >= view.hot[-1].count

    def test_a_step_that_is_not_there(self):
        history = type(history_of([]))([batch_record(1)])
        assert keys_view(history, "no such", None).step == "card totals"

    def test_many_key_groups_are_merged(self):
        labels = list(range(0, 5_000, 2))
        groups = GroupsRecord(labels, [1] * 2_500, [2] * 2_500, [3] * 2_500)
        heat = heat_of(groups)
        assert len(heat.labels) <= GROUPS_MAX
        assert (sum(heat.elements), sum(heat.keys), sum(heat.bytes)) == (2_500, 5_000, 7_500)

    def test_columns_of_unequal_length(self):
        heat = heat_of(GroupsRecord([1, 2], [5], [1, 1], [1, 1]))
        assert (heat.labels, heat.elements) == ([1], [5])


def test_a_path_is_the_folder(tmp_path: Path) -> None:
    append(tmp_path, batch_record(0))
    tail = SharedTail(f"file:{tmp_path}")
    tail.refresh()
    assert numbers(tail) == [0]

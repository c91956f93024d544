"""The state of aggregations as rows: what is exported can be imported, edited or not."""

from __future__ import annotations

import json

import pytest

import holdfast as hf
from holdfast.engine.stored.reading import Blobs, read_group
from holdfast.ops.reading.cell_rows import CellReader, _rows
from holdfast.testing import TestStream, run

COLUMNS = ("key", "window", "window_encoded", "cell", "kind", "value", "encoded")
EARLY = {"trigger": hf.AfterWatermark(early=hf.AfterCount(9), late=hf.AfterCount(1)), "accumulation_mode": "discarding"}
AGGREGATIONS = {
    "sessions": (hf.CombinePerKey({"n": hf.Count(), "total": sum}), {"windowing": hf.Sessions(5)}),
    "lists": (hf.GroupByKey(), {"windowing": hf.Sessions(5)}),
    "triggered": (hf.CombinePerKey(sum), {"windowing": hf.FixedWindows(5), **EARLY}),
    "whole windows": (hf.CombinePerKey(sum), {"windowing": hf.FixedWindows(5)}),
}


def exported(transform, options):
    """The manifest of a run's state, and its rows."""
    elements = [hf.TimestampedValue((key, 7), time) for key, time in (("a", 1), ("b", 2), ("a", 30))]
    (store,) = run(transform, TestStream().add_elements(elements), name="step", **options).stores
    blobs = Blobs(store.committed)
    return read_group(blobs).manifest, [dict(zip(COLUMNS, row, strict=True)) for row in _rows(blobs, ["key"])]


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_rows_are_read_as_they_were_written(name):
    manifest, rows = exported(*AGGREGATIONS[name])
    reader = CellReader(manifest)
    assert len(rows) >= 2
    for row in rows:
        assert reader.read("a", row).packed == row["encoded"]
        assert reader.read("a", {**row, "encoded": None}).packed == row["encoded"]


def test_a_session_can_be_edited():
    manifest, (row, *_) = exported(*AGGREGATIONS["sessions"])
    sessions = json.loads(row["value"])
    assert sessions[0]["accumulators"] == {"n": 1, "total": 7}
    sessions[0]["accumulators"]["total"] = 70
    edited = CellReader(manifest).read("a", {**row, "value": json.dumps(sessions)})
    shown = json.loads(CellReader._shown(CellReader(manifest)._tables["sessions"], edited.packed))
    assert shown == sessions


def test_sessions_that_overlap_are_refused():
    manifest, (row, *_) = exported(*AGGREGATIONS["sessions"])
    (first, *_) = json.loads(row["value"])
    with pytest.raises(hf.InputError, match="no two overlap"):
        CellReader(manifest).read("a", {**row, "value": json.dumps([first, first])})


@pytest.mark.parametrize("name", ["sessions", "triggered"])
def test_windows_in_cells_are_in_no_window(name):
    manifest, (row, *_) = exported(*AGGREGATIONS[name])
    with pytest.raises(hf.InputError, match="is not one of the step's"):
        CellReader(manifest).read("a", {**row, "window": {"start": 0, "end": 5_000_000}})


def test_whole_windows_need_one():
    manifest, (row, *_) = exported(*AGGREGATIONS["whole windows"])
    with pytest.raises(hf.InputError, match="has no window"):
        CellReader(manifest).read("a", {**row, "window": None})

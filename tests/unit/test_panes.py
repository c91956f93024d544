"""Results of aggregations as rows: window by window, session by session, one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast import GlobalWindow, IntervalWindow, PaneInfo, PaneInfoTiming, WindowedValue
from holdfast.engine.run.runner import PaneBlock, SessionBlock
from holdfast.spark.stages.panes import PaneLayout, PaneWriter

TIME = pa.timestamp("us", tz="UTC")
WINDOW = pa.struct([("start", TIME), ("end", TIME)])
PANE = pa.struct(
    [
        ("timing", pa.string()),
        ("index", pa.int32()),
        ("nonspeculative_index", pa.int32()),
        ("is_first", pa.bool_()),
        ("is_last", pa.bool_()),
    ]
)
ON_TIME = PaneInfo(True, False, PaneInfoTiming.ON_TIME, 0, 0)
LATE = PaneInfo(False, True, PaneInfoTiming.LATE, 1, 1)


@pytest.fixture
def writer():
    columns = [("key", pa.string()), ("window", WINDOW), ("n", pa.int64()), ("total", pa.float64()), ("pane", PANE)]
    return PaneWriter(pa.schema(columns), "step", "main", PaneLayout(keys=1, windowed=True, single=False, panes=True))


def value(key, window, results, pane):
    return WindowedValue((key, results), window.max_timestamp(), (window,), pane)


def test_sessions_are_the_rows_that_they_would_be_one_by_one(writer):
    block = SessionBlock([5, 20], [9, 21], ["a", "b"], [[1, 2], [0.5, 1.5]], [ON_TIME, LATE])
    first, second = IntervalWindow._of_micros(5, 9), IntervalWindow._of_micros(20, 21)
    values = [value("a", first, (1, 0.5), ON_TIME), value("b", second, (2, 1.5), LATE)]
    written = writer.write_sessions(block)
    assert written.equals(writer.write_values(values))
    assert written.column("window").field("start").cast(pa.int64()).to_pylist() == [5, 20]
    assert written.column("pane").to_pylist()[1]["timing"] == "LATE"


def test_windows_are_repeated_for_each_of_their_rows(writer):
    first, second = IntervalWindow._of_micros(5, 9), IntervalWindow._of_micros(20, 21)
    blocks = [
        PaneBlock(first, ["a", "b"], [[1, 2], [0.5, 1.5]], [ON_TIME, ON_TIME]),
        PaneBlock(second, ["c"], [[3], [2.5]], [LATE]),
    ]
    values = [
        value("a", first, (1, 0.5), ON_TIME),
        value("b", first, (2, 1.5), ON_TIME),
        value("c", second, (3, 2.5), LATE),
    ]
    assert writer.write_blocks(blocks).equals(writer.write_values(values))


def test_the_global_window_has_no_column():
    schema = pa.schema([("key", pa.string()), ("n", pa.int64())])
    writer = PaneWriter(schema, "step", "main", PaneLayout(keys=1, windowed=False, single=True, panes=False))
    written = writer.write_blocks([PaneBlock(GlobalWindow(), ["a"], [[1]], [ON_TIME])])
    assert written.to_pylist() == [{"key": "a", "n": 1}]

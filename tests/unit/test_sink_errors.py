"""What sinks say that cannot be made, or cannot take what they are given: each by its own name."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import types as t

import holdfast as hf
from holdfast.spark.sinks import Upsert

ROWS = t.StructType([t.StructField("k", t.StringType())])
SPANS = t.StructType([t.StructField("span", t.DayTimeIntervalType())])
BY_K = Upsert(("k",))


class Own(hf.sinks.Sink):
    def write_batch(self, rows, info):
        raise AssertionError

    def __repr__(self):
        return "Own()"


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: hf.sinks.Postgres("host=nowhere", ""), "Postgres"),
        (lambda: hf.sinks.DuckDB("", "t"), "DuckDB"),
        (lambda: hf.sinks.DuckDB(None, "t"), "DuckDB"),
        (lambda: hf.sinks.Sqlite(None, "t"), "Sqlite"),
        (lambda: hf.sinks.Parquet(None), "Parquet"),
        (lambda: hf.sinks.Parquet(""), "Parquet"),
        (lambda: hf.sinks.Sqlite(":memory:", "t"), "Sqlite"),
        (lambda: hf.sinks.Delta(""), "Delta"),
        (lambda: hf.sinks.Delta("/nowhere", partition_by=7), "Delta"),
        (lambda: hf.sinks.Kafka("", "t"), "Kafka"),
        (lambda: hf.sinks.Console(rows=-1), "Console"),
        (lambda: hf.sinks.ForeachBatch(7), "ForeachBatch"),
    ],
)
def test_a_sink_that_cannot_be_made(make, name):
    with pytest.raises(hf.InvalidStep, match=rf"^{name}\(\.\.\.\) cannot be made: 1 problem\.\n  - "):
        make()


@pytest.mark.parametrize(
    ("use", "sink"),
    [
        (lambda: hf.sinks.Kafka("a:1", "t").upserting(BY_K), "Kafka('a:1', 't')"),
        (lambda: hf.sinks.Kafka("a:1", "t", key="no").open(None, ROWS, None), "Kafka('a:1', 't')"),
        (lambda: hf.sinks.Parquet("/p").upserting(BY_K), "Parquet('/p')"),
        (lambda: hf.sinks.Console().upserting(BY_K), "Console()"),
        (lambda: hf.sinks.ForeachBatch(print).upserting(BY_K), "ForeachBatch(print)"),
        (lambda: hf.sinks.DuckDB("/d", "t", batch_column="b").upserting(BY_K), "DuckDB('/d', 'main.t')"),
        (lambda: hf.sinks.Delta("/nowhere").open(None, SPANS, None), "Delta('/nowhere')"),
        (lambda: Own().upserting(BY_K), "Own()"),
    ],
)
def test_a_sink_that_cannot_take_the_rows(use, sink):
    with pytest.raises(hf.InvalidStep) as refused:
        use()
    assert str(refused.value).startswith(f"Rows cannot be written to {sink}: 1 problem.\n  - ")

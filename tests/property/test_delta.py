"""The sink Delta beside a list and a dict: whatever comes, again, or anew after a rollback, the table has what it must."""

from __future__ import annotations

import datetime
import math
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiers import examples

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

import pyarrow as pa

from delta_rows import Rows, log_rows, table_of
from holdfast.spark.sinks import BatchInfo, Delta, Upsert

pytestmark = pytest.mark.slow
SETTINGS = settings(max_examples=examples(60), deadline=None)
UTC = datetime.timezone.utc

SCHEMA = pa.schema(
    [
        ("card", pa.string()),
        ("window", pa.struct([("start", pa.timestamp("us", tz="UTC")), ("place", pa.string())])),
        ("score", pa.float64()),
        ("n", pa.int64()),
    ]
)
WINDOWS = st.integers(0, 2).map(lambda hour: {"start": datetime.datetime(2024, 1, 1, hour, tzinfo=UTC), "place": None})
ROW = st.tuples(
    st.sampled_from(["a", "A", "b", "", "NaN", "'"]),
    WINDOWS,
    st.sampled_from([0.0, -0.0, math.nan, 1.5, math.inf]),
    st.none() | st.integers(-5, 5),
)
ROWS = st.lists(ROW, max_size=6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("next"), ROWS),
        st.tuples(st.just("again"), st.just([])),
        st.tuples(st.integers(0, 3), ROWS),
    ),
    max_size=8,
)
"""The next micro-batch; the last one once more; or the checkpoint goes back by so many, and that number comes anew."""
KEYS = [(), ("card",), ("window", "card"), ("score",), ("card", "score")]


def told(rows):
    """Rows that can be compared: NaN with itself, and 0.0 with -0.0, since a key makes them one."""
    return sorted(repr((card, window["start"].isoformat(), number(score), n)) for card, window, score, n in rows)


def number(value):
    return "NaN" if math.isnan(value) else value + 0.0


def slot(row, key):
    named = dict(zip(SCHEMA.names, row, strict=True))
    named["window"] = named["window"]["start"]
    named["score"] = number(named["score"])
    return tuple(named[name] for name in key)


def oracle(batches, key):
    rows = [row for batch in batches for row in batch]
    return list({slot(row, key): row for row in rows}.values()) if key else rows


def sink_at(folder, key, **options):
    sink = Delta(Path(folder, "rows"), **options)
    return sink.upserting(Upsert(key)) if key else sink


def info(batch, plan):
    return BatchInfo("q", batch, plan)


@pytest.mark.parametrize("key", KEYS, ids=str)
@SETTINGS
@given(steps=STEPS)
def test_a_table_has_what_it_must(key, steps):
    batches, plans = [], []
    with tempfile.TemporaryDirectory() as folder:
        sink_at(folder, key).write_batch(Rows(schema=SCHEMA), info(0, "first"))
        batches.append([])
        plans.append("first")
        for place, (what, rows) in enumerate(steps):
            if what == "again":
                sink_at(folder, key).write_batch(Rows(*batches[-1], schema=SCHEMA), info(len(batches) - 1, plans[-1]))
                continue
            keep = len(batches) if what == "next" else max(0, len(batches) - what)
            del batches[keep:], plans[keep:]
            batches.append(rows)
            plans.append(f"plan {place}")
            taking = sink_at(folder, key, take_over=what != "next")
            taking.write_batch(Rows(*rows, schema=SCHEMA), info(keep, plans[-1]))
            assert told(read(folder)) == told(oracle(batches, key)), f"after step {place}"
        assert told(read(folder)) == told(log_rows(Path(folder))) == told(oracle(batches, key))


def read(folder):
    return [tuple(row.values()) for row in table_of(Path(folder)).to_pyarrow_table().to_pylist()]


@SETTINGS
@given(batches=st.lists(st.lists(st.floats() | st.sampled_from([0.0, -0.0, math.nan, -math.nan]), max_size=5), max_size=5))
def test_floats_are_the_keys_that_spark_takes_them_for(batches):
    """0.0 and -0.0 are one key, NaN is another, also where they are in other files."""
    schema = pa.schema([("k", pa.float64()), ("n", pa.int64())])
    wanted = {}
    with tempfile.TemporaryDirectory() as folder:
        sink = Delta(Path(folder, "rows")).upserting(Upsert(("k",)))
        sink.write_batch(Rows(schema=schema), info(0, ""))
        for batch, keys in enumerate(batches, 1):
            wanted |= {number(key): batch for key in keys}
            sink.write_batch(Rows(*((key, batch) for key in keys), schema=schema), info(batch, f"{batch}"))
        held = [(number(key), n) for key, n in read(folder)]
    assert sorted(held, key=repr) == sorted(wanted.items(), key=repr)

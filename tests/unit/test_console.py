"""The sink Console: what it prints of a micro-batch, and that no value can do anything to a terminal."""

from __future__ import annotations

import datetime
import io
import sys

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import holdfast as hf
from holdfast.engine.stored.readable import visible
from holdfast.spark.sinks import BatchInfo
from holdfast.spark.sinks.modes import in_mode

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])


class Rows:
    """What the sink needs of a DataFrame."""

    def __init__(self, *rows, schema=SCHEMA):
        self._rows, self._schema = rows, schema
        self.columns = schema.names

    def count(self):
        return len(self._rows)

    def limit(self, number):
        return Rows(*self._rows[:number], schema=self._schema)

    def toArrow(self):
        return pa.Table.from_pylist([dict(zip(self.columns, row, strict=True)) for row in self._rows], self._schema)


def printed(*rows, schema=SCHEMA, batch=3, encoding="utf-8", **options):
    """What is printed, on a stream of an encoding."""
    raw = io.BytesIO()
    before, sys.stdout = sys.stdout, io.TextIOWrapper(raw, encoding=encoding)
    try:
        hf.sinks.Console(**options).write_batch(Rows(*rows, schema=schema), BatchInfo("q", batch))
        sys.stdout.flush()
        return raw.getvalue().decode(encoding)
    finally:
        sys.stdout = before


def lines(text):
    return [line.rstrip() for line in text.splitlines()]


def test_a_small_table():
    assert lines(printed(("a", 1), ("long enough", None), name="alerts")) == [
        "alerts: micro-batch 3, 2 rows",
        "k             n",
        "──────────────────",
        "a             1",
        "long enough   null",
    ]


def test_only_the_first_rows():
    told = lines(printed(*((f"k{n}", n) for n in range(1234)), rows=2))
    assert told[0] == "micro-batch 3, 1,234 rows, the first 2"
    assert [line.split() for line in told[3:]] == [["k0", "0"], ["k1", "1"]]
    assert lines(printed(("a", 1), rows=0)) == ["micro-batch 3, 1 row"]
    assert lines(printed()) == ["micro-batch 3, no rows"]


def test_long_values_are_cut_and_wide_tables_are_not():
    names = [f"column {n}" for n in range(30)]
    schema = pa.schema([(name, pa.string()) for name in names])
    told = lines(printed(["x" * 39, "y" * 40, "z" * 41, *["w" * 10**6] * 27], schema=schema))
    assert len(told) == 4
    assert told[3].split()[:4] == ["x" * 39, "y" * 40, "z" * 37 + "...", "w" * 37 + "..."]
    assert all(name in told[1] for name in names)
    assert lines(printed(("abcdefgh", 1), width=6))[3].split() == ["abc...", "1"]


@pytest.mark.parametrize(
    "content",
    ["\x1b[2J", "\x1b]0;title\x07", "a\rb", "a\nb", "\u202eabc", "\x9b31m", "\x08", "[red]x[/red]", "[/nothing]", ":smile:"],
    ids=ascii,
)
def test_values_and_names_have_no_power(content):
    told = printed((content, 1), schema=pa.schema([(content, pa.string()), ("n", pa.int64())]), name=content)
    assert told.count(visible(content)) == 3
    assert all(line.isprintable() for line in told.split("\n"))
    assert len(told.split("\n")) == 5


@given(st.text(), st.sampled_from(["utf-8", "ascii", "latin-1", "cp1252"]))
def test_any_text_on_any_terminal(content, encoding):
    told = printed((content, 1), encoding=encoding)
    assert all(line.isprintable() for line in told.split("\n"))
    assert len(told.split("\n")) == 5


def test_values_of_all_kinds():
    at = datetime.datetime(2024, 2, 29, 5, 6, 7, tzinfo=datetime.timezone.utc)
    nested = pa.struct([("a", pa.int32()), ("l", pa.list_(pa.string()))])
    kinds = {
        "t": (pa.timestamp("us", tz="UTC"), at, "2024-02-29T05:06:07+00:00"),
        "d": (pa.date32(), at.date(), "2024-02-29"),
        "b": (pa.binary(), b"\x00\xff", "0x00ff"),
        "s": (nested, {"a": 1, "l": ["x", None]}, "{a: 1, l: [x, null]}"),
        "m": (pa.map_(pa.string(), pa.float64()), [("x", 1.5)], "[x -> 1.5]"),
    }
    schema = pa.schema([(name, kind) for name, (kind, _, _) in kinds.items()])
    told = lines(printed([value for _, value, _ in kinds.values()], schema=schema))[3]
    assert [part.strip() for part in told.split("  ") if part] == [shown for *_, shown in kinds.values()]


def test_standard_output_is_closed(monkeypatch):
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stdout", gone)
    with pytest.raises(hf.SinkError, match=r"Console\('alerts'\) could not be printed: I/O operation on closed file"):
        hf.sinks.Console("alerts").write_batch(Rows(("a", 1)), BatchInfo("q", 0))


def test_it_cannot_upsert():
    _, [problem] = in_mode(hf.sinks.Console(), None, "upsert", "k")
    assert problem == (
        "Console() cannot upsert: what has been printed stays. Use hf.sinks.Sqlite, Postgres, DuckDB or Delta, or "
        "hf.sinks.Collect; or leave out mode and key."
    )


@pytest.mark.parametrize("options", [{"rows": -1}, {"rows": True}, {"width": 3}, {"width": "x"}, {"name": None}])
def test_options_that_are_wrong(options):
    with pytest.raises(hf.InvalidStep, match=f"{next(iter(options))} is"):
        hf.sinks.Console(**options)

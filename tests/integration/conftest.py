"""Real Spark for the tests that concern it: one session, and small streams from files."""

from __future__ import annotations

import itertools
import sys
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import holdfast as hf
from holdfast.testing.spark_runtime import scripted_session

sys.path.insert(0, str(Path(__file__).parent.parent))


@pytest.fixture(scope="session")
def spark():
    return scripted_session()


class Feed:
    """A stream that gets one file, and so one micro-batch, at a time."""

    def __init__(self, spark, folder, schema):
        self._spark = spark
        self._folder = folder
        self._schema = schema
        self._arrow = to_arrow_schema(StructType.fromDDL(schema), timezone="UTC")
        self._numbers = itertools.count()
        folder.mkdir()

    @property
    def df(self):
        return self._spark.readStream.schema(self._schema).option("maxFilesPerTrigger", 1).parquet(str(self._folder))

    def add(self, *rows):
        """Adds a file with these rows (dicts)."""
        name = f"{next(self._numbers):05d}.parquet"
        pq.write_table(self._table([tuple(row.values()) for row in rows]), self._folder / f".{name}")
        (self._folder / f".{name}").rename(self._folder / name)

    def _table(self, rows):
        """Without Spark, which takes longer, unless Arrow cannot do it alone."""
        columns = zip(*rows, strict=True) if rows else [()] * len(self._arrow)
        try:
            # Of a time without a zone, Spark and Arrow think differently.
            if any(isinstance(value, datetime) and value.tzinfo is None for row in rows for value in row):
                raise ValueError
            arrays = [pa.array(column, field.type) for column, field in zip(columns, self._arrow, strict=True)]
            return pa.table(arrays, schema=self._arrow)
        except (pa.ArrowException, TypeError, ValueError):
            return pa.Table.from_batches(self._spark.createDataFrame(rows, self._schema).toArrow().to_batches())


@pytest.fixture
def feed(spark, tmp_path):
    """Makes a stream with a schema; a second one needs another name."""
    return lambda schema, name="input": Feed(spark, tmp_path / name, schema)


@pytest.fixture
def run_job(tmp_path):
    """Runs outputs to the end of what is there, and gives their rows."""

    def run(*frames, name="job", checkpoint="checkpoint"):
        sinks = [hf.sinks.Collect() for _ in frames]
        job = hf.Job(name, checkpoint=str(tmp_path / checkpoint), trigger="available now", progress=False)
        for frame, sink in zip(frames, sinks, strict=True):
            job.write(frame, sink)
        job.run()
        return [sink.rows for sink in sinks]

    return run


@pytest.fixture
def source(feed):
    """A stream with one row in it: k "a", v "x"."""
    made = feed("k string, v string")
    made.add({"k": "a", "v": "x"})
    return made


@pytest.fixture
def make(source, tmp_path):
    """Makes a job that counts the rows of `source`, or runs another function over them, into a sink."""

    from integration.functions import Count

    def job(sink, fn=None, name="life", checkpoint="checkpoint", output="k string, n int", **options):
        rows = hf.keyed(source.df, key="k", value="v").par_do(fn or Count(), output=output)
        options = {"progress": False, **options}
        return hf.Job(name, checkpoint=str(tmp_path / checkpoint), **options).write(rows, sink)

    return job

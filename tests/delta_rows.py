"""Rows for the sink Delta without Spark, and its tables, read with deltalake or by the files of their logs alone."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as t

import holdfast as hf
from holdfast.spark.sinks import Upsert

BY_K = Upsert(("k",))
SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64())])
SPARK_SCHEMA = t.StructType([t.StructField("k", t.StringType()), t.StructField("n", t.LongType())])


class Rows:
    """What the sink needs of a DataFrame."""

    def __init__(self, *rows, schema=SCHEMA):
        self._table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)

    def toArrow(self):
        return self._table


def delta(folder, key=None, **options):
    sink = hf.sinks.Delta(folder / "rows", **options)
    return sink if key is None else sink.upserting(key)


def table_of(folder):
    from deltalake import DeltaTable

    return DeltaTable(folder / "rows")


def read(folder):
    return sorted(tuple(row.values()) for row in table_of(folder).to_pyarrow_table().to_pylist())


def read_log(folder):
    return sorted(log_rows(folder))


def log_rows(folder):
    """The rows of a table by what its log says, without deltalake: those in files that were added and not removed."""
    files = {}
    for path in sorted((folder / "rows" / "_delta_log").glob("*.json")):
        for action in map(json.loads, path.read_text().splitlines()):
            if "add" in action:
                files[action["add"]["path"]] = True
            elif "remove" in action:
                files.pop(action["remove"]["path"])
    return [tuple(row.values()) for file in files for row in pq.read_table(folder / "rows" / file).to_pylist()]

"""How fast could a running count be? What Spark itself takes of it, step by step, without any state of ours.

    python benchmarks/floors.py [--rows 500000 100] [--rounds 3] [--json FILE]

All ways read the same files and write to Spark's `noop` sink, in one JVM, alternating:

* `read`: the rows, as they are;
* `shuffle`: the rows, spread by key;
* `arrow`: through one Python process, which gives back what it gets;
* `operator`: a few empty rows through Spark's stateful operator, which reads and writes one small value for each key group;
* `three processes`: the way of a step, with nothing computed: rows are packed in Arrow, pass the operator, and are unpacked;
* `holdfast` and `native`: the count itself.

What lies between `three processes` and `holdfast` is what Holdfast can still save. The rest is Spark's own.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from _counting import OUTPUT, Count
from _data import SCHEMAS, random_batches, write_batches
from _processes import usage
from _report import machine, print_table, save_json
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import holdfast as hf

_KEY_GROUPS = 8
_UNSTEADY = 3
"""Micro-batches at the beginning of a query that do not count."""
_PACKED = "label int, payload binary"
_SMALL = 100
_UNBOUNDED = "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage"
Batches = Iterator[pa.RecordBatch]


class Echo(StatefulProcessor):
    """Gives back its rows. For each key group it reads and writes one value of a map, as little as a step could."""

    def init(self, handle: Any) -> None:
        self._values = handle.getMapState("blobs", "name string", "blob binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        seen = self._values.getValue(("head",))
        self._values.updateValue(("head",), (b"x" * 64 if seen is None else bytes(seen[0]),))
        yield from (Row(label=row.label, payload=row.payload) for row in rows)

    def close(self) -> None:
        """Nothing to release."""


def _same(batches: Batches) -> Batches:
    yield from batches


def _pack(batches: Batches) -> Batches:
    """Rows become one row for each key group; which rows go where makes no difference here."""
    for batch in batches:
        size = -(-batch.num_rows // _KEY_GROUPS)
        slices = [batch.slice(begin, size) for begin in range(0, batch.num_rows, size)]
        yield pa.record_batch({"label": pa.array(range(len(slices)), pa.int32()), "payload": [*map(_bytes_of, slices)]})


def _bytes_of(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(sink.getvalue())


def _unpack(batches: Batches) -> Batches:
    for batch in batches:
        for payload in batch.column("payload"):
            yield from pa.ipc.open_stream(payload.as_buffer())


def _few(batches: Batches) -> Batches:
    """One empty row for each key group and Arrow batch, so that hardly anything passes the operator."""
    for _ in batches:
        yield pa.record_batch({"label": pa.array(range(_KEY_GROUPS), pa.int32()), "payload": [b""] * _KEY_GROUPS})


def _operator(packed: DataFrame) -> DataFrame:
    # What a benchmark's file defines cannot be imported by a worker.
    import __main__

    cloudpickle.register_pickle_by_value(__main__)  # type: ignore[no-untyped-call]
    return packed.groupBy("label").transformWithState(Echo(), _PACKED, "Append", "None")


WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "read": lambda rows: rows,
    "shuffle": lambda rows: rows.repartition(F.col("key")),
    "arrow": lambda rows: rows.mapInArrow(_same, rows.schema),
    "operator": lambda rows: _operator(rows.mapInArrow(_few, _PACKED)),
    "three processes": lambda rows: _operator(rows.mapInArrow(_pack, _PACKED)).mapInArrow(_unpack, rows.schema),
    "holdfast": lambda rows: hf.keyed(rows, key="key", value="value").par_do(Count(), output=OUTPUT, key_groups=_KEY_GROUPS),
    "native": lambda rows: rows.groupBy("key").count(),
}


def measure(spark: Any, data: Path, way: str) -> dict[str, Any]:
    """One query over all files."""
    rows = spark.readStream.schema(SCHEMAS["string"]).option("maxFilesPerTrigger", 1).parquet(str(data))
    if way == "native":
        spark.conf.set(_UNBOUNDED, "false")
    with tempfile.TemporaryDirectory() as folder:
        writer = WAYS[way](rows).writeStream.format("noop").outputMode("update" if way == "native" else "append")
        before = usage()
        query = writer.option("checkpointLocation", folder).trigger(availableNow=True).start()
        query.awaitTermination()
        after = usage()
        told = [report for report in query.recentProgress if report.numInputRows]
    spark.conf.unset(_UNBOUNDED)
    return {
        "ms": [report.batchDuration for report in told[_UNSTEADY:]],
        "planning_ms": [report.durationMs["queryPlanning"] for report in told[_UNSTEADY:]],
        "jvm_cpu_ms": 1000 * (after.jvm_cpu_s - before.jvm_cpu_s) / len(told),
        "python_cpu_ms": 1000 * (after.python_cpu_s - before.python_cpu_s) / len(told),
    }


def lines_of(rows: int, found: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    """A line for each way: medians of its rounds."""
    lines = []
    for way, rounds in found.items():
        p50 = [statistics.median(run["ms"]) for run in rounds]
        planning = statistics.median(statistics.median(run["planning_ms"]) for run in rounds)
        cpu = [statistics.median(run[name] for run in rounds) for name in ("jvm_cpu_ms", "python_cpu_ms")]
        spread = f"{statistics.median(p50):,.0f} ({min(p50):,.0f}-{max(p50):,.0f})"
        rate = f"{1000 * rows / statistics.median(p50):,.0f}"
        lines.append([way, spread, f"{planning:,.0f}", rate, *(f"{each:,.0f}" for each in cpu)])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[500_000, _SMALL], help="in a micro-batch")
    parser.add_argument("--rounds", type=int, default=3, help="the first of which warms up and does not count")
    parser.add_argument("--json", type=Path, default=Path("artifacts/floors.json"))
    options = parser.parse_args()
    spark = hf.session("floors", cores=2, config={"spark.sql.files.openCostInBytes": "0"})
    figures: dict[str, Any] = {"machine": machine(), "rows": {}}
    with tempfile.TemporaryDirectory(prefix="holdfast-floors-") as folder:
        for rows in options.rows:
            batches, keys = (40, 10_000) if rows <= _SMALL else (8, 1_000_000)
            data = Path(folder) / str(rows)
            write_batches(data, random_batches(rows * batches, keys, rows, 1), "string")
            found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
            for number in range(options.rounds):
                for way in WAYS:
                    run = measure(spark, data, way)
                    print(f"{rows:,} rows, round {number + 1}, {way}: {statistics.median(run['ms']):,.0f} ms", flush=True)
                    if number or options.rounds == 1:
                        found[way].append(run)
            figures["rows"][rows] = found
            print(f"\n{rows:,} rows a micro-batch")
            columns = ["way", "p50 ms", "planning", "rows/s", "JVM CPU ms", "Python CPU ms"]
            print_table(columns, lines_of(rows, found))
            print()
    save_json(options.json, figures)


if __name__ == "__main__":
    main()

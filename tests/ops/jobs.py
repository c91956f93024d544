"""A small job, for tests that start it here, and as a program: jobs.py INPUT CHECKPOINT NAME."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import holdfast as hf

SCHEMA = "k string, v long"


class Running(hf.DoFn):
    """Counts, and keeps the last values in a bag that expires."""

    COUNT = hf.ValueStateSpec("count", hf.VarIntCoder())
    VALUES = hf.BagStateSpec("values", hf.VarIntCoder(), ttl="1 hour")

    def process(self, element, count=hf.DoFn.StateParam(COUNT), values=hf.DoFn.StateParam(VALUES)):
        count.write((count.read() or 0) + 1)
        values.add(element[1])
        yield element[0], count.read()


def add_file(folder: Path, number: int, rows: list[tuple[str, int]]) -> None:
    """One file is one micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]})
    pq.write_table(table, folder / f".{number:05d}.parquet")
    (folder / f".{number:05d}.parquet").rename(folder / f"{number:05d}.parquet")


def make_job(spark, folder: Path, checkpoint: str, name: str = "running", trigger=None, sink=None, **options) -> hf.Job:
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    counts = hf.keyed(source, key="k", value="v").par_do(
        Running(), output="k string, n long", key_groups=4, name=options.pop("step", "running")
    )
    job = hf.Job(name, checkpoint=checkpoint, trigger=trigger, progress=False, **options)
    return job.write(counts, sink or hf.sinks.Collect())


def main() -> None:
    folder, checkpoint, name = sys.argv[1:]
    spark = hf.session("ops", cores=1, config={"spark.local.dir": tempfile.gettempdir(), "spark.driver.memory": "1g"})

    def show(rows, batch):
        rows.count()
        print(f"batch {batch}", flush=True)

    make_job(spark, Path(folder), checkpoint, name, sink=hf.sinks.ForeachBatch(show)).run()
    print("ended", flush=True)


if __name__ == "__main__":
    main()

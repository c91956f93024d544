"""A job of the fault tests, as a program: reads the files there are, one a micro-batch, and ends.

With `--sink several` or `--sink several-delta` the job is the pipeline, else the ledger. The program says `active` on its
standard output when its query runs, and `done` when all input is in the sink; or, with `--until-stopped`, `active` when
it is about to run, and `done` when it was stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import traceback
from pathlib import Path

from ledger import OUTPUT, Ledger  # type: ignore[import-not-found]  # run as a script, from its own folder
from pipeline import Hold, pipeline_job  # type: ignore[import-not-found]

import holdfast as hf

# An executor that lives for seconds would spend most of them on compiling what it never runs again.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("input", "checkpoint", "sink", "output"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory-budget-bytes", type=int, default=1 << 30)
    parser.add_argument("--files-at-once", type=int, default=1)
    parser.add_argument("--until-stopped", action="store_true")
    parser.add_argument("--hold-written", type=int, help="pipeline: wait to be killed when so many sinks are written")
    parser.add_argument("--hold-passes", type=int, default=0, help="how many times not to")
    parser.add_argument("--seconds-max", type=float, default=900)
    options = parser.parse_args()
    threading.Thread(target=watch, args=(options.seconds_max, os.getppid()), daemon=True).start()
    job = _job(options)
    if options.until_stopped:
        print("active", flush=True)
        job.run()
    else:
        job.start()
        print("active", flush=True)
        job.wait()
    for name, did in job.metrics.items():
        print(f"{name} did loads={did.loads} catch_ups={did.catch_ups} snapshot_bytes={did.snapshot_bytes}", flush=True)
    print("done", flush=True)


def _job(options: argparse.Namespace) -> hf.Job:
    spark = hf.session(
        "fault",
        cores=2,
        config={
            "spark.master": options.master,
            "spark.driver.memory": "1g",
            "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
        },
        memory_budget_bytes=options.memory_budget_bytes,
    )
    if options.sink.startswith("several"):
        hold = Hold(options.hold_written, options.hold_passes)
        delta = options.sink == "several-delta"
        return pipeline_job(spark, options.input, options.checkpoint, options.output, hold, delta=delta)
    source = spark.readStream.schema("k string, v long, at timestamp")
    source = source.option("maxFilesPerTrigger", options.files_at_once)
    stream = hf.keyed(source.json(options.input), key="k", value="v", timestamp="at", watermark="10 seconds")
    rows = stream.par_do(Ledger(), output=OUTPUT, key_groups=4)
    trigger = None if options.until_stopped else "available now"
    job = hf.Job("ledger", checkpoint=options.checkpoint, trigger=trigger, progress=False)
    return job.write(rows, _ledger_sink(options.sink, options.output))


def _ledger_sink(kind: str, output: str) -> hf.sinks.Sink:
    """Of a PostgreSQL server, `output` is a file that says where it is."""
    if kind == "postgres":
        return hf.sinks.Postgres(Path(output).read_text(), "ledger", schema="ledger")
    if kind == "duckdb":
        return hf.sinks.DuckDB(output, "ledger")
    if kind == "sqlite":
        return hf.sinks.Sqlite(output, "ledger")
    return hf.sinks.Delta(output) if kind == "delta" else hf.sinks.Parquet(output)


def watch(seconds_max: float, parent: int) -> None:
    """Ends the program when it takes too long, or when the test that started it is gone."""
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline and os.getppid() == parent:
        time.sleep(0.5)
    why = f"no end after {seconds_max:.0f} seconds" if os.getppid() == parent else "the test is gone"
    print(f"watchdog: {why}", file=sys.stderr, flush=True)
    os._exit(3)


if __name__ == "__main__":
    try:
        main()
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)

"""An archive of the classes that Spark loads, which the JVMs of the tests share: it halves what starting one costs.

A JVM that lives for seconds spends most of them on loading Spark's classes, and on compiling what it never runs again. The
archive is made once for a checkout, by a small job, and kept in `build/`. A JVM that cannot use it, because it has another
class path or version, starts as if there were none.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

__all__ = ["JAVA_OPTIONS", "make_archive", "share_archive"]

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_VARIABLE = "SPARK_SUBMIT_OPTS"
_ROOT = Path(__file__).parents[1]
_SECONDS_MAX = 180
_JOB = """
import sys
from pathlib import Path
import holdfast as hf

class Count(hf.DoFn):
    SEEN = hf.ValueStateSpec("seen", hf.VarIntCoder())
    def process(self, element, seen=hf.DoFn.StateParam(SEEN)):
        seen.write((seen.read() or 0) + 1)
        yield element[0], seen.read()

folder = Path(sys.argv[1])
spark = hf.session("classes", cores=2)
rows = spark.createDataFrame([("a", 1), ("b", 2)], "k string, v int")
rows.write.parquet(str(folder / "input"))
stream = spark.readStream.schema(rows.schema).parquet(str(folder / "input"))
counts = hf.keyed(stream, key="k", value="v").par_do(Count(), output="k string, n int", key_groups=2)
job = hf.Job("classes", checkpoint=str(folder / "checkpoint"), trigger="available now", progress=False)
job.write(counts, hf.sinks.Parquet(str(folder / "rows"))).run()
assert spark.read.parquet(str(folder / "rows")).count() == 2
jvm = spark.sparkContext._gateway.proc
spark.stop()
jvm.stdin.close()
jvm.wait(120)
"""


def share_archive() -> None:
    """Has the JVMs that this process and its children start use the archive, if there is one."""
    archive = _archive()
    shared = f" -XX:SharedArchiveFile={archive} -Xlog:disable" if archive.exists() else ""
    os.environ.setdefault(_VARIABLE, JAVA_OPTIONS + shared)


def make_archive() -> None:
    """Makes the archive if it is missing. Without it the tests only take longer."""
    archive = _archive()
    if archive.exists():
        return
    archive.parent.mkdir(exist_ok=True)
    print("Making an archive of Spark's classes (once; half a minute or so) ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=archive.parent) as folder:
        made = Path(folder) / "made.jsa"
        environment = {**os.environ, _VARIABLE: f"{JAVA_OPTIONS} -XX:ArchiveClassesAtExit={made}"}
        command = [sys.executable, "-c", _JOB, folder]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, timeout=_SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired:
            return
        if done.returncode == 0 and made.exists():
            made.replace(archive)


def _archive() -> Path:
    parts = [pyspark.__file__, pyspark.__version__, str(_ROOT), os.environ.get("JAVA_HOME", "")]
    return _ROOT / "build" / f"classes-{hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()}.jsa"

"""The daemon from which Spark forks its Python workers, with everything imported beforehand.

With Spark's own daemon, each worker imports pyspark from a zip archive, which is compiled every time, and Arrow as well.
Here this is done once, from the installed packages if pyspark is one of them. `hf.session()` uses this daemon
(`spark.python.daemon.module`). A cluster without it loses a few seconds in the first micro-batch, and 20 to 30 ms in every
task: Spark's workers collect garbage after each task, which takes that long with these modules loaded, and longer with much
state. Objects loaded before the fork are frozen, and never searched; `collecting.py` bounds the search of the others. So
pandas must be loaded here too: Arrow imports it when it makes a batch of lists.
"""

import gc
import sys
from importlib.machinery import PathFinder
from typing import Any

_installed = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]
if PathFinder.find_spec("pyspark", _installed) is not None:
    sys.path[:] = _installed

import pandas  # noqa: E402, F401
import pyarrow  # noqa: E402, F401
import pyspark.worker  # noqa: E402, F401
from pyspark import daemon  # noqa: E402

import holdfast.spark.stages.bounded  # noqa: E402
import holdfast.spark.stages.pack  # noqa: E402
import holdfast.spark.stages.processor  # noqa: E402
import holdfast.spark.stages.unpack  # noqa: E402, F401
from holdfast.spark.stages.collecting import Collector  # noqa: E402


def _quietly(worker: Any) -> Any:
    """A worker that exits silently when the JVM has closed its socket, as it does when a query is stopped."""

    def run(*arguments: Any) -> Any:
        try:
            return worker(*arguments)
        except (BrokenPipeError, ConnectionResetError):
            return 1

    return run


if __name__ == "__main__":
    # Spark's daemon would print a traceback.
    daemon.worker = _quietly(daemon.worker)
    daemon.gc = Collector()  # type: ignore[attr-defined, assignment]
    gc.collect()
    gc.freeze()
    daemon.manager()

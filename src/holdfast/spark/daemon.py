"""The daemon from which Spark forks its Python workers, with everything imported beforehand.

Spark's own daemon lets each worker import pyspark from a zip archive, which is compiled again every time, and Arrow
besides. Here it is done once, from the installed packages. `hf.session()` uses it (`spark.python.daemon.module`); a
cluster that does not loses some seconds of the first micro-batch, and in each task the 20 to 30 ms that it takes to look for
garbage among all that was imported: a worker does so after every task, and here what was imported is exempt.
"""

import gc
import sys

sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]

import pyarrow  # noqa: E402, F401
import pyspark.worker  # noqa: E402, F401
from pyspark import daemon  # noqa: E402

import holdfast.spark.bounded  # noqa: E402
import holdfast.spark.pack  # noqa: E402
import holdfast.spark.processor  # noqa: E402
import holdfast.spark.unpack  # noqa: E402, F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    daemon.manager()

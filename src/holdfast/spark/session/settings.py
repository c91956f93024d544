"""Spark's settings for Holdfast, in one place, and a local session that has them.

`SETTINGS` are those that a job needs or benefits from, each with its reason; `session(config=...)` overrides any of them. A
job on the user's own session is checked for those that it cannot work without (`REQUIRED`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError
from holdfast.spark.session.checkpoint_files import keep_safe, local_file_settings
from holdfast.spark.session.home import lean_home
from holdfast.spark.session.kafka_connector import jar_settings
from holdfast.spark.session.properties import MEMORY_BUDGET

__all__ = [
    "REQUIRED",
    "SETTINGS",
    "lacking_settings",
    "memory_budget_bytes",
    "required_problems",
    "session",
    "session_lacks",
    "with_settings",
    "with_stop_timeout",
]

_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

_MEMORY_BUDGET_BYTES = 2 << 30

_settings_turn = threading.RLock()

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_STOP_TIMEOUT = "spark.sql.streaming.stopTimeout"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"

REQUIRED: dict[str, str] = {
    # transformWithState works only with this provider.
    "spark.sql.streaming.stateStore.providerClass": _PROVIDER,
}

SETTINGS: dict[str, str] = {
    **REQUIRED,
    # A micro-batch uploads what changed, not whole store files.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Counting rows costs a read for each write.
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    # All stores of an executor share one bounded cache, however many partitions it has.
    "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage": "true",
    "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB": "256",
    # With a limit of bytes Spark adds up the sizes of all columns before each row that it writes for a Python worker: a
    # third of what reading and writing them costs. The largest number means none. The number of rows is the limit instead:
    # those that hold payloads are of 128 KB at most, so that a batch of them has 256 MB at most.
    _BATCH_BYTES: "2147483647",
    _BATCH_ROWS: "2048",
    # Times do not depend on where the driver runs.
    "spark.sql.session.timeZone": "UTC",
    # Workers keep key groups in memory between micro-batches.
    "spark.python.worker.reuse": "true",
    # How many micro-batches you can go back.
    "spark.sql.streaming.minBatchesToRetain": "100",
    # A stopped query's tasks end at once rather than keep running.
    _STOP_TIMEOUT: "60s",
}

_LOCAL: dict[str, str] = {
    # Workers are forked with everything imported.
    "spark.python.daemon.module": "holdfast.spark.stages.daemon",
    # Cheaper than TCP: a worker has a socket to the state store, on which each key group waits for an answer or two.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.adaptive.enabled": "false",
}


def session(
    name: str = "holdfast",
    *,
    cores: int | None = None,
    memory_budget_bytes: int | None = None,
    config: Mapping[str, object] | None = None,
) -> SparkSession:
    """A local session with all settings: `cores` of this machine, as many shuffle partitions, nothing on the network.

    `memory_budget_bytes` bounds the state that a Python worker keeps between micro-batches, for all its steps together; the
    rest is read again when needed. It can read and write Kafka if the jars for that were fetched: `holdfast jars kafka`.

    A session that is already running gets the settings that can still be set.
    """
    _check_java()
    cores = cores or os.cpu_count() or 1
    # Workers must run the Python that has Holdfast installed.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _share_import_path()
    given = {option: str(value) for option, value in (config or {}).items()}
    settings = {**SETTINGS, **_LOCAL, **local_file_settings(), "spark.sql.shuffle.partitions": str(cores)}
    if _BATCH_ROWS in given:
        del settings[_BATCH_BYTES]
    if memory_budget_bytes is not None:
        settings[MEMORY_BUDGET] = str(memory_budget_bytes)
    settings |= given
    settings |= jar_settings(settings)
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    settings[_JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={log4j} {settings.get(_JAVA_OPTIONS, '')}".strip()
    builder = SparkSession.builder.appName(name).master(settings.pop("spark.master", f"local[{cores}]"))
    for option, value in settings.items():
        builder = builder.config(option, value)
    with lean_home():
        spark = builder.getOrCreate()
    keep_safe(spark)
    return spark


def memory_budget_bytes(spark: SparkSession) -> int:
    """How much state a Python worker keeps in memory between micro-batches."""
    given = spark.conf.get(MEMORY_BUDGET, None)
    if given is None:
        return _MEMORY_BUDGET_BYTES
    if not given.isdecimal():
        raise HoldfastError(
            f"The setting {MEMORY_BUDGET} is {given!r}, which is not a number of bytes.",
            todo=f"set it to a whole number: spark.conf.set({MEMORY_BUDGET!r}, str(2 << 30))",
        )
    return int(given)


def lacking_settings(chosen: Callable[[str], str | None]) -> dict[str, str]:
    """The settings that a query can still be given and that were not chosen. `chosen` returns a session's explicit value, or
    None; Spark's own default does not count."""
    of_queries = [option for option in SETTINGS if option.startswith("spark.sql.")]
    lacking = {option: SETTINGS[option] for option in of_queries if chosen(option) is None}
    if _BATCH_ROWS not in lacking:
        # If only the rows per Arrow batch were chosen, Spark's byte limit stays in force.
        lacking.pop(_BATCH_BYTES, None)
    return lacking


def session_lacks(spark: SparkSession) -> dict[str, str]:
    """The settings that a query started in this session must be given."""
    return lacking_settings(lambda option: spark.conf.get(option, None))


def required_problems(spark: SparkSession) -> list[str]:
    """Settings chosen in a session that steps cannot run with."""
    return [
        f"The session has {option} set to {chosen}; steps keep their state in {value.rpartition('.')[2]} only. Remove the "
        f"setting: spark.conf.unset({option!r}); each query of steps is then given the right one."
        for option, value in REQUIRED.items()
        if (chosen := spark.conf.get(option, None)) not in (None, value)
    ]


@contextlib.contextmanager
def with_stop_timeout(spark: SparkSession) -> Iterator[None]:
    """Stopping a query in this block times out, unless the session already has a timeout. Spark reads it from the session
    itself, not from the query's clone.

    Queries that others start meanwhile are not harmed by it, so nobody has to wait, unlike with `with_settings`.
    """
    if spark.conf.get(_STOP_TIMEOUT, None) is not None:
        yield
        return
    spark.conf.set(_STOP_TIMEOUT, SETTINGS[_STOP_TIMEOUT])
    try:
        yield
    finally:
        spark.conf.unset(_STOP_TIMEOUT)


@contextlib.contextmanager
def with_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets options of a session in this block; only one thread at a time."""
    with _settings_turn:
        before = {name: spark.conf.get(name, None) for name in wanted}
        for name, value in wanted.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, previous in before.items():
                if previous is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, previous)


def _share_import_path() -> None:
    """Lets local workers find modules where the driver does, including those beside its script."""
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    missing = [str(Path(entry or ".").resolve()) for entry in sys.path if Path(entry or ".").is_dir()]
    paths = dict.fromkeys(path for path in [*known, *missing] if path and "site-packages" not in path)
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if not path.startswith(sys.base_prefix))


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else "java"
    if shutil.which(java) is None:
        raise HoldfastError(
            f"Spark cannot start: it needs Java 17 or newer, and {java!r} was not found.",
            todo="install it, for example: sudo apt-get install openjdk-17-jre-headless",
        )

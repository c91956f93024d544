"""Spark's Kafka connector: put on the class path of our own sessions, and looked for on that of others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError
from holdfast.spark.session.connectors import present_jars

__all__ = ["check_kafka", "jar_settings"]

_PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_JARS = "spark.jars"
_CLASS_PATHS = (_JARS, "spark.jars.packages", "spark.driver.extraClassPath")


def jar_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """The setting with which a session has the connector, if its jars were fetched. None if the user has a say in it: one
    with a connector of their own, or jars that this setting would replace."""
    jars = present_jars("kafka")
    own = any("kafka" in settings.get(option, "").lower() for option in _CLASS_PATHS)
    if jars is None or own or _is_set_elsewhere():
        return {}
    given = [settings[_JARS]] if settings.get(_JARS) else []
    return {_JARS: ",".join([*given, *(jar.as_uri() for jar in jars)])}


def check_kafka(spark: SparkSession, what: str) -> None:
    """Raises HoldfastError, with the command to run, if the session cannot read and write Kafka."""
    jvm: Any = spark._jvm
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(_PROVIDER)
    except Py4JJavaError:
        fetched = present_jars("kafka")
        if fetched is None:
            todo = "run `holdfast jars kafka` once, then start Spark again, with hf.session()"
        else:
            todo = "the jars are there: start Spark again, with hf.session()"
        raise HoldfastError(
            f"{what} needs Spark's Kafka connector, which this session does not have.",
            todo=f"{todo}; or give a session of your own the setting spark.jars that `holdfast jars kafka` prints",
        ) from None


def _is_set_elsewhere() -> bool:
    """Whether Spark is told about jars outside of the program."""
    words = os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if (home := os.environ.get("SPARK_HOME")) else None)
    try:
        defaults = Path(folder, "spark-defaults.conf").read_text() if folder else ""
    except (OSError, UnicodeDecodeError):
        defaults = ""
    lines = [line for line in defaults.splitlines() if not line.lstrip().startswith("#")]
    return any(sign in words for sign in ("--jars", "--packages", _JARS)) or any(_JARS in line for line in lines)

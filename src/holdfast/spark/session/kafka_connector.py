"""Spark's Kafka connector: put on the class path of our own sessions, and looked for on that of others."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from holdfast.errors import HoldfastError
from holdfast.spark.session.connectors import present_jars
from holdfast.spark.session.secrets import FromEnv, FromFile

__all__ = ["check_kafka", "check_secrets", "jar_settings"]

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


def check_secrets(spark: SparkSession, secrets: Iterable[FromEnv | FromFile]) -> None:
    """Raises HoldfastError if a secret is not there where Spark's driver runs."""
    jvm: Any = spark._jvm
    for secret in secrets:
        if isinstance(secret, FromFile):
            _check_file(Path(secret.path))
        elif not jvm.java.lang.System.getenv(secret.variable):
            raise HoldfastError(
                f"A secret is missing: Spark does not have the environment variable {secret.variable!r}.",
                todo="set it before Spark starts; on a cluster also for the executors",
            )


def _check_file(path: Path) -> None:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise HoldfastError(f"A secret is missing: {str(path)!r} cannot be read: {error.strerror}.") from None
    if not content or content.endswith(b"\n"):
        raise HoldfastError(
            f"{str(path)!r} is empty, or ends with a line end, which would be a part of the secret.",
            todo="write the file without one, for example with printf",
        )


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

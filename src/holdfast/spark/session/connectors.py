"""Which jars a connector of Spark needs beside Spark's own, by Spark's version, and where they are kept.

A jar is pinned by its SHA-256. A connector is either there as a whole or not used: `fetching.py` puts a jar into its folder
only after its digest was checked, and under its name in one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from holdfast.errors import HoldfastError
from holdfast.spark.session.cache import cache_folder

__all__ = ["CONNECTORS", "Jar", "connector_folder", "connector_jars", "present_jars"]


@dataclass(frozen=True)
class Jar:
    """A file of a Maven repository."""

    group: str
    artifact: str
    version: str
    size_bytes: int
    sha256: str

    @property
    def file(self) -> str:
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """Where it is in a repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file}"


# For Spark 4.3 neither its own connector nor the token provider of 4.2 is on Maven Central; these work with it.
_KAFKA_4_3 = (
    Jar(
        "org.apache.spark",
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        494_879,
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark",
        "spark-token-provider-kafka-0-10_2.13",
        "4.1.0-preview1",
        66_117,
        "ab6e27a8a47ce63348dd0ecbd5543dc6212b4783180305cde5749e79684ea97b",
    ),
    Jar(
        "org.apache.kafka",
        "kafka-clients",
        "3.9.2",
        9_220_052,
        "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    ),
    Jar(
        "org.apache.commons",
        "commons-pool2",
        "2.13.0",
        156_676,
        "488ededfcc481666845265a64dccc322fc8f0205940b4943a53de2d8ed04c48c",
    ),
)

CONNECTORS: dict[str, dict[str, tuple[Jar, ...]]] = {"kafka": {"4.3": _KAFKA_4_3}}
"""The jars of a connector, by Spark's version as far as it matters."""


def connector_jars(name: str, spark_version: str | None = None) -> tuple[Jar, ...]:
    """The jars of a connector for a version of Spark: the installed one unless another is given.

    Raises HoldfastError if there is no such connector, or none is known for this Spark.
    """
    if name not in CONNECTORS:
        raise HoldfastError(f"There is no connector {name!r}; there is {', '.join(CONNECTORS)}.")
    version = metadata.version("pyspark") if spark_version is None else spark_version
    known = CONNECTORS[name]
    jars = known.get(_minor(version))
    if jars is None:
        raise HoldfastError(
            f"Which jars of the {name} connector go with PySpark {version} is not known; known are those for Spark "
            f"{', '.join(known)}.",
            todo=f"give Spark the jars yourself, in the setting spark.jars; or install PySpark {', '.join(known)}",
        )
    return jars


def connector_folder(name: str, spark_version: str | None = None) -> Path:
    """Where its jars are kept."""
    version = metadata.version("pyspark") if spark_version is None else spark_version
    return cache_folder() / "jars" / f"{name}-spark-{_minor(version)}"


def present_jars(name: str) -> list[Path] | None:
    """The files of a connector for the installed Spark, if all of them are there."""
    try:
        wanted = connector_jars(name)
        folder = connector_folder(name)
        files = [folder / jar.file for jar in wanted]
        whole = all(file.stat().st_size == jar.size_bytes for file, jar in zip(files, wanted, strict=True))
    except (HoldfastError, OSError, RuntimeError):
        return None
    return files if whole else None


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])

"""Sources for trying something out: rows at a steady rate, and lines from a socket. Neither is for production: what a socket
has sent is lost when the query stops."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import InvalidStep
from holdfast.spark.sources.decoding import OnMalformed
from holdfast.spark.sources.formats import Format, Json, Text
from holdfast.spark.sources.source import Reading, Source, choice_problems
from holdfast.spark.stages.unpack import Outputs

__all__ = ["Rate", "Socket"]


class Rate(Source):
    """Rows with a `timestamp` and a `value` that counts from 0, so many each second."""

    def __init__(self, rows_per_second: int = 1) -> None:
        if type(rows_per_second) is not int or rows_per_second < 1:
            raise InvalidStep.of("Rate", [f"rows_per_second is {rows_per_second!r}; give a whole number from 1 on."])
        self._rows_per_second = rows_per_second

    def read(self, spark: SparkSession) -> Outputs:
        return Outputs({"main": spark.readStream.format("rate").option("rowsPerSecond", self._rows_per_second).load()})

    def __repr__(self) -> str:
        return f"Rate({self._rows_per_second})"


class Socket(Source):
    """The lines that a server sends, such as `nc -lk 9999`. `format` is `Text` or `Json`. A query that starts again has lost
    what was sent before."""

    def __init__(self, host: str, port: int, format: Format = Text(), *, on_malformed: OnMalformed = "dead_letter") -> None:
        problems = [*choice_problems(on_malformed=(on_malformed, OnMalformed))]
        if not isinstance(format, (Text, Json)):
            problems.append(f"The format is {format!r}; give hf.sources.Text() or Json(schema).")
        if type(port) is not int or not 0 < port < 1 << 16:
            problems.append(f"The port is {port!r}; give a number from 1 to 65535.")
        if problems:
            raise InvalidStep.of("Socket", problems)
        self._host, self._port, self._format = host, port, format
        self._on_malformed: OnMalformed = on_malformed

    def read(self, spark: SparkSession) -> Outputs:
        lines = spark.readStream.format("socket").option("host", self._host).option("port", self._port).load()
        reading = Reading(
            kind="Socket",
            source=repr(self),
            format=self._format,
            own=StructType([]),
            kept={},
            letter=["value"],
            on_malformed=self._on_malformed,
        )
        return reading.outputs(lines.select(lines.value.cast("binary")))

    def __repr__(self) -> str:
        return f"Socket({self._host!r}, {self._port})"

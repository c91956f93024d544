"""Records in a Kafka topic, through Spark's own connector."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import InvalidStep
from holdfast.spark.sinks.base import BatchInfo, Sink
from holdfast.spark.sinks.kafka_records import ID_HEADER, marked, record_columns
from holdfast.spark.sinks.upsert import Upsert
from holdfast.spark.sources.kafka_options import kafka_options, option_problems, servers_text

__all__ = ["Kafka"]

_SURE = {"kafka.acks": "all", "kafka.enable.idempotence": "true"}
"""A record counts as written when all replicas that are in sync have it; a retry of the client writes it once."""
_ALWAYS = {name: f"always {value!r}, so that no record is lost" for name, value in _SURE.items()} | {
    "includeHeaders": "of the source only"
}


class Kafka(Sink):
    """Appends a record for each row, at least once: a micro-batch that comes again is written again.

    Each record has the header `holdfast-id`. It is the same when a micro-batch comes again, and another for every other
    record, also for one of equal content. A consumer that leaves out records whose id it has seen gets each exactly once.

    `key` and `value` are a column, which is written as it is, or several, written as a JSON object; by default the value has
    all columns, and there is no key. Of values that are neither text nor bytes, the text is written. A null value is a
    tombstone. `headers` gives each header a column. Rows of a key that are in order stay so. `options` are Spark's and, with
    the prefix `kafka.`, those of Kafka's producer; for what is secret in them there are `FromEnv` and `FromFile`.

    It cannot upsert: a topic keeps what was written, and nothing in it says whose it is. For a topic that is compacted, give
    the columns of the key as `key`, and append; Kafka keeps the newest record of each key.
    """

    evaluates_all = True

    def __init__(
        self,
        servers: str | Sequence[str],
        topic: str,
        *,
        key: str | Sequence[str] | None = None,
        value: str | Sequence[str] | None = None,
        headers: Mapping[str, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._servers = servers
        self._topic = topic
        self._key = key
        self._value = value
        self._headers = {} if headers is None else headers
        self._options = {} if options is None else options
        problems = [*option_problems(servers, self._options, _ALWAYS), *self._problems()]
        if problems:
            raise InvalidStep.of("Kafka", problems)

    def upserting(self, upsert: Upsert) -> Sink:
        cannot = (
            f"{self!r} cannot upsert: a topic keeps all records. Append, with key={list(upsert.key)!r}; if the topic is "
            "compacted, Kafka keeps the newest of each key."
        )
        raise InvalidStep.of_sink(self, [cannot])

    def open(self, spark: SparkSession, schema: StructType, query_id: str | None) -> None:
        problems = [*self._column_problems(schema)]
        if problems:
            raise InvalidStep.of_sink(self, problems)
        self._writing(spark)

    def write_batch(self, rows: DataFrame, info: BatchInfo) -> None:
        records = rows.select(*record_columns(rows.schema, self._key, self._value, self._headers))
        found = marked(records, info, self._topic, has_key=self._key is not None)
        found.write.format("kafka").options(**self._writing(rows.sparkSession)).save()

    def _writing(self, spark: SparkSession) -> dict[str, str]:
        return {**kafka_options(spark, "hf.sinks.Kafka", self._servers, self._options), **_SURE, "topic": self._topic}

    @property
    def place(self) -> Hashable:
        return "kafka", tuple(sorted(servers_text(self._servers).replace(" ", "").split(","))), self._topic

    def __repr__(self) -> str:
        return f"Kafka({servers_text(self._servers)!r}, {self._topic!r})"

    def _problems(self) -> Iterator[str]:
        if not isinstance(self._topic, str) or not self._topic:
            yield f"The topic is {self._topic!r}; give its name."
        for name, given in (("key", self._key), ("value", self._value)):
            if given is not None and not isinstance(given, str) and not _are_names(given):
                yield f"{name} is {given!r}; give the name of a column, or a list of names."
        if not isinstance(self._headers, Mapping) or not _are_names([*self._headers, *self._headers.values()] or ["-"]):
            yield "headers must be a dict from names of headers to names of columns."
        elif ID_HEADER in self._headers:
            yield f"The header {ID_HEADER!r} is the sink's own; give yours another name."

    def _column_problems(self, schema: StructType) -> Iterator[str]:
        key = [] if self._key is None else _listed(self._key)
        value = schema.names if self._value is None else _listed(self._value)
        for name in dict.fromkeys([*key, *value, *self._headers.values()]):
            if schema.names.count(name) != 1:
                which = "is no column" if name not in schema.names else "are two columns"
                yield f"There {which} {name!r}; the columns are {', '.join(schema.names)}."


def _listed(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _are_names(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and bool(given) and all(isinstance(name, str) and name for name in given)

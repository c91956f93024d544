"""Records of Kafka topics, through Spark's own connector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from holdfast.errors import InvalidStep
from holdfast.spark.sources.decoding import OnMalformed, Tombstones
from holdfast.spark.sources.event_time import EventTime
from holdfast.spark.sources.formats import Avro, Format, Json, Raw, Text
from holdfast.spark.sources.kafka_options import kafka_options, option_problems, servers_text
from holdfast.spark.sources.source import Reading, Source, choice_problems
from holdfast.spark.sources.start import Start, start_options, start_problems
from holdfast.spark.stages.unpack import Outputs

__all__ = ["Kafka"]

_OWN = (
    "key binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)
_COLUMNS = ("key", "topic", "partition", "offset", "timestamp", "headers")
_LETTER = ("topic", "partition", "offset", "timestamp", "key", "value")
_ARGUMENTS = {
    "startingOffsets": "the argument `start`",
    "startingTimestamp": "the argument `start`",
    "startingOffsetsByTimestamp": "the argument `start`",
    "maxOffsetsPerTrigger": "the argument `max_per_trigger`",
    "includeHeaders": "'headers' in the argument `columns`",
}


class Kafka(Source):
    """Records of one topic or several.

        payments = hf.sources.Kafka(
            "localhost:9092", "payments", value=hf.sources.Json("card string not null, amount double, at timestamp")
        ).read(spark)
        payments.main           # card, amount, at
        payments.dead_letter    # topic, partition, offset, timestamp, key, value, reason

    `value` is the format of the values: `Json`, `Avro`, `Text` or `Raw`. `key` is that of the keys, `Raw` or `Text`.
    `columns` names what rows have of Kafka's own: "key", "topic", "partition", "offset", "timestamp" and "headers"; a dict
    gives them other names.

    Each malformed record goes to `dead_letter`, once, with its bytes and the reason; write that output, or nobody sees
    them. With `on_malformed="fail"` it fails its micro-batch, and there is no `dead_letter`. `tombstones`: a record without
    a value is malformed, a row of nulls ("rows"), or left out ("skip"). `event_time` says which times can be.

    `start`, which counts for a new checkpoint alone: "earliest", "latest", a time, or the offset of each partition of each
    topic. `max_per_trigger` bounds the records of a micro-batch. `options` are Spark's and, with the prefix `kafka.`, those
    of Kafka's consumer; for what is secret in them there are `FromEnv` and `FromFile`.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        topics: str | Sequence[str],
        *,
        value: Format = Raw(),
        key: Format = Raw(),
        columns: Sequence[str] | Mapping[str, str] = (),
        on_malformed: OnMalformed = "dead_letter",
        tombstones: Tombstones = "malformed",
        event_time: EventTime | None = None,
        start: Start = "earliest",
        max_per_trigger: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._servers = servers
        self._topics = [topics] if isinstance(topics, str) else topics
        self._columns = columns if isinstance(columns, Mapping) else {name: name for name in columns}
        self._start = start
        self._max_per_trigger = max_per_trigger
        self._options = {} if options is None else options
        problems = [*self._problems(), *_format_problems(value, key, event_time)]
        problems += choice_problems(on_malformed=(on_malformed, OnMalformed), tombstones=(tombstones, Tombstones))
        if problems:
            raise InvalidStep.of("Kafka", problems)
        self._topics = list(self._topics)
        self._format, self._key_format = value, key
        self._on_malformed: OnMalformed = on_malformed
        self._tombstones: Tombstones = tombstones
        self._event_time = event_time

    def read(self, spark: SparkSession) -> Outputs:
        options = {"maxOffsetsPerTrigger": str(self._max_per_trigger)} if self._max_per_trigger is not None else {}
        return self._read(spark, spark.readStream, {**start_options(self._start), **options})

    def read_batch(self, spark: SparkSession) -> Outputs:
        """What the topics hold now, from `start` on, as DataFrames that are no streams."""
        if self._start == "latest":
            raise InvalidStep.of("Kafka", ["A batch that begins with 'latest' has no records; give another start."])
        return self._read(spark, spark.read, start_options(self._start))

    def _read(self, spark: SparkSession, reader: Any, more: dict[str, str]) -> Outputs:
        # What a producer took back was never there.
        options = {"kafka.isolation.level": "read_committed"}
        options |= {**kafka_options(spark, "hf.sources.Kafka", self._servers, self._options), **more}
        options["subscribe"] = ",".join(self._topics)
        options["includeHeaders"] = str("headers" in self._columns).lower()
        raw = reader.format("kafka").options(**options).load()
        return self._reading().outputs(raw)

    def _reading(self) -> Reading:
        own = StructType.fromDDL(_OWN)
        assert isinstance(own, StructType)
        plural = "s" if len(self._topics) > 1 else ""
        return Reading(
            kind="Kafka",
            source=f"the topic{plural} {', '.join(map(repr, self._topics))}",
            format=self._format,
            text_key=isinstance(self._key_format, Text) and "key" in self._columns,
            own=own,
            kept=self._columns,
            letter=[*_LETTER, "headers"] if "headers" in self._columns else _LETTER,
            on_malformed=self._on_malformed,
            tombstones=self._tombstones,
            event_time=self._event_time,
        )

    def _problems(self) -> Iterator[str]:
        yield from option_problems(self._servers, self._options, _ARGUMENTS)
        topics = self._topics
        if not isinstance(topics, (list, tuple)) or not topics or not all(isinstance(one, str) and one for one in topics):
            yield f"The topics are {topics!r}; give the name of one, or a list of names."
        else:
            yield from (f"The topic {one!r} has a comma in its name; give a list of names." for one in topics if "," in one)
            yield from start_problems(self._start, list(topics))
        unknown = [name for name in self._columns if name not in _COLUMNS]
        if unknown:
            yield f"Kafka's records have no {', '.join(map(repr, unknown))}; columns can be {', '.join(_COLUMNS)}."
        if not all(isinstance(name, str) and name for name in self._columns.values()):
            yield "columns must give each column a name that is a text."
        limit = self._max_per_trigger
        if limit is not None and (type(limit) is not int or limit < 1):
            yield f"max_per_trigger is {limit!r}; give a whole number of records from 1 on."

    def __repr__(self) -> str:
        return f"Kafka({servers_text(self._servers)!r}, {', '.join(self._topics)!r}, value={type(self._format).__name__})"


def _format_problems(value: Any, key: Any, event_time: Any) -> Iterator[str]:
    if not isinstance(value, (Json, Avro, Text, Raw)):
        yield f"value is {value!r}; give a format: hf.sources.Json(schema), Avro(schema), Text() or Raw()."
    if not isinstance(key, (Text, Raw)):
        yield f"key is {key!r}; keys are hf.sources.Raw() or Text()."
    if event_time is not None and not isinstance(event_time, EventTime):
        yield f"event_time is {event_time!r}; give hf.sources.EventTime('column')."

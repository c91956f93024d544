"""What all sources share: raw records become the outputs `main` and `dead_letter`."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.types import StructField, StructType

from holdfast.errors import InvalidStep
from holdfast.spark.sources.decoding import (
    LETTER,
    MAIN,
    NOW,
    VALUE,
    DecodingPlan,
    OnMalformed,
    Tombstones,
    decoding_stage,
)
from holdfast.spark.sources.event_time import EventTime
from holdfast.spark.sources.formats import Format
from holdfast.spark.sources.record_types import zone_of
from holdfast.spark.stages.assign import quoted
from holdfast.spark.stages.unpack import Outputs

__all__ = ["Reading", "Source", "choice_problems"]


class Source(abc.ABC):
    """Where records come from. `read` gives their rows as the output `main`, and malformed records as `dead_letter`."""

    @abc.abstractmethod
    def read(self, spark: SparkSession) -> Outputs:
        """The records as a stream. Nothing is read before a query runs."""


@dataclass(frozen=True)
class Reading:
    """How raw records are read, whatever source they are of."""

    kind: str
    """The class of the source, for messages."""
    source: str
    format: Format
    own: StructType
    """The columns that the source has beside the value."""
    kept: Mapping[str, str]
    """Those of them that rows have too, with their names there."""
    letter: Sequence[str]
    """Those of them that a dead letter has."""
    on_malformed: OnMalformed
    tombstones: Tombstones = "malformed"
    text_key: bool = False
    """Whether the column `key` is a text in rows."""
    event_time: EventTime | None = None
    more: Sequence[str] = ()
    """Those of them that only the format looks at."""

    def outputs(self, raw: DataFrame) -> Outputs:
        """`main`, and `dead_letter` if there can be any. `raw` has the column `value` and the source's own."""
        plan = self._plan(raw.sparkSession)
        if self.tombstones == "skip":
            raw = raw.where(F.col(VALUE).isNotNull())
        if not self._can_fail:
            kept = [F.col(name).alias(field.name) for name, field in plan.kept]
            return Outputs({"main": raw.select(F.col(VALUE).alias(plan.value.names[0]), *kept)})
        decoded = raw.select(*self._needed(plan)).mapInArrow(decoding_stage(plan), plan.output)
        if self.on_malformed == "fail":
            return Outputs({"main": decoded})
        return Outputs(
            {
                "main": decoded.where(F.col(LETTER).isNull()).select(*_inside(MAIN, plan.main.names)),
                "dead_letter": decoded.where(F.col(LETTER).isNotNull()).select(*_inside(LETTER, plan.letter.names)),
            }
        )

    @property
    def _can_fail(self) -> bool:
        """Whether a record can be malformed; otherwise Spark alone does all there is to do."""
        return self.format.can_fail or self.event_time is not None or self.text_key

    def _plan(self, spark: SparkSession) -> DecodingPlan:
        value = self.format.columns()
        if self.tombstones == "rows":
            value = StructType([StructField(field.name, field.dataType) for field in value.fields])
        plan = DecodingPlan(
            source=self.source,
            format=self.format,
            value=value,
            kept=tuple((name, self._kept_field(name, called)) for name, called in self.kept.items()),
            text_key=self.text_key,
            letter=self._letter(),
            zone=spark.conf.get("spark.sql.session.timeZone") or "UTC",
            on_malformed=self.on_malformed,
            tombstones=self.tombstones,
            event_time=self.event_time,
        )
        problems = [*_clashes(plan.main.names), *self._event_time_problems(plan.main), *_zone_problems(plan.zone)]
        if problems:
            raise InvalidStep.of(self.kind, problems)
        return plan

    def _kept_field(self, name: str, called: str) -> StructField:
        kind = self.own[name].dataType
        return StructField(called, spark_types.StringType() if name == "key" and self.text_key else kind)

    def _letter(self) -> StructType:
        fields = [
            StructField(name, spark_types.BinaryType() if name == VALUE else self.own[name].dataType) for name in self.letter
        ]
        return StructType([*fields, StructField("reason", spark_types.StringType())])

    def _needed(self, plan: DecodingPlan) -> Iterator[Any]:
        names = dict.fromkeys([VALUE, *self.letter, *self.more, *(name for name, _ in plan.kept)])
        yield from (F.col(name) for name in names)
        if self.event_time is not None:
            yield F.current_timestamp().alias(NOW)

    def _event_time_problems(self, main: StructType) -> Iterator[str]:
        if self.event_time is None:
            return
        name = self.event_time.column
        kinds = [field.dataType for field in main.fields if field.name == name]
        if not kinds:
            yield f"There is no column {name!r} for the event time; the columns are {', '.join(main.names)}."
        elif not isinstance(kinds[0], spark_types.TimestampType):
            yield f"The event time {name!r} is {kinds[0].simpleString()}; it must be a timestamp."


def _inside(struct: str, names: Iterable[str]) -> list[Any]:
    return [F.col(f"{struct}.{quoted(name)}").alias(name) for name in names]


def _zone_problems(zone: str) -> Iterator[str]:
    try:
        zone_of(zone)
    except ValueError:
        yield f"The session's time zone {zone!r} is not known here; set spark.sql.session.timeZone to another name of it."


def _clashes(names: list[str]) -> Iterator[str]:
    folded = [name.lower() for name in names]
    for name in dict.fromkeys(folded):
        if folded.count(name) > 1:
            yield (
                f"The value and the source both have a column {name!r}; give the source's another name: "
                f"columns={{{name!r}: '...'}}."
            )


def choice_problems(**chosen: tuple[Any, Any]) -> Iterator[str]:
    """Options that are none of what their type allows."""
    for option, (given, allowed) in chosen.items():
        if given not in get_args(allowed):
            yield f"{option} is {given!r}; it is one of {', '.join(map(repr, get_args(allowed)))}."

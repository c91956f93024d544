"""Sources: where the records of a job come from. Malformed records become dead letters, each once, with the reason."""

from holdfast.spark.session.secrets import FromEnv, FromFile
from holdfast.spark.sources.event_time import EventTime
from holdfast.spark.sources.files import Files
from holdfast.spark.sources.formats import Avro, Csv, Format, Json, Parquet, Raw, Text
from holdfast.spark.sources.kafka import Kafka
from holdfast.spark.sources.source import Source
from holdfast.spark.sources.trying_out import Rate, Socket

__all__ = [
    "Avro",
    "Csv",
    "EventTime",
    "Files",
    "Format",
    "FromEnv",
    "FromFile",
    "Json",
    "Kafka",
    "Parquet",
    "Rate",
    "Raw",
    "Socket",
    "Source",
    "Text",
]

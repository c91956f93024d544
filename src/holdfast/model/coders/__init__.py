"""Coders: how values become bytes and come back.

`PlainCoder` is the default and takes any plain Python value. Use another one for a fixed type, a smaller or
more readable form, or your own classes. `Coder` is the base class of your own coders.
"""

from holdfast.model.coders.base import Coder, Encoded
from holdfast.model.coders.composite import (
    IterableCoder,
    JsonCoder,
    ListCoder,
    MapCoder,
    NullableCoder,
    TupleCoder,
)
from holdfast.model.coders.opaque import OpaqueCoder
from holdfast.model.coders.pickled import CloudpickleCoder, PickleCoder
from holdfast.model.coders.plain import FastPrimitivesCoder, PlainCoder, default_coder
from holdfast.model.coders.primitive import (
    BigIntegerCoder,
    BooleanCoder,
    BytesCoder,
    DecimalCoder,
    FloatCoder,
    StrUtf8Coder,
    TimestampCoder,
    VarIntCoder,
)
from holdfast.model.coders.records import RecordCoder, RecordViewCoder, RowViewCoder
from holdfast.model.coders.registry import coder_from_description
from holdfast.model.coders.struct import StructCoder

__all__ = [
    "BigIntegerCoder",
    "BooleanCoder",
    "BytesCoder",
    "CloudpickleCoder",
    "Coder",
    "DecimalCoder",
    "Encoded",
    "FastPrimitivesCoder",
    "FloatCoder",
    "IterableCoder",
    "JsonCoder",
    "ListCoder",
    "MapCoder",
    "NullableCoder",
    "OpaqueCoder",
    "PickleCoder",
    "PlainCoder",
    "RecordCoder",
    "RecordViewCoder",
    "RowViewCoder",
    "StrUtf8Coder",
    "StructCoder",
    "TimestampCoder",
    "TupleCoder",
    "VarIntCoder",
    "coder_from_description",
    "default_coder",
]

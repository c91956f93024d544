"""Flink's names of types: each gives the coder for such values."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from holdfast.model.coders import (
    BigIntegerCoder,
    BooleanCoder,
    Coder,
    DecimalCoder,
    FloatCoder,
    ListCoder,
    MapCoder,
    PickleCoder,
    StrUtf8Coder,
    TimestampCoder,
    TupleCoder,
    VarIntCoder,
)
from holdfast.model.time.timestamps import Timestamp

__all__ = ["Types"]


class Types:
    """Coders by Flink's names of types.

    Whole numbers may be larger than Flink's types of that name, and all floats have 64 bits: nothing is cut off. The
    names that are missing (`SQL_DATE`, `ROW_NAMED`, …) are for what the default coder or a `RecordCoder` does.
    """

    @staticmethod
    def STRING() -> Coder[str]:
        return StrUtf8Coder()

    @staticmethod
    def BOOLEAN() -> Coder[bool]:
        return BooleanCoder()

    @staticmethod
    def BYTE() -> Coder[int]:
        return VarIntCoder()

    @staticmethod
    def SHORT() -> Coder[int]:
        return VarIntCoder()

    @staticmethod
    def INT() -> Coder[int]:
        return VarIntCoder()

    @staticmethod
    def LONG() -> Coder[int]:
        return VarIntCoder()

    @staticmethod
    def BIG_INT() -> Coder[int]:
        return BigIntegerCoder()

    @staticmethod
    def FLOAT() -> Coder[float]:
        return FloatCoder()

    @staticmethod
    def DOUBLE() -> Coder[float]:
        return FloatCoder()

    @staticmethod
    def BIG_DEC() -> Coder[Decimal]:
        return DecimalCoder()

    @staticmethod
    def INSTANT() -> Coder[Timestamp]:
        return TimestampCoder()

    @staticmethod
    def TUPLE(field_types: Sequence[Coder[Any]]) -> Coder[tuple[Any, ...]]:
        return TupleCoder(tuple(field_types))

    @staticmethod
    def ROW(field_types: Sequence[Coder[Any]]) -> Coder[tuple[Any, ...]]:
        """A row is a tuple here."""
        return TupleCoder(tuple(field_types))

    @staticmethod
    def LIST(element_type_info: Coder[Any]) -> Coder[list[Any]]:
        return ListCoder(element_type_info)

    @staticmethod
    def MAP(key_type_info: Coder[Any], value_type_info: Coder[Any]) -> Coder[dict[Any, Any]]:
        return MapCoder(key_type_info, value_type_info)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> Coder[Any]:
        """Anything that can be pickled. Tools show such values only if told to trust them."""
        return PickleCoder()

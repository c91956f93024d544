"""How Python values become a column of one type: what fits exactly, what converts without loss, and what is refused.

Arrow alone would silently turn 5.7 into 5 and bytes into a list of numbers. So each column type has a `Fit`, which knows by
class which values Arrow takes unchanged, converts those that mean the same, and refuses all others. The classes of a
column's values are checked together; single values only if one of the classes is unusual.
"""

from __future__ import annotations

import abc
import operator
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["ARROW_ERRORS", "Fit", "Leaf", "Misfit", "is_bool", "leaf_fit"]

ARROW_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""What Arrow raises for a value that it does not accept."""

_NONE = type(None)


class Misfit(ValueError):
    """A value that does not fit: why, what to do about it, and where it is inside the column's value."""

    def __init__(self, why: str, todo: str = "", path: str = "", value: Any = None) -> None:
        super().__init__(why)
        self.why = why
        self.todo = todo
        self.path = path
        self.value = value

    def below(self, path: str) -> Misfit:
        """The same, as seen from the enclosing value."""
        return Misfit(self.why, self.todo, path + self.path, self.value)

    def of(self, value: Any) -> Misfit:
        """The same, for this value."""
        return Misfit(self.why, self.todo, self.path, value)


class Fit(abc.ABC):
    """Makes columns of one type. None is null; whether null is allowed is up to the field."""

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind

    @abc.abstractmethod
    def array(self, values: Sequence[Any]) -> pa.Array:
        """The column with these values. Raises Misfit, or one of ARROW_ERRORS, for one that does not fit."""

    @abc.abstractmethod
    def explain(self, value: Any) -> Misfit | None:
        """Why a value does not fit; None if it does."""

    def surely(self, value: Any) -> bool:
        """Whether a value certainly fits; if not, it may still fit."""
        return False


class Leaf(Fit):
    """A type with no others inside."""

    exact: frozenset[type] = frozenset()
    """The classes whose values Arrow takes unchanged, or refuses."""
    takes = ""
    """What such a column takes, for the message."""
    hints: Sequence[tuple[tuple[type, ...], str]] = ()
    """What to do about values of certain classes."""

    def array(self, values: Sequence[Any]) -> pa.Array:
        exact = self.exact
        if not exact.issuperset(set(map(type, values))):
            values = [value if value.__class__ in exact else self.convert(value) for value in values]
        return pa.array(values, type=self.kind)

    def convert(self, value: Any) -> Any:
        """Converts a value of another class to one that Arrow takes, without loss; raises Misfit."""
        raise self.misfit(value)

    def explain(self, value: Any) -> Misfit | None:
        try:
            self.array([value])
        except Misfit as misfit:
            return misfit
        except ARROW_ERRORS:
            return self.misfit(value)
        return None

    def misfit(self, value: Any) -> Misfit:
        todo = next((todo for classes, todo in self.hints if isinstance(value, classes)), "")
        return Misfit(f"it takes {self.takes}", todo)


def is_bool(value: Any) -> bool:
    """Whether it is a boolean, which Python treats as a number and we do not."""
    return isinstance(value, (bool, np.bool_))


class Whole(Leaf):
    exact = frozenset({int, _NONE})
    hints = (
        ((float, np.floating, Decimal), "round it: round(value) or int(value); or make the column a double"),
        ((bool, np.bool_), "make the column a boolean, or yield int(value)"),
        ((str,), "yield int(text)"),
        ((int, np.integer), "make the column a bigint, or a decimal(38,0)"),
    )

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        self._limit = 1 << (kind.bit_width - 1)
        self.takes = f"whole numbers from {-self._limit} to {self._limit - 1}"

    def convert(self, value: Any) -> Any:
        if is_bool(value) or not hasattr(value, "__index__"):
            raise self.misfit(value)
        return operator.index(value)

    def surely(self, value: Any) -> bool:
        return value.__class__ is int and -self._limit <= value < self._limit


class Real(Leaf):
    exact = frozenset({float, int, _NONE})
    hints = (
        ((Decimal,), "yield float(value), or make the column a decimal"),
        ((bool, np.bool_), "make the column a boolean, or yield float(value)"),
        ((str,), "yield float(text)"),
        ((int, np.integer), "yield float(value), which rounds it, or make the column a bigint or a decimal"),
    )
    takes = "floats, and whole numbers up to 2**53, which a double holds exactly"

    def convert(self, value: Any) -> Any:
        if is_bool(value):
            raise self.misfit(value)
        if isinstance(value, (float, np.floating)):
            number = float(value)
            if number == value or number != number:
                return number
        elif hasattr(value, "__index__"):
            return operator.index(value)
        raise self.misfit(value)

    def surely(self, value: Any) -> bool:
        return value.__class__ is float


class Single(Real):
    """A 32-bit float: the nearest to the value, as expected of such a column, but never infinity instead of it."""

    takes = "floats up to 3.4e38, and whole numbers up to 2**24, which a 32-bit float holds exactly"

    def array(self, values: Sequence[Any]) -> pa.Array:
        column = super().array(values)
        large = np.flatnonzero(np.isinf(column.to_numpy(zero_copy_only=False)))
        for place in large.tolist():
            if not np.isinf(values[place]):
                raise self.misfit(values[place])
        return column

    def misfit(self, value: Any) -> Misfit:
        misfit = super().misfit(value)
        return misfit if misfit.todo else Misfit(misfit.why, "make the column a double")

    def surely(self, value: Any) -> bool:
        return value.__class__ is float and -1.0 <= value <= 1.0


class Boolean(Leaf):
    exact = frozenset({bool, _NONE})
    takes = "True and False"
    hints = (((int, float, str, np.number), "yield bool(value), or a comparison"),)

    def convert(self, value: Any) -> Any:
        if isinstance(value, np.bool_):
            return bool(value)
        raise self.misfit(value)

    def surely(self, value: Any) -> bool:
        return value.__class__ is bool


class Text(Leaf):
    exact = frozenset({str, _NONE})
    takes = "strings"
    hints = (
        ((bytes, bytearray, memoryview), "yield value.decode()"),
        ((str,), "it has a surrogate, half of a character; replace it: text.encode(errors='replace').decode()"),
        ((object,), "yield str(value)"),
    )

    def convert(self, value: Any) -> Any:
        if isinstance(value, str):
            return str.__str__(value)
        raise self.misfit(value)

    def surely(self, value: Any) -> bool:
        return value.__class__ is str and value.isascii()


class Binary(Leaf):
    exact = frozenset({bytes, bytearray, _NONE})
    takes = "bytes"
    hints = (((str,), "yield text.encode()"),)

    def convert(self, value: Any) -> Any:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        raise self.misfit(value)

    def surely(self, value: Any) -> bool:
        return value.__class__ is bytes


class Exact(Leaf):
    """Decimals. Arrow itself refuses to cut digits off."""

    exact = frozenset({Decimal, int, _NONE})
    hints = (
        ((float, np.floating), "yield decimal.Decimal(str(value)), rounded to the column's digits"),
        ((Decimal,), "round it: value.quantize(...), or give the column more digits"),
        ((bool, np.bool_), "make the column a boolean, or yield int(value)"),
        ((int, np.integer), "give the column more digits"),
        ((str,), "yield decimal.Decimal(text)"),
    )

    def __init__(self, kind: pa.DataType) -> None:
        super().__init__(kind)
        before = kind.precision - kind.scale
        self.takes = f"decimals and whole numbers with up to {before} digits before the point and {kind.scale} after it"

    def convert(self, value: Any) -> Any:
        if isinstance(value, Decimal):
            return Decimal(value)
        if is_bool(value) or not hasattr(value, "__index__"):
            raise self.misfit(value)
        return operator.index(value)


class Nothing(Leaf):
    exact = frozenset({_NONE})
    takes = "None only"


def leaf_fit(kind: pa.DataType) -> Leaf | None:
    """The fit of a simple type that is not a time; None for any other type."""
    if pa.types.is_floating(kind):
        return Single(kind) if kind.bit_width == 32 else Real(kind)
    tests: list[tuple[Any, type[Leaf]]] = [
        (pa.types.is_signed_integer, Whole),
        (pa.types.is_boolean, Boolean),
        (pa.types.is_string, Text),
        (pa.types.is_binary, Binary),
        (pa.types.is_decimal, Exact),
        (pa.types.is_null, Nothing),
    ]
    return next((fit(kind) for test, fit in tests if test(kind)), None)

"""Reading values: a value is a plain value, or a row whose fields have names."""

from __future__ import annotations

import math
from decimal import Decimal
from numbers import Real
from typing import Any

import holdfast as hf
from holdfast.model.aggregate.combine import field_of

__all__ = ["exact_number_in", "number_in", "plain", "read"]


def read(value: object, field: str | None) -> object:
    """The field of a row, by its name; the value itself without one."""
    return value if field is None else field_of(value, field)


def number_in(value: object, field: str | None) -> float:
    """The number in a field, or the value itself, as a float. An InputError says what else is there."""
    return float(exact_number_in(value, field))


def exact_number_in(value: object, field: str | None) -> Any:
    """The same, but as the kind of number that it is: an int, a float or a decimal."""
    found = read(value, field)
    what = "A value" if field is None else f"The field {field!r} of a value"
    if isinstance(found, bool) or not isinstance(found, (Real, Decimal)) or not math.isfinite(found):
        raise hf.InputError(
            f"{what} is {found!r:.200}; it must be a finite number.",
            todo="Leave such rows out before the step, or send them to the output dead_letter: on_error='dead_letter'.",
        )
    return found


def plain(value: object) -> object:
    """The value as a cell of the default coder keeps it: a row, which is a named tuple, as a dict of its fields."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(item) for name, item in zip(value._fields, value, strict=True)}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value

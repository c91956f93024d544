"""Values as lossless JSON, and as short texts for people, with nothing hidden in them.

JSON values stand for themselves. Everything else is an object with one name that begins with `$`: {"$bytes": "…base64…"},
{"$tuple": […]}, {"$set": […]}, {"$map": [[key, value], …]}, {"$decimal": "1.50"}, {"$datetime": "…ISO 8601…"}, {"$date": …},
{"$time": …}, {"$timedelta": microseconds}, {"$timestamp": "…RFC 3339…"}, {"$duration": microseconds}, {"$uuid": …},
{"$float": "nan"}, {"$complex": [real, imaginary]}, {"$bytearray": …}, {"$frozenset": …}; and
{"$integer": "…hexadecimal…"} for one of more digits than Python writes.

{"$opaque": …} stands for bytes that cannot be decoded here, and {"$repr": …} for an object that only pickle can store: they
can be shown, but not read back.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
import unicodedata
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from holdfast.errors import InputError, TimeError
from holdfast.model.coders import Encoded
from holdfast.model.time.timestamps import Duration, Timestamp

__all__ = ["counted", "from_json", "key_to_text", "time_text", "to_json", "to_text", "visible"]

_TEXT_MAX = 120
_INTEGER_BITS_MAX = 14_000
"""Python writes no integer of more than 4,300 digits in decimals, and reads none."""
_HIDDEN = ("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs")
"""The categories of characters that a terminal obeys or does not show: controls, marks that change the direction of
writing, characters without width, halves of characters, line ends, and spaces that look like the plain one but are not."""
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters by category, but invisible."""


def visible(text: str, keep: str = "") -> str:
    """A text in which every character is visible and harmless: all others are escaped as in Python. `keep`: characters to
    leave alone."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(letter if letter in keep or _is_seen(letter) else _escaped(letter) for letter in text)


def _is_seen(letter: str) -> bool:
    return letter == " " or (unicodedata.category(letter) not in _HIDDEN and letter not in _FILLERS)


def _escaped(letter: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(letter)
    code = ord(letter)
    return short or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: 1 key, 2 keys, 1,000 keys."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def to_json(value: Any) -> str:
    """A value as JSON, on one line."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def key_to_text(key: Any) -> str:
    """A key as text: a string as is, anything else as JSON, several columns as a list."""
    if isinstance(key, str):
        return key
    return to_json(list(key)) if type(key) is tuple else to_json(key)


def from_json(text: str) -> Any:
    """The inverse of `to_json`. Raises InputError for any other text."""
    try:
        return _lifted(json.loads(text))
    except RecursionError:
        raise InputError(f"{_shortened(text)} is not a value: it is nested too deeply.") from None
    except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        raise InputError(f"{_shortened(text)} is not a value: {error}.", todo="write it as an export would") from None


def to_text(value: Any, longest: int = _TEXT_MAX) -> str:
    """A value for people: as Python would write it, cut if it is long."""
    if isinstance(value, Timestamp):
        return time_text(value)
    try:
        text = repr(value)
    except ValueError:
        # There is an integer in it that Python does not write.
        text = to_json(value)
    return _shortened(visible(text), longest)


def time_text(value: Timestamp) -> str:
    """A time for people: as RFC 3339, or in seconds if that cannot express it."""
    return str(_time(value)) if isinstance(_time(value), str) else str(value)


def _time(value: Timestamp) -> str | int:
    """As RFC 3339, or in microseconds if that cannot express it."""
    try:
        return value.to_rfc3339()
    except TimeError:
        return value.micros


def _shortened(text: str, longest: int = _TEXT_MAX) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _micros(span: datetime.timedelta) -> int:
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def _base64(value: bytes | bytearray) -> str:
    return base64.b64encode(value).decode("ascii")


_NAMED: dict[type, tuple[str, Callable[[Any], Any]]] = {
    Encoded: ("opaque", _base64),
    bytes: ("bytes", _base64),
    bytearray: ("bytearray", _base64),
    complex: ("complex", lambda value: [_plain(value.real), _plain(value.imag)]),
    Decimal: ("decimal", str),
    datetime.datetime: ("datetime", lambda value: [value.isoformat(), _zone(value), value.fold]),
    datetime.date: ("date", lambda value: value.isoformat()),
    datetime.time: ("time", lambda value: [value.isoformat(), _zone(value), value.fold]),
    datetime.timedelta: ("timedelta", _micros),
    Timestamp: ("timestamp", lambda value: _time(value)),
    Duration: ("duration", lambda value: value.micros),
    uuid.UUID: ("uuid", str),
    tuple: ("tuple", lambda value: [_plain(item) for item in value]),
    set: ("set", lambda value: _sorted(value)),
    frozenset: ("frozenset", lambda value: _sorted(value)),
}


def _zone(value: datetime.datetime | datetime.time) -> str | None:
    """The name of the zone, if it has one: the ISO form only has the offset."""
    return getattr(value.tzinfo, "key", None)


def _sorted(members: Any) -> list[Any]:
    return sorted((_plain(member) for member in members), key=lambda plain: json.dumps(plain, sort_keys=True))


def _plain(value: Any) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if value.bit_length() <= _INTEGER_BITS_MAX else {"$integer": hex(value)}
    if kind is str:
        return (
            value
            if value.isprintable() or _is_unicode(value)
            else {"$text": _base64(value.encode("utf-8", "surrogatepass"))}
        )
    if kind is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if kind is list:
        return [_plain(item) for item in value]
    if kind is dict:
        if all(type(name) is str and not name.startswith("$") and _is_unicode(name) for name in value):
            return {name: _plain(item) for name, item in value.items()}
        return {"$map": [[_plain(name), _plain(item)] for name, item in value.items()]}
    if kind in _NAMED:
        name, convert = _NAMED[kind]
        return {f"${name}": convert(value)}
    return {"$repr": repr(value)}


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _moment(kind: Any) -> Callable[[Any], Any]:
    def lift(content: Any) -> Any:
        text, zone, fold = content
        moment = kind.fromisoformat(text)
        if zone is not None:
            from zoneinfo import ZoneInfo

            moment = moment.replace(tzinfo=ZoneInfo(zone))
        return moment.replace(fold=fold)

    return lift


_LIFTED: dict[str, Callable[[Any], Any]] = {
    "bytes": lambda content: base64.b64decode(content, validate=True),
    "bytearray": lambda content: bytearray(base64.b64decode(content, validate=True)),
    "text": lambda content: base64.b64decode(content, validate=True).decode("utf-8", "surrogatepass"),
    "complex": lambda content: complex(*(_lifted(part) for part in content)),
    "decimal": Decimal,
    "datetime": _moment(datetime.datetime),
    "date": datetime.date.fromisoformat,
    "time": _moment(datetime.time),
    "timedelta": lambda content: datetime.timedelta(microseconds=content),
    "timestamp": lambda content: Timestamp.from_rfc3339(content) if isinstance(content, str) else Timestamp(micros=content),
    "duration": lambda content: Duration(micros=content),
    "float": float,
    "integer": lambda content: int(content, 16),
    "uuid": uuid.UUID,
    "tuple": lambda content: tuple(_lifted(item) for item in content),
    "set": lambda content: {_lifted(item) for item in content},
    "frozenset": lambda content: frozenset(_lifted(item) for item in content),
    "map": lambda content: {_lifted(name): _lifted(item) for name, item in content},
}


def _lifted(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_lifted(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    names = list(plain)
    if len(names) == 1 and names[0].startswith("$"):
        lift = _LIFTED.get(names[0][1:])
        if lift is None:
            raise ValueError(f"{names[0]} cannot be read back")
        return lift(plain[names[0]])
    return {name: _lifted(item) for name, item in plain.items()}

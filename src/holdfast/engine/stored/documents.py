"""JSON that anybody may have written or damaged: read into typed fields, or refused.

A checksum shows that a file is as somebody wrote it, not who that was. So every field has a type, and a value of another
type is refused before it is used. A refusal is a `Malformed`, which says why; the reader of the file turns it into a
declared error, with the file's path and what to do.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

import msgspec

__all__ = ["Batch", "Count", "Malformed", "check_form", "parse_json", "read_document"]

T = TypeVar("T")

_DEPTH_MAX = 100

Batch = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
"""The number of a micro-batch."""
Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
"""The number of partitions or key groups."""


class Malformed(ValueError):
    """Text that is not the expected JSON. The message says why, as the end of a sentence."""


def read_document(data: bytes | str, form: type[T]) -> T:
    """Reads JSON with the fields and types of `form`."""
    return check_form(parse_json(data), form)


def parse_json(data: bytes | str, *, infinite: bool = False) -> Any:
    """Parses JSON of limited nesting. `infinite`: numbers may be Infinity, as Python's own writer produces."""
    try:
        content = _parsed(data, infinite)
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    except (msgspec.MsgspecError, ValueError):
        raise Malformed("it is cut short, or is not JSON" if data else "it is empty") from None
    if _is_deep(content):
        raise Malformed("it is nested too deeply")
    return content


def _parsed(data: bytes | str, infinite: bool) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.MsgspecError:
        if not infinite:
            raise
    content = json.loads(data)
    # Text that is not valid Unicode could not be written anywhere.
    json.dumps(content, ensure_ascii=False).encode()
    return content


def check_form(content: Any, form: type[T]) -> T:
    """Parsed JSON as a form. Nothing is converted: a text with a number in it is not a number."""
    try:
        return msgspec.convert(content, form)
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    except msgspec.MsgspecError as error:
        raise Malformed(f"it does not have the expected form ({error})") from None


def _is_deep(content: Any) -> bool:
    """Whether content is nested deeper than any of our documents."""
    level = [content]
    for _ in range(_DEPTH_MAX):
        level = [inner for outer in level for inner in _within(outer)]
        if not level:
            return False
    return True


def _within(content: Any) -> Any:
    return content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()

"""A key as text leads to that key, and to no other."""

from __future__ import annotations

import datetime
import math

import pytest

import holdfast as hf
from holdfast.engine.state.keys import slot_of
from holdfast.ops.reading.keys import find_key, key_text
from holdfast.ops.reading.steps import StepRef

STRINGS = [
    "",
    "a",
    " a ",
    "5",
    "1e5",
    "null",
    "true",
    '"a"',
    "[1]",
    '["a", 5]',
    '{"a": 1}',
    "a, b",
    "a\nb",
    "\x00",
    "\u2028",
    "ü",
    '{"$date": "2026-01-02"}',
    '{"$a": ["b"]}',
    '{"$bytes": "aGk="}',
    '{"$float": "nan"}',
    "[" * 5_000,
    '{"$a": ' + "1" * 5_000 + "}",
]


def step(*kinds: str) -> StepRef:
    columns = [{"name": f"c{number}", "type": kind} for number, kind in enumerate(kinds)]
    return StepRef("step", 0, {"key": columns, "key_groups": 16, "name": "step"})


@pytest.mark.parametrize("text", STRINGS, ids=lambda text: repr(text[:20]))
def test_a_string_is_found_as_it_is_shown(text: str) -> None:
    """Also one that looks like a value of another type: else another key would be shown, or removed, in its place."""
    for kinds, key in (
        (("string",), text),
        (("string", "bigint"), (text, 5)),
        (("date", "string"), (datetime.date(1970, 1, 2), text)),
    ):
        slot = slot_of(key)
        assert find_key(None, step(*kinds), key_text(slot)).slot == slot


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("bigint", 2**63 - 1),
        ("double", 0.1),
        ("date", datetime.date(2026, 1, 2)),
        ("binary", b"\x00\xff"),
        ("boolean", True),
    ],
)
def test_so_is_any_other_key(kind: str, key: object) -> None:
    assert find_key(None, step(kind), key_text(slot_of(key))).slot == slot_of(key)


@pytest.mark.parametrize("text", [b"\xff".decode("utf-8", "surrogateescape"), "\ud800a"])
def test_bytes_that_are_no_text_are_no_key(text: str) -> None:
    for kinds, given in ((("string",), text), (("string", "bigint"), f'["{text}", 5]'), (("bigint",), text)):
        with pytest.raises(hf.InputError, match="is not UTF-8"):
            find_key(None, step(*kinds), given)


def test_a_text_of_any_depth_is_refused_with_a_sentence() -> None:
    with pytest.raises(hf.InputError, match="it has 2 columns, c0, c1") as refused:
        find_key(None, step("string", "bigint"), "[" * 200_000)
    assert len(str(refused.value)) < 500


def test_a_number_that_is_none() -> None:
    with pytest.raises(hf.InputError, match="c0 is bigint"):
        find_key(None, step("bigint"), str(math.nan))

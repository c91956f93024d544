"""Keys: two are the same if they are the same value of the same type, and there is no element without one."""

from __future__ import annotations

import pytest

from holdfast import CombiningStateSpec, DoFn, InputError, TimerSpec, on_timer
from holdfast.testing import TestStream


class CountByKey(DoFn):
    """Gives the key as text, so that keys that Python takes for equal can be told apart."""

    COUNT = CombiningStateSpec("count", sum)
    LATER = TimerSpec("later")

    def process(self, element, key=DoFn.KeyParam, count=DoFn.StateParam(COUNT), later=DoFn.TimerParam(LATER)):
        count.add(1)
        later.set(10)
        yield "process", repr(key), repr(element[0]), count.read()

    @on_timer(LATER)
    def on_later(self, key=DoFn.KeyParam, count=DoFn.StateParam(COUNT)):
        yield "timer", repr(key), repr(key), count.read()


def test_equal_numbers_of_different_types_are_different_keys(run, feed):
    out = run(CountByKey(), feed(TestStream(), [(1, ""), (1.0, ""), (True, ""), (1, "")]).advance_watermark_to(10))
    assert sorted(out.values) == [
        ("process", "1", "1", 1),
        ("process", "1", "1", 2),
        ("process", "1.0", "1.0", 1),
        ("process", "True", "True", 1),
        ("timer", "1", "1", 2),
        ("timer", "1.0", "1.0", 1),
        ("timer", "True", "True", 1),
    ]
    assert [out.state(key)["count"] for key in (1, 1.0, True)] == [2, 1, 1]


@pytest.mark.parametrize(
    ("key", "other"),
    [
        (("a", 1), ("a", 1.0)),
        (("a", 1), ("a", True)),
        (("a", None), ("a", "")),
        ((None,), ()),
        (("a", ("b", 2)), ("a", ("b", 3))),
        (b"a", "a"),
        (b"\x00\xff", b"\x00"),
        (2.5, "2.5"),
        (0, False),
        (-(2**80), 2**80),
        ("", " "),
        ("Ähre", "A\u0308hre"),
    ],
    ids=repr,
)
def test_keys_of_any_plain_type(run, feed, key, other):
    out = run(CountByKey(), feed(TestStream(), [(key, ""), (other, ""), (key, "")]).advance_watermark_to(10))
    assert out.state(key) == {"count": 2}
    assert out.state(other) == {"count": 1}
    assert sorted(out.values) == sorted(
        [
            ("process", repr(key), repr(key), 1),
            ("process", repr(other), repr(other), 1),
            ("process", repr(key), repr(key), 2),
            ("timer", repr(key), repr(key), 2),
            ("timer", repr(other), repr(other), 1),
        ]
    )
    assert sorted(map(repr, out.keys())) == sorted([repr(key), repr(other)])


def test_keys_of_many_types_in_one_bundle(run):
    keys = [1, "1", b"1", 1.0, True, ("1",), (1,), (b"1", None)]
    out = run(CountByKey(), TestStream().add_elements([(key, "") for key in keys * 2]).advance_watermark_to(10))
    assert [out.state(key) for key in keys] == [{"count": 2}] * len(keys)
    fired = [key for what, key, *_ in out.values if what == "timer"]
    assert sorted(fired) == sorted(map(repr, keys))


@pytest.mark.parametrize("key_groups", [1, 7])
@pytest.mark.parametrize("elements", [[(None, 1)], [("a", 1), (None, 1)], [(("a",), 1), (None, 1)]], ids=repr)
def test_an_element_without_a_key_is_an_error(run, elements, key_groups):
    with pytest.raises(InputError, match="key is None"):
        run(CountByKey(), TestStream().add_elements(elements), key_groups=key_groups)


def test_a_pair_may_be_a_list(run):
    out = run(CountByKey(), TestStream().add_elements([["k", 1]]))
    assert out.values == [("process", "'k'", "'k'", 1)]


@pytest.mark.parametrize("key_groups", [1, 7])
def test_an_element_without_a_key_can_go_to_the_dead_letters(run, key_groups):
    elements = [("a", 1), (None, 2), ("a", 3)]
    out = run(CountByKey(), TestStream().add_elements(elements), on_error="dead_letter", key_groups=key_groups)
    (letter,) = out.tagged("dead_letter")
    assert (letter.key, letter.value, letter.timestamp) == (None, 2, 0)
    assert letter.error.startswith("InputError: An element has no key")
    assert out.state("a") == {"count": 2}
    assert out.metrics.dead_letters == 1

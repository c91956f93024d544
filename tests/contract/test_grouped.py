"""Functions that see the elements of a key in a bundle together."""

from __future__ import annotations

import holdfast as hf
from holdfast.testing import TestStream

TOTAL = hf.ValueStateSpec("total")


class Totals(hf.GroupedDoFn):
    def process(self, element, total=hf.DoFn.StateParam(TOTAL), window=hf.DoFn.WindowParam, at=hf.DoFn.TimestampParam):
        key, group = element
        if "bad" in group.values:
            raise ValueError("bad")
        total.write((total.read() or 0) + sum(group.values))
        yield key, group.values, [time // 1_000_000 for time in group.times], total.read(), int(at)


def test_one_call_for_each_key_of_a_bundle(run):
    stream = TestStream()
    stream.add_elements([("a", 1), ("b", 2), ("a", 3)], event_timestamp=5)
    stream.add_elements([("a", 4)], event_timestamp=6)
    assert sorted(run(Totals(), stream).values) == [
        ("a", [1, 3], [5, 5], 4, 5),
        ("a", [4], [6], 8, 6),
        ("b", [2], [5], 2, 5),
    ]


def test_one_call_for_each_window(run):
    stream = TestStream().add_elements([hf.TimestampedValue(("a", value), value) for value in (1, 12, 2, 15)])
    values = run(Totals(), stream, windowing=hf.FixedWindows(10)).values
    assert sorted(values) == [("a", [1, 2], [1, 2], 3, 2), ("a", [12, 15], [12, 15], 27, 15)]


def test_all_of_them_are_dead_letters_when_it_raises(run):
    stream = TestStream().add_elements([("a", 1), ("a", "bad"), ("b", 2)], event_timestamp=1)
    results = run(Totals(), stream, on_error="dead_letter")
    assert [(letter.key, letter.value) for letter in results.tagged("dead_letter")] == [("a", 1), ("a", "bad")]
    assert results.values == [("b", [2], [1], 2, 1)]
    assert results.state("a") == {}

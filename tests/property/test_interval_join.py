"""The join against two nested loops: in whatever order rows arrive, as long as none is late, the same rows come out."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import IntervalJoin, TimestampedValue
from holdfast.testing import TestStream, run

DELAY = 15
TIMES = st.integers(0, 60)
ROWS = st.lists(st.tuples(st.sampled_from(["left", "right"]), st.sampled_from("ab"), TIMES), max_size=30)


def nested_loops(rows, lower, upper, how):
    """Rows are (side, key, time, number)."""
    lefts = [row for row in rows if row[0] == "left"]
    rights = [row for row in rows if row[0] == "right"]
    pairs = [
        (one, other)
        for one in lefts
        for other in rights
        if one[1] == other[1] and one[2] + lower <= other[2] <= one[2] + upper
    ]
    found = [(one[1], one[3], other[3]) for one, other in pairs]
    if how in ("left", "outer"):
        found += [(row[1], row[3], None) for row in lefts if row not in [one for one, _ in pairs]]
    if how in ("right", "outer"):
        found += [(row[1], None, row[3]) for row in rights if row not in [other for _, other in pairs]]
    return Counter(found)


@settings(deadline=None)
@given(
    rows=ROWS,
    jitter=st.lists(st.integers(0, DELAY), min_size=30, max_size=30),
    bundles=st.lists(st.integers(1, 6), min_size=30, max_size=30),
    bounds=st.tuples(st.integers(-20, 20), st.integers(0, 25)),
    how=st.sampled_from(["inner", "left", "right", "outer"]),
    key_groups=st.integers(1, 2),
)
def test_as_two_nested_loops(rows, jitter, bundles, bounds, how, key_groups):
    lower, upper = bounds[0], bounds[0] + bounds[1]
    rows = [(*row, number) for number, row in enumerate(rows)]
    # In order of time, but each up to DELAY late: the watermark goes that far behind.
    arriving = [row for row, _ in sorted(zip(rows, jitter, strict=False), key=lambda pair: pair[0][2] + pair[1])]
    stream, watermark = TestStream(), None
    for size in bundles:
        bundle, arriving = arriving[:size], arriving[size:]
        stream.add_elements([TimestampedValue((key, (side, number)), time) for side, key, time, number in bundle])
        newest = max((time for _, _, time, _ in bundle), default=-100) - DELAY
        # Never beyond a row that is still to come.
        newest = min([newest, *(time for _, _, time, _ in arriving)])
        if watermark is None or newest > watermark:
            watermark = newest
            stream.advance_watermark_to(watermark)
    stream.add_elements([TimestampedValue((key, (side, number)), time) for side, key, time, number in arriving])
    results = run(IntervalJoin((lower, upper), how), stream.advance_watermark_to_infinity(), key_groups=key_groups)
    assert Counter(results.values) == nested_loops(rows, lower, upper, how)
    assert results.keys() == []


@settings(deadline=None)
@given(rows=ROWS, watermark=TIMES, lower=st.integers(-20, 20), width=st.integers(0, 25))
def test_nothing_is_kept_that_nothing_can_meet(rows, watermark, lower, width):
    upper = lower + width
    elements = [TimestampedValue((key, (side, None)), time) for side, key, time in rows]
    for stream in (
        TestStream().add_elements(elements).advance_watermark_to(watermark),
        TestStream().advance_watermark_to(watermark).add_elements(elements),
    ):
        results = run(IntervalJoin((lower, upper), "outer"), stream)
        for key in "ab":
            wanted = {
                "left": sorted(t for s, k, t in rows if (s, k) == ("left", key) and t + upper >= watermark),
                "right": sorted(t for s, k, t in rows if (s, k) == ("right", key) and t - lower >= watermark),
            }
            state = results.state(key)
            assert {side: [int(time) for time, _ in state.get(side, [])] for side in wanted} == wanted
            assert bool(results.timers(key)) == any(wanted.values())

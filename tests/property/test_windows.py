"""Window functions against naive ones that look at every window there is."""

from __future__ import annotations

from typing import Any

import numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.time.timestamps import Duration, Timestamp
from holdfast.model.windows.ready import (
    FixedWindows,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    WindowFn,
    window_from_bytes,
    window_to_bytes,
)
from tiers import examples

# No deadline: a busy machine is no failure.
SETTINGS = settings(max_examples=examples(100), deadline=None)
SMALL = st.integers(-60, 60)
SPAN = st.integers(1, 20)
WIDE = st.integers(-(10**17), 10**17)
WIDE_SPAN = st.integers(1, 10**15)


def micros(value: int) -> Duration:
    return Duration(micros=value)


def naive(timestamp: int, size: int, period: int, offset: int) -> list[tuple[int, int]]:
    """All windows around that hold the timestamp, newest first."""
    starts = [start for start in range(-200, 201) if (start - offset) % period == 0]
    return [(start, start + size) for start in reversed(starts) if start <= timestamp < start + size]


def check_block(window_fn: FixedWindows | SlidingWindows, timestamps: list[int]) -> None:
    """The block, the scalar and the `assign` of windows say the same."""
    index, start = window_fn.assign_block(numpy.array(timestamps, dtype=numpy.int64))
    expected = [(position, pair[0]) for position, t in enumerate(timestamps) for pair in window_fn.assign_micros(t)]
    assert list(zip(index.tolist(), start.tolist(), strict=True)) == expected
    assert start.dtype == numpy.int64
    for t in timestamps:
        windows = window_fn.assign(WindowFn.AssignContext(Timestamp(micros=t)))
        pairs = [(window.start.micros, window.end.micros) for window in windows]  # type: ignore[attr-defined]
        assert pairs == window_fn.assign_micros(t)


@SETTINGS
@given(st.lists(SMALL, max_size=8), SPAN, SMALL)
def test_fixed_windows_are_the_naive_ones(timestamps, size, offset):
    window_fn = FixedWindows(micros(size), micros(offset))
    for t in timestamps:
        assert window_fn.assign_micros(t) == naive(t, size, size, offset)
    check_block(window_fn, timestamps)


@SETTINGS
@given(st.lists(SMALL, max_size=8), SPAN, SPAN, SMALL)
def test_sliding_windows_are_the_naive_ones(timestamps, size, period, offset):
    window_fn = SlidingWindows(micros(size), micros(period), micros(offset))
    for t in timestamps:
        assert window_fn.assign_micros(t) == naive(t, size, period, offset)
    check_block(window_fn, timestamps)


@SETTINGS
@given(st.lists(WIDE, max_size=8), WIDE_SPAN, WIDE)
def test_fixed_windows_over_all_of_time(timestamps, size, offset):
    window_fn = FixedWindows(micros(size), micros(offset))
    for t in timestamps:
        [(start, end)] = window_fn.assign_micros(t)
        assert start <= t < end == start + size
        assert (start - offset) % size == 0
    check_block(window_fn, timestamps)


@SETTINGS
@given(st.lists(WIDE, max_size=8), WIDE_SPAN, st.integers(1, 6), st.integers(-(10**6), 10**6), WIDE)
def test_sliding_windows_over_all_of_time(timestamps, period, periods, extra, offset):
    size = max(1, period * periods + extra % period - period // 2)
    window_fn = SlidingWindows(micros(size), micros(period), micros(offset))
    for t in timestamps:
        pairs = window_fn.assign_micros(t)
        assert all(start <= t < end == start + size and (start - offset) % period == 0 for start, end in pairs)
        assert pairs == sorted(set(pairs), reverse=True)
        assert len(pairs) in (size // period, -(-size // period))
    check_block(window_fn, timestamps)


@SETTINGS
@given(st.lists(SMALL), SPAN, st.randoms(use_true_random=False))
def test_sessions_are_runs_closer_than_the_gap(timestamps, gap, random):
    runs: list[list[int]] = []
    for t in sorted(set(timestamps)):
        if runs and t - runs[-1][-1] < gap:
            runs[-1].append(t)
        else:
            runs.append([t])
    expected = {(run[0], run[-1] + gap) for run in runs}

    window_fn = Sessions(micros(gap))
    windows: set[Any] = set()
    for t in timestamps:
        windows.update(window_fn.assign(WindowFn.AssignContext(Timestamp(micros=t))))
    shuffled = sorted(windows)
    random.shuffle(shuffled)
    # Merging some first and the rest later comes to the same.
    cut = random.randint(0, len(shuffled))
    final = merge_all(window_fn, merge_all(window_fn, set(shuffled[:cut])) | set(shuffled[cut:]))
    assert {(window.start.micros, window.end.micros) for window in final} == expected


def merge_all(window_fn: WindowFn, windows: set[IntervalWindow]) -> set[IntervalWindow]:
    class Applying(WindowFn.MergeContext):
        def merge(self, to_be_merged, merge_result):
            assert set(to_be_merged) <= left
            left.difference_update(to_be_merged)
            left.add(merge_result)

    left = set(windows)
    window_fn.merge(Applying(windows))
    return left


INTERVALS = st.builds(
    lambda start, length: IntervalWindow(Timestamp(micros=start), Timestamp(micros=start + length)),
    SMALL | st.integers(-9223372036854775000, 2**62),
    st.integers(0, 60) | st.integers(0, 2**61),
)


@SETTINGS
@given(INTERVALS, INTERVALS)
def test_bytes_come_back_and_sort_like_windows(one, other):
    assert window_from_bytes(window_to_bytes(one)) == one
    assert (window_to_bytes(one) < window_to_bytes(other)) == (one < other)
    assert (window_to_bytes(one) == window_to_bytes(other)) == (one == other)


@SETTINGS
@given(st.integers(-(2**53), 2**53), st.integers(-(2**53), 2**53))
def test_timestamps_order_and_hash_like_their_floats(one, other):
    a, b = Timestamp(micros=one), Timestamp(micros=other)
    assert (a < b) == (one < other)
    assert (a < float(b)) == (float(a) < float(b))
    assert a == float(a)
    assert hash(a) == hash(float(a))

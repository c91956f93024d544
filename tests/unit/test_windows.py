"""Windows, their bytes, the ready window functions, and elements in windows."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import timedelta

import numpy
import pytest

from holdfast.errors import CoderError, CorruptState, TimeError
from holdfast.model.time.timestamps import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from holdfast.model.windows.ready import (
    BoundedWindow,
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
    window_from_bytes,
    window_to_bytes,
)
from holdfast.model.windows.values import (
    PANE_INFO_UNKNOWN,
    PaneInfo,
    PaneInfoTiming,
    TimestampedValue,
    WindowedValue,
)


def assigned(window_fn, timestamp):
    return window_fn.assign(WindowFn.AssignContext(timestamp))


def merged(window_fn, windows):
    """The (windows, result) pairs that the function asks for."""
    calls = []

    class Noting(WindowFn.MergeContext):
        def merge(self, to_be_merged, merge_result):
            calls.append((list(to_be_merged), merge_result))

    window_fn.merge(Noting(windows))
    return calls


class TestWindow:
    def test_interval(self):
        window = IntervalWindow(0, 10)
        assert window.start == Timestamp(0)
        assert window.end == Timestamp(10)
        assert window.max_timestamp().micros == 9_999_999
        assert repr(window) == "[0, 10)"
        assert window == IntervalWindow(Timestamp(0), 10.0)
        assert hash(window) == hash(IntervalWindow(0, 10))
        assert window != IntervalWindow(0, 11)
        assert window != (0, 10)
        with pytest.raises(TimeError):
            IntervalWindow(10, 9)

    def test_intervals_that_only_touch_do_not_intersect(self):
        window = IntervalWindow(10, 20)
        assert window.intersects(IntervalWindow(19, 30))
        assert window.intersects(IntervalWindow(0, 11))
        assert window.intersects(IntervalWindow(12, 13))
        assert not window.intersects(IntervalWindow(20, 30))
        assert not window.intersects(IntervalWindow(0, 10))
        assert window.union(IntervalWindow(0, 11)) == IntervalWindow(0, 20)

    def test_order(self):
        windows = [IntervalWindow(1, 2), IntervalWindow(0, 20), IntervalWindow(0, 10)]
        assert sorted(windows) == [IntervalWindow(0, 10), IntervalWindow(0, 20), IntervalWindow(1, 2)]
        assert IntervalWindow(0, 1) <= IntervalWindow(0, 1) >= IntervalWindow(0, 1)
        assert IntervalWindow(0, 2) > IntervalWindow(0, 1)

    def test_global(self):
        window = GlobalWindow()
        assert window is GlobalWindow()
        assert window.start == MIN_TIMESTAMP
        assert window.end.micros == 9223371950454775000
        assert window.max_timestamp().micros == 9223371950454774999
        assert window != IntervalWindow(window.start, window.end)
        assert window in {GlobalWindow()}
        assert pickle.loads(pickle.dumps(window)) is copy.deepcopy(window) is window

    def test_interval_pickles(self):
        window = IntervalWindow(-1.5, 10)
        assert pickle.loads(pickle.dumps(window)) == copy.deepcopy(window) == window

    def test_bounded(self):
        assert BoundedWindow(5).max_timestamp().micros == 4_999_999


class ColouredWindow(BoundedWindow):
    def __init__(self, end, colour):
        super().__init__(end)
        self.colour = colour


class ColourCoder:
    def encode(self, window):
        return f"{window.end.micros} {window.colour}".encode()

    def decode(self, data):
        end, colour = data.decode().split()
        return ColouredWindow(Timestamp(micros=int(end)), colour)


class Coloured(NonMergingWindowFn):
    def __init__(self, size, coder=None):
        self.size = Duration.of(size)
        self.coder = coder

    def assign(self, context):
        return [ColouredWindow(context.timestamp + self.size, context.element)]

    def get_window_coder(self):
        return self.coder


class TestBytes:
    def test_layout(self):
        assert window_to_bytes(GlobalWindow()) == b""
        expected = bytes.fromhex("7fffffffffffffff" + "8000000000000001")
        assert window_to_bytes(IntervalWindow(Timestamp(micros=-1), Timestamp(micros=1))) == expected
        assert window_from_bytes(b"") is GlobalWindow()
        assert window_from_bytes(expected) == IntervalWindow(Timestamp(micros=-1), Timestamp(micros=1))

    @pytest.mark.parametrize("data", [b"x", b"x" * 15, b"x" * 17, b"\xff" * 16, b"\x81" + b"\x80" * 15])
    def test_damaged(self, data):
        with pytest.raises(CorruptState):
            window_from_bytes(data)

    def test_other_windows_need_a_coder(self):
        window = ColouredWindow(5, "red")
        with pytest.raises(CoderError, match="get_window_coder"):
            Coloured(5).encode_window(window)
        window_fn = Coloured(5, ColourCoder())
        again = window_fn.decode_window(window_fn.encode_window(window))
        assert isinstance(again, ColouredWindow)
        assert (again.end, again.colour) == (5, "red")

    def test_a_subclass_of_interval_window_is_another_window(self):
        class Named(IntervalWindow):
            pass

        with pytest.raises(CoderError):
            window_to_bytes(Named(0, 1))
        assert Named(0, 1) != IntervalWindow(0, 1)

    @pytest.mark.parametrize("window_fn", [GlobalWindows(), FixedWindows(10), SlidingWindows(10, 5), Sessions(10)])
    def test_the_ready_functions_store_their_windows(self, window_fn):
        for window in assigned(window_fn, -7.25):
            assert window_fn.decode_window(window_fn.encode_window(window)) == window


class TestAssign:
    def test_global(self):
        assert assigned(GlobalWindows(), 5) == [GlobalWindow()]
        assert not GlobalWindows().is_merging()

    def test_fixed(self):
        assert assigned(FixedWindows(10), 0) == [IntervalWindow(0, 10)]
        assert assigned(FixedWindows(10), 9.999999) == [IntervalWindow(0, 10)]
        assert assigned(FixedWindows(10), 10) == [IntervalWindow(10, 20)]
        assert assigned(FixedWindows(10), -0.000001) == [IntervalWindow(-10, 0)]
        assert assigned(FixedWindows("10 seconds", 3), 2) == [IntervalWindow(-7, 3)]
        assert assigned(FixedWindows(timedelta(seconds=10), 13), 3) == [IntervalWindow(3, 13)]
        assert FixedWindows(10, -2).offset == 8
        assert not FixedWindows(10).is_merging()
        assert merged(FixedWindows(10), [IntervalWindow(0, 10), IntervalWindow(5, 15)]) == []

    def test_sliding_gives_the_newest_first(self):
        assert assigned(SlidingWindows(10, 5), 7) == [IntervalWindow(5, 15), IntervalWindow(0, 10)]
        assert assigned(SlidingWindows(10, 5), -1) == [IntervalWindow(-5, 5), IntervalWindow(-10, 0)]
        assert assigned(SlidingWindows(10, 5, 2), 7) == [IntervalWindow(7, 17), IntervalWindow(2, 12)]
        assert assigned(SlidingWindows(10, 4), 8) == [
            IntervalWindow(8, 18),
            IntervalWindow(4, 14),
            IntervalWindow(0, 10),
        ]

    def test_sliding_with_gaps(self):
        assert assigned(SlidingWindows(2, 5), 6) == [IntervalWindow(5, 7)]
        assert assigned(SlidingWindows(2, 5), 7) == []

    def test_blocks(self):
        micros = numpy.array([7_000_000, -1_000_000], dtype=numpy.int64)
        index, start = FixedWindows(10).assign_block(micros)
        assert index.tolist() == [0, 1]
        assert start.tolist() == [0, -10_000_000]
        index, start = SlidingWindows(10, 5).assign_block(micros)
        assert index.tolist() == [0, 0, 1, 1]
        assert start.tolist() == [5_000_000, 0, -5_000_000, -10_000_000]
        assert FixedWindows(10).size_micros == SlidingWindows(10, 5).size_micros == 10_000_000
        for window_fn in (FixedWindows(10), SlidingWindows(10, 5)):
            index, start = window_fn.assign_block(numpy.array([], dtype=numpy.int64))
            assert index.tolist() == start.tolist() == []

    @pytest.mark.parametrize("window_fn", [FixedWindows(10), SlidingWindows(10, 5)])
    @pytest.mark.parametrize("timestamp", [MIN_TIMESTAMP, MAX_TIMESTAMP])
    def test_a_window_beyond_all_time_is_refused(self, window_fn, timestamp):
        with pytest.raises(TimeError):
            assigned(window_fn, timestamp)
        with pytest.raises(TimeError):
            window_fn.assign_block(numpy.array([0, timestamp.micros], dtype=numpy.int64))

    @pytest.mark.parametrize("bad", [0, -1, "0 seconds"])
    def test_sizes_must_be_positive(self, bad):
        for make in (FixedWindows, Sessions, lambda size: SlidingWindows(size, 1)):
            with pytest.raises(ValueError, match=r"The size parameter must be strictly positive\."):
                make(bad)
        with pytest.raises(TimeError, match=r"The period parameter must be strictly positive\."):
            SlidingWindows(1, bad)


class TestSessions:
    def test_assign(self):
        assert assigned(Sessions(10), 2) == [IntervalWindow(2, 12)]
        assert Sessions(10).is_merging()

    def test_windows_that_overlap_merge(self):
        windows = [IntervalWindow(19, 29), IntervalWindow(2, 12), IntervalWindow(9, 19)]
        # 19 is exactly the gap after 9, so it stays apart.
        assert merged(Sessions(10), windows) == [(windows[1:], IntervalWindow(2, 19))]

    def test_a_window_inside_another(self):
        windows = [
            IntervalWindow(0, 30),
            IntervalWindow(1, 2),
            IntervalWindow(20, 31),
            IntervalWindow(40, 50),
        ]
        assert merged(Sessions(10), windows) == [(windows[:3], IntervalWindow(0, 31))]

    def test_nothing_to_merge(self):
        assert merged(Sessions(10), []) == []
        assert merged(Sessions(10), [IntervalWindow(0, 10)]) == []
        with pytest.raises(NotImplementedError):
            Sessions(10).merge(WindowFn.MergeContext([IntervalWindow(0, 10), IntervalWindow(1, 11)]))


class TestDescribe:
    def test_ready_functions(self):
        assert GlobalWindows().describe() == {"id": "holdfast.GlobalWindows", "version": 1}
        assert FixedWindows(1, 0.5).describe() == {
            "id": "holdfast.FixedWindows",
            "version": 1,
            "size_micros": 1_000_000,
            "offset_micros": 500_000,
        }
        assert SlidingWindows(2, 1).describe() == {
            "id": "holdfast.SlidingWindows",
            "version": 1,
            "size_micros": 2_000_000,
            "period_micros": 1_000_000,
            "offset_micros": 0,
        }
        assert Sessions("1 s").describe() == {
            "id": "holdfast.Sessions",
            "version": 1,
            "gap_micros": 1_000_000,
        }

    def test_equality_goes_by_it(self):
        assert FixedWindows(10) == FixedWindows("10 seconds", 20)
        assert hash(FixedWindows(10)) == hash(FixedWindows(10))
        assert FixedWindows(10) != FixedWindows(11)
        assert FixedWindows(10) != SlidingWindows(10, 10)
        assert FixedWindows(10) != 10
        assert pickle.loads(pickle.dumps(SlidingWindows(10, 5))) == SlidingWindows(10, 5)

    def test_a_users_function(self):
        described = Coloured(5, ColourCoder()).describe()
        assert described == {"id": f"{__name__}.Coloured", "version": 1, "size": 5_000_000}
        assert json.loads(json.dumps(described)) == described
        assert Coloured(5) != Coloured(6)

    def test_a_users_subclass_of_a_ready_function_is_its_own(self):
        class Shifted(FixedWindows):
            version = 2

        described = Shifted(5).describe()
        assert str(described["id"]).endswith("Shifted")
        assert described["version"] == 2
        assert Shifted(5) != FixedWindows(5)

    def test_repr(self):
        assert repr(FixedWindows(10)) == "FixedWindows(size=Duration(10), offset=Duration(0))"


def test_assign_context():
    context = WindowFn.AssignContext(5, element="x", window=GlobalWindow())
    assert (context.timestamp, context.element, context.window) == (Timestamp(5), "x", GlobalWindow())


def test_timestamp_combiners_differ():
    names = [name for name in vars(TimestampCombiner) if name.startswith("OUTPUT_AT_")]
    assert len({getattr(TimestampCombiner, name) for name in names}) == 4


def test_timestamped_values():
    value = TimestampedValue("x", 5)
    assert value.timestamp == Timestamp(5)
    assert value == TimestampedValue("x", Timestamp(5))
    assert hash(value) == hash(TimestampedValue("x", 5))
    assert value != TimestampedValue("x", 6)
    assert value != TimestampedValue("y", 5)
    assert repr(value) == "TimestampedValue('x', Timestamp(5))"
    assert pickle.loads(pickle.dumps(value)) == value


def test_windowed_values():
    value = WindowedValue("x", 5, [IntervalWindow(0, 10)])
    assert value.windows == (IntervalWindow(0, 10),)
    assert value.pane_info is PANE_INFO_UNKNOWN
    assert value == WindowedValue("x", 5, (IntervalWindow(0, 10),))
    assert value != WindowedValue("x", 5, (GlobalWindow(),))
    pane = PaneInfo(True, False, PaneInfoTiming.EARLY, 0, -1)
    assert value != WindowedValue("x", 5, value.windows, pane)
    assert value.with_value("y") == WindowedValue("y", 5, value.windows)
    assert repr(value) == "WindowedValue('x', Timestamp(5), ([0, 10),))"
    assert pickle.loads(pickle.dumps(WindowedValue("x", 5, value.windows, pane))).pane_info == pane
    assert PaneInfo(True, True, PaneInfoTiming.UNKNOWN, 0, 0) == PANE_INFO_UNKNOWN

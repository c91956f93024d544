"""The life of a function: what is called, how often, and what it may give."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import (
    CombineFn,
    CombiningStateSpec,
    DoFn,
    FixedWindows,
    IntervalWindow,
    OutputError,
    TaggedOutput,
    TimerSpec,
    WindowedValue,
    on_timer,
)
from holdfast.testing import TestStream

from .reading import GLOBAL, at, by_key, stamped


class Diary(DoFn):
    """Writes down in a file, which outlives any process, what is called."""

    TIMER = TimerSpec("timer")

    def __init__(self, path):
        self.path = str(path)

    def note(self, what):
        with Path(self.path).open("a", encoding="utf-8") as diary:
            diary.write(what + "\n")

    def setup(self):
        self.note("setup")

    def start_bundle(self):
        self.note("start")

    def process(self, element, timer=DoFn.TimerParam(TIMER)):
        timer.set(10)
        self.note(f"process {element[1]}")

    @on_timer(TIMER)
    def fires(self):
        self.note("timer")

    def on_window_expiration(self):
        self.note("expired")

    def finish_bundle(self):
        self.note("finish")

    def teardown(self):
        self.note("teardown")


@pytest.fixture
def diary(run, tmp_path):
    """What a run of the diary over a script noted."""

    def kept(stream, **options):
        path = tmp_path / "diary"
        path.touch()
        run(Diary(path), stream, **options)
        return path.read_text(encoding="utf-8").split("\n")[:-1]

    return kept


def test_the_order_of_calls(diary, run):
    stream = TestStream().add_elements(at(("k", 1, 0), ("k", 2, 0))).advance_watermark_to(10).add_elements([("k", 3)])
    assert diary(stream.advance_watermark_to(20), windowing=FixedWindows(20)) == [
        "setup",
        *("start", "process 1", "process 2", "finish"),
        *("start", "timer", "finish"),
        *("start", "process 3", "timer", "finish"),
        *("start", "expired", "finish"),
        # A worker of Spark's does not know when it is the last time.
        *(["teardown"] if run.runtime == "memory" else []),
    ]


def test_where_nothing_is_to_be_done_nothing_is_called(diary):
    stream = TestStream().add_elements([("k", 1)]).advance_watermark_to(5).advance_processing_time(100)
    assert diary(stream.advance_watermark_to(9))[:4] == ["setup", "start", "process 1", "finish"]
    assert "timer" not in diary(TestStream().add_elements([]))


def test_after_a_crash_a_fresh_instance_is_set_up(diary):
    noted = diary(TestStream().add_elements([("k", 1)]).crash().advance_watermark_to(10))
    assert [what for what in noted if what != "teardown"] == [
        *("setup", "start", "process 1", "finish"),
        *("setup", "start", "timer", "finish"),
    ]


class StartGives(DoFn):
    def start_bundle(self):
        return [1]

    def process(self, element):
        yield element


def test_start_bundle_gives_no_output(run):
    with pytest.raises(OutputError, match="start_bundle gave an output") as raised:
        run(StartGives(), TestStream().add_elements([("k", 1)]), name="starts")
    assert raised.value.context["step"] == "starts"


class Gathers(DoFn):
    """Gathers in memory during a bundle, and gives all of it at its end."""

    def start_bundle(self):
        self.gathered = {}

    def process(self, element, time=DoFn.TimestampParam, window=DoFn.WindowParam):
        key, value = element
        self.gathered.setdefault((key, window), []).append((value, time))

    def finish_bundle(self):
        for (key, window), values in self.gathered.items():
            latest = max(time for _, time in values)
            yield WindowedValue((key, [value for value, _ in values]), latest, [window])
            yield TaggedOutput("counts", WindowedValue((key, len(values)), latest, [window]))


def test_finish_bundle_gives_windowed_values(run):
    stream = TestStream().add_elements(at(("k", 1, 5), ("j", 2, 6), ("k", 3, 4))).add_elements(at(("k", 4, 7)))
    out = run(Gathers(), stream)
    assert stamped(out) == {"k": [([1, 3], 5.0, GLOBAL), ([4], 7.0, GLOBAL)], "j": [([2], 6.0, GLOBAL)]}
    assert by_key(out, "counts") == {"k": [2, 1], "j": [1]}


class FinishGives(DoFn):
    """Gives at the end of a bundle what the element names."""

    THINGS = {
        "plain": ["plain"],
        "pair": [("k", 1)],
        "tagged plain": [TaggedOutput("side", "plain")],
        "text": "text",
        "number": 5,
        "nothing": None,
        "empty": [],
        "windowed": [WindowedValue(("k", 1), 3, [IntervalWindow(0, 10)])],
    }

    def process(self, element):
        self.gives = element[1]

    def finish_bundle(self):
        return self.THINGS[self.gives]


@pytest.mark.parametrize("kind", ["plain", "pair", "tagged plain", "text", "number"])
def test_finish_bundle_gives_nothing_else(run, kind):
    with pytest.raises(OutputError, match="finish_bundle") as raised:
        run(FinishGives(), TestStream().add_elements([("k", kind)]))
    assert raised.value.context["step"] == "FinishGives"
    assert "key" not in raised.value.context


@pytest.mark.parametrize("kind", ["nothing", "empty"])
def test_finish_bundle_may_give_nothing(run, kind):
    assert len(run(FinishGives(), TestStream().add_elements([("k", kind)]))) == 0


def test_finish_bundle_may_return_a_list(run):
    out = run(FinishGives(), TestStream().add_elements([("k", "windowed")]))
    assert stamped(out) == {"k": [(1, 3.0, (0.0, 10.0))]}


class Prepared(CombineFn):
    """Cannot count before it was set up."""

    step = None

    def setup(self):
        self.step = 2

    def create_accumulator(self):
        return 0

    def add_input(self, mutable_accumulator, element):
        return mutable_accumulator + self.step

    def merge_accumulators(self, accumulators):
        return sum(accumulators)

    def extract_output(self, accumulator):
        return accumulator

    def teardown(self):
        self.step = None


class UsesPrepared(DoFn):
    COUNT = CombiningStateSpec("count", Prepared())

    def process(self, element, count=DoFn.StateParam(COUNT)):
        count.add(1)
        yield element[0], count.read()


def test_the_combine_fn_of_a_cell_is_set_up_too(run, feed):
    assert by_key(run(UsesPrepared(), feed(TestStream(), [("k", 1), ("k", 1)]))) == {"k": [2, 4]}

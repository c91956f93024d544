"""The doors: a module written for Beam runs once its import lines are changed, and the doors only lead on."""

from __future__ import annotations

import ast
import importlib
import sys
import types
from pathlib import Path

import pytest

import holdfast as beam
from holdfast.testing import TestStream, run

SOURCES = Path(beam.__file__).parent
NOT_DOORS = {
    "checkpoint",
    "cli",
    "demo",
    "engine",
    "learn",
    "model",
    "ops",
    "recipes",
    "spark",
    "starter",
    "testing",
    "ui",
    "watch",
}
"""The packages that hold code. All else is a door, apart from the package itself and its errors."""

FOR_BEAM = '''
"""Some functions over sensor readings, as one writes them for Beam."""

import apache_beam as beam
import apache_beam.transforms.window as win
from apache_beam import DoFn, coders, pvalue
from apache_beam.coders import BooleanCoder, FloatCoder, StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.coders.coders import BytesCoder
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsDict, TaggedOutput
from apache_beam.state import ValueStateSpec
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import trigger, userstate
from apache_beam.transforms.combiners import CountCombineFn, MeanCombineFn, TopCombineFn
from apache_beam.transforms.core import CombineFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagRuntimeState,
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    RuntimeTimer,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from apache_beam.utils.windowed_value import PaneInfo, WindowedValue


class Tutorial(beam.DoFn):
    """Counts, with the spelling of the tutorial."""

    COUNT = ValueStateSpec("count", VarIntCoder())

    def process(self, element, count=beam.DoFn.StateParam(COUNT)):
        key, _ = element
        now = (count.read() or 0) + 1
        count.write(now)
        yield key, now


class Spread(CombineFn):
    """The distance between the smallest and the largest value."""

    def create_accumulator(self):
        return ()

    def add_input(self, accumulator, value):
        return (min(accumulator + (value,)), max(accumulator + (value,)))

    def merge_accumulators(self, accumulators):
        values = [value for accumulator in accumulators for value in accumulator]
        return (min(values), max(values)) if values else ()

    def extract_output(self, accumulator):
        return accumulator[1] - accumulator[0] if accumulator else 0.0


class Summary(DoFn):
    """Sums up what a sensor said in a window, when it ends; alerts at once."""

    READINGS = BagStateSpec("readings", FloatCoder())
    PLACES = SetStateSpec("places", StrUtf8Coder())
    COUNT = CombiningValueStateSpec("count", VarIntCoder(), sum)
    SPREAD = CombiningValueStateSpec("spread", Spread())
    MEAN = CombiningValueStateSpec("mean", combine_fn=MeanCombineFn())
    TOP = CombiningValueStateSpec("top", TopCombineFn(2))
    LAST = ReadModifyWriteStateSpec("last", TupleCoder((FloatCoder(), coders.TimestampCoder())))
    SEEN = userstate.ReadModifyWriteStateSpec("seen", BooleanCoder())
    AT_END = TimerSpec("at_end", TimeDomain.WATERMARK)

    def __init__(self, limit):
        self.limit = limit
        self.alerts = Metrics.counter(self.__class__, "alerts")

    def process(
        self,
        element,
        names,
        timestamp=DoFn.TimestampParam,
        window=DoFn.WindowParam,
        readings: BagRuntimeState = DoFn.StateParam(READINGS),
        places=DoFn.StateParam(PLACES),
        count=DoFn.StateParam(COUNT),
        spread=DoFn.StateParam(SPREAD),
        mean=DoFn.StateParam(MEAN),
        top=DoFn.StateParam(TOP),
        last=DoFn.StateParam(LAST),
        seen=DoFn.StateParam(SEEN),
        at_end: RuntimeTimer = DoFn.TimerParam(AT_END),
    ):
        sensor, (place, reading) = element
        if not seen.read():
            seen.write(True)
            at_end.set(window.end)
        readings.add(reading)
        places.add(place)
        count.add(1)
        for cell in (spread, mean, top):
            cell.add(reading)
        last.write((reading, timestamp))
        if reading > self.limit:
            self.alerts.inc()
            yield TaggedOutput("alerts", (names[sensor], reading))

    @on_timer(AT_END)
    def on_end(
        self,
        sensor=DoFn.KeyParam,
        readings=DoFn.StateParam(READINGS),
        places=DoFn.StateParam(PLACES),
        count=DoFn.StateParam(COUNT),
        spread=DoFn.StateParam(SPREAD),
        mean=DoFn.StateParam(MEAN),
        top=DoFn.StateParam(TOP),
        last=DoFn.StateParam(LAST),
    ):
        kept = readings.read()
        readings.clear()
        reading, timestamp = last.read()
        yield sensor, list(kept), sorted(places.read()), count.read(), spread.read(), mean.read(), top.read()
        yield TimestampedValue((sensor, reading), timestamp + Duration(1))


class Reminders(beam.DoFn):
    """A family of timers: one for each tag."""

    DUE = TimerSpec("due", userstate.TimeDomain.REAL_TIME)
    SENT = OrderedListStateSpec("sent", BytesCoder())

    def process(self, element, due=beam.DoFn.TimerParam(DUE)):
        _, (what, seconds) = element
        if seconds is None:
            due.clear(dynamic_timer_tag=what)
        else:
            due.set(Timestamp.now() + seconds, dynamic_timer_tag=what)

    @on_timer(DUE)
    def on_due(
        self,
        key=beam.DoFn.KeyParam,
        tag=beam.DoFn.DynamicTimerTagParam,
        timestamp=beam.DoFn.TimestampParam,
        sent=beam.DoFn.StateParam(SENT),
    ):
        sent.add((timestamp, tag.encode()))
        yield key, tag, [value for _, value in sent.read_range(MIN_TIMESTAMP, MAX_TIMESTAMP)]


class PerBundle(beam.DoFn):
    """Gives how many elements a bundle had."""

    def setup(self):
        self.counter = CountCombineFn()

    def start_bundle(self):
        self.count = self.counter.create_accumulator()

    def process(self, element, pane: PaneInfo = beam.DoFn.PaneInfoParam):
        assert pane.index == 0
        self.count = self.counter.add_input(self.count, element)

    def finish_bundle(self):
        yield WindowedValue(self.counter.extract_output(self.count), 0, [win.GlobalWindow()])
'''


@pytest.fixture(scope="module")
def written_for_beam():
    """The module above, with its import lines changed and nothing else."""
    name = "written_for_beam"
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(FOR_BEAM.replace("apache_beam", "holdfast"), name, "exec"), module.__dict__)
    yield module
    del sys.modules[name]


class TestWrittenForBeam:
    def test_the_tutorial(self, written_for_beam):
        out = run(written_for_beam.Tutorial(), TestStream().add_elements([("a", 1), ("b", 1), ("a", 1)]))
        assert out.values == [("a", 1), ("b", 1), ("a", 2)]

    def test_cells_and_an_event_timer(self, written_for_beam):
        values = [("hall", 20.5), ("yard", 3.5), ("hall", 31.0)]
        readings = [beam.TimestampedValue(("s1", value), time) for time, value in enumerate(values)]
        out = run(
            written_for_beam.Summary(30),
            TestStream().add_elements(readings).crash().advance_watermark_to(60),
            windowing=written_for_beam.FixedWindows(60),
            side_inputs=[written_for_beam.AsDict({"s1": "boiler"})],
            outputs=["alerts"],
        )
        summary, last = out.values
        assert summary[:4] == ("s1", [20.5, 3.5, 31.0], ["hall", "yard"], 3)
        assert summary[4:] == (27.5, pytest.approx(55 / 3), [31.0, 20.5])
        assert last == ("s1", 31.0)
        assert [output.timestamp for output in out if output.tag == "main"] == [60, 3]
        assert out.tagged("alerts") == [("boiler", 31.0)]
        assert out.metrics["written_for_beam.Summary/alerts"] == 1

    def test_tagged_timers_and_an_ordered_list(self, written_for_beam):
        stream = TestStream().add_elements([("k", ("tea", 30)), ("k", ("rum", 10)), ("k", ("gin", 20))])
        stream.add_elements([("k", ("gin", None))]).crash().advance_processing_time(30)
        out = run(written_for_beam.Reminders(), stream)
        assert out.values == [("k", "rum", [b"rum"]), ("k", "tea", [b"rum", b"tea"])]

    def test_bundles(self, written_for_beam):
        out = run(written_for_beam.PerBundle(), TestStream().add_elements([("a", 1), ("b", 1)]).add_elements([("a", 1)]))
        assert out.values == [2, 1]

    def test_nothing_of_beam_is_left(self, written_for_beam):
        assert "apache_beam" not in sys.modules
        modules = {getattr(thing, "__module__", "holdfast") for thing in vars(written_for_beam).values()}
        assert not [name for name in modules if name and name.startswith("apache_beam")]


@pytest.mark.parametrize(
    ("path", "thing"),
    [
        ("DoFn", beam.DoFn),
        ("core.CombineFn", beam.CombineFn),
        ("core.CombinePerKey", beam.CombinePerKey),
        ("core.DoFn", beam.DoFn),
        ("trigger.AfterAll", beam.AfterAll),
        ("trigger.AfterCount", beam.AfterCount),
        ("trigger.AfterProcessingTime", beam.AfterProcessingTime),
        ("transforms.trigger.AfterWatermark", beam.AfterWatermark),
        ("flink.Duration", beam.Duration),
        ("flink.common.Duration", beam.Duration),
        ("flink.common.time.Duration", beam.Duration),
        ("flink.common.typeinfo.Types", beam.flink.Types),
        ("flink.datastream.state.StateTtlConfig", beam.flink.StateTtlConfig),
        ("flink.datastream.state.ValueStateDescriptor", beam.flink.ValueStateDescriptor),
        ("flink.datastream.StreamExecutionEnvironment", beam.flink.StreamExecutionEnvironment),
        ("CombineFn", beam.CombineFn),
        ("TaggedOutput", beam.TaggedOutput),
        ("coders.VarIntCoder", beam.VarIntCoder),
        ("combiners.MeanCombineFn", beam.Mean),
        ("combiners.CountCombineFn", beam.Count),
        ("combiners.TopCombineFn", beam.Top),
        ("combiners.ToListCombineFn", beam.ToList),
        ("metrics.Metrics", beam.Metrics),
        ("pvalue.AsDict", beam.AsDict),
        ("pvalue.AsIter", beam.AsIter),
        ("pvalue.AsList", beam.AsList),
        ("pvalue.AsSingleton", beam.AsSingleton),
        ("pvalue.TaggedOutput", beam.TaggedOutput),
        ("transforms.combiners.MeanCombineFn", beam.Mean),
        ("transforms.core.DoFn", beam.DoFn),
        ("transforms.timeutil.TimeDomain", beam.TimeDomain),
        ("transforms.userstate.BagStateSpec", beam.BagStateSpec),
        ("transforms.userstate.CombiningValueStateSpec", beam.CombiningStateSpec),
        ("transforms.userstate.OrderedListStateSpec", beam.OrderedListStateSpec),
        ("transforms.userstate.ReadModifyWriteStateSpec", beam.ValueStateSpec),
        ("transforms.userstate.SetStateSpec", beam.SetStateSpec),
        ("transforms.userstate.TimeDomain", beam.TimeDomain),
        ("transforms.userstate.TimerSpec", beam.TimerSpec),
        ("transforms.userstate.on_timer", beam.on_timer),
        ("transforms.window.FixedWindows", beam.FixedWindows),
        ("utils.timestamp.Timestamp", beam.Timestamp),
        ("utils.timestamp.Duration", beam.Duration),
        ("utils.windowed_value.WindowedValue", beam.WindowedValue),
        ("window.FixedWindows", beam.FixedWindows),
        ("window.SlidingWindows", beam.SlidingWindows),
        ("window.GlobalWindows", beam.GlobalWindows),
        ("window.TimestampedValue", beam.TimestampedValue),
    ],
)
def test_things_are_reached_by_attribute(path, thing):
    found = beam
    for name in path.split("."):
        found = getattr(found, name)
    assert found is thing


def test_the_package_opens_its_doors_itself():
    """Else `holdfast.metrics` would be there only after somebody had imported it."""
    tree = ast.parse((SOURCES / "__init__.py").read_text(encoding="utf-8"))
    opened = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in ("holdfast", "holdfast.transforms")
        for alias in node.names
    }
    assert opened >= {
        "coders",
        "combiners",
        "core",
        "flink",
        "metrics",
        "pvalue",
        "transforms",
        "trigger",
        "utils",
        "window",
    }


def doors():
    """The files that are doors."""
    for path in sorted(SOURCES.rglob("*.py")):
        package, *rest = path.relative_to(SOURCES).parts
        is_file = not rest
        if (is_file and package in ("__init__.py", "__main__.py", "errors.py")) or package in NOT_DOORS:
            continue
        yield path
    yield SOURCES / "testing" / "test_stream.py"


def module_name(path):
    parts = path.relative_to(SOURCES.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_plain(statement):
    """Whether a statement only leads on: a docstring, an import, a list of names, another name for something."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
    if not isinstance(statement, ast.Assign) or not all(isinstance(target, ast.Name) for target in statement.targets):
        return False
    if [ast.unparse(target) for target in statement.targets] == ["__all__"]:
        return isinstance(statement.value, ast.List) and all(isinstance(e, ast.Constant) for e in statement.value.elts)
    return isinstance(statement.value, (ast.Name, ast.Attribute))


class TestDoorsAreThin:
    def test_there_are_doors(self):
        assert {module_name(path) for path in doors()} >= {
            "holdfast.coders",
            "holdfast.coders.coders",
            "holdfast.core",
            "holdfast.flink",
            "holdfast.flink.common",
            "holdfast.flink.common.time",
            "holdfast.flink.common.typeinfo",
            "holdfast.flink.datastream",
            "holdfast.flink.datastream.state",
            "holdfast.metrics",
            "holdfast.pvalue",
            "holdfast.state",
            "holdfast.testing.test_stream",
            "holdfast.transforms",
            "holdfast.transforms.combiners",
            "holdfast.transforms.core",
            "holdfast.transforms.timeutil",
            "holdfast.transforms.userstate",
            "holdfast.transforms.window",
            "holdfast.trigger",
            "holdfast.utils",
            "holdfast.utils.timestamp",
            "holdfast.utils.windowed_value",
        }

    @pytest.mark.parametrize("path", list(doors()), ids=module_name)
    def test_a_door_holds_no_code(self, path):
        odd = [s for s in ast.parse(path.read_text(encoding="utf-8")).body if not is_plain(s)]
        assert [f"line {statement.lineno}: {ast.unparse(statement)}" for statement in odd] == []

    @pytest.mark.parametrize("path", list(doors()), ids=module_name)
    def test_a_door_says_what_it_leads_to(self, path):
        module = importlib.import_module(module_name(path))
        assert module.__doc__
        assert module.__all__ == list(dict.fromkeys(module.__all__))
        for name in module.__all__:
            assert hasattr(module, name), name

    def test_the_check_can_fail(self):
        refused = ["x = f()", "def f(): pass", "class C: pass", "if True: import os", "__all__ = f()", "x = 5", "f()"]
        assert not any(is_plain(ast.parse(text).body[0]) for text in refused)


class TestLiveNames:
    """Names of live cells and timers, for annotations."""

    @pytest.mark.parametrize(
        ("name", "spec"),
        [
            ("RuntimeState", beam.ValueStateSpec("cell")),
            ("ReadModifyWriteRuntimeState", beam.ValueStateSpec("cell")),
            ("BagRuntimeState", beam.BagStateSpec("cell")),
            ("SetRuntimeState", beam.SetStateSpec("cell")),
            ("CombiningValueRuntimeState", beam.CombiningStateSpec("cell", sum)),
            ("OrderedListRuntimeState", beam.OrderedListStateSpec("cell")),
            # In Beam these three kinds have it as their base.
            ("AccumulatingRuntimeState", beam.BagStateSpec("cell")),
            ("AccumulatingRuntimeState", beam.SetStateSpec("cell")),
            ("AccumulatingRuntimeState", beam.CombiningStateSpec("cell", sum)),
        ],
        ids=lambda part: part if isinstance(part, str) else part.kind,
    )
    def test_an_annotation_in_beams_words_fits(self, name, spec):
        class Fn(beam.DoFn):
            def process(self, element, cell=beam.DoFn.StateParam(spec)):
                yield element

        Fn.process.__annotations__["cell"] = getattr(beam.transforms.userstate, name)
        assert run(Fn(), TestStream().add_elements([("k", 1)])).values == [("k", 1)]

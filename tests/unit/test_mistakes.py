"""Mistakes that are easily made: each is told where it is made or when the step is built, and in words that help."""

from __future__ import annotations

import functools
import types

import pytest
from pyspark.sql import functions as F

import holdfast as hf
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step
from holdfast.testing import TestStream, run


def only_problem(fn, **options):
    with pytest.raises(hf.InvalidStep) as raised:
        build_step(fn, StepOptions(**options))
    (found,) = raised.value.problems
    return found


def refused(make):
    """What is said at once, where it is made."""
    with pytest.raises(hf.InvalidStep) as raised:
        make()
    (found,) = raised.value.problems
    return found


class TestSparksFunctions:
    """After `from pyspark.sql.functions import *`, sum is no longer sum."""

    @pytest.mark.parametrize(
        ("function", "instead"),
        [
            (F.sum, "hf.Sum() or builtins.sum (after 'import builtins')"),
            (F.min, "hf.Min() or builtins.min"),
            (F.max, "hf.Max() or builtins.max"),
            (F.count, "give hf.Count()."),
            (F.avg, "give hf.Mean()."),
            (F.upper, "give a function of Python's."),
            (functools.partial(F.sum), "hf.Sum() or builtins.sum"),
        ],
    )
    def test_as_what_combines(self, function, instead):
        class Index(hf.DoFn):
            INDEX = hf.CombiningStateSpec("index", function)

            def process(self, element, index=hf.DoFn.StateParam(INDEX)):
                yield index.read()

        told = only_problem(Index())
        assert "The cell 'index' needs a CombineFn or a function such as sum" in told
        assert "is Spark's function (pyspark.sql.functions." in told
        assert instead in told
        for make in (hf.CombinePerKey(function), hf.CombinePerKey({"n": function, "m": max})):
            with pytest.raises(hf.InvalidStep, match="is Spark's function"):
                run(make, TestStream())
        with pytest.raises(hf.InvalidStep, match="is Spark's function"):
            hf.CombineFn.from_callable(function)

    def test_with_a_coder(self):
        spec = hf.CombiningStateSpec("index", hf.VarIntCoder(), F.sum)
        assert any("is Spark's function" in problem for problem in spec.problems())

    def test_in_other_places(self):
        assert "Spark's function" in refused(lambda: hf.Upgrade(F.upper))
        assert "Spark's function" in refused(lambda: hf.Top(3, key=F.abs))
        assert "Spark's function" in only_problem(hf.FlatMapGroupsWithState(F.when))

    @pytest.mark.parametrize("name", ["sum", "max", "round", "col"])
    def test_by_its_bare_name_in_a_method(self, name):
        source = f"class Total(hf.DoFn):\n    def process(self, element):\n        yield [{name}(x) for x in element]\n"
        module = types.ModuleType("script")
        vars(module).update({"hf": hf, name: getattr(F, name)})
        exec(source, vars(module))
        told = only_problem(module.Total())
        assert told.startswith(f"process uses {name}, which is Spark's function here (pyspark.sql.functions.{name})")
        assert (f"builtins.{name}" in told) == (name != "col")

    def test_pythons_own_are_as_good_as_ever(self):
        class Total(hf.DoFn):
            TOTAL = hf.CombiningStateSpec("total", sum)

            def process(self, element, total=hf.DoFn.StateParam(TOTAL)):
                total.add(max(element))
                yield sum([total.read()])

        build_step(Total())


class TestChoices:
    """An option with few values is checked where it is given, and the error lists them."""

    @pytest.mark.parametrize(
        ("make", "says"),
        [
            (
                lambda: hf.Ttl(1, refresh="OnCreateAndWrite"),
                "it can be 'write' or 'read'. OnCreateAndWrite is refresh='write'",
            ),
            (lambda: hf.Ttl(1, refresh=["write"]), "refresh is ['write']; it can be 'write' or 'read'."),
            (lambda: hf.Ttl(1, expired="sometimes"), "expired is 'sometimes'; it can be 'never' or 'until_cleaned'."),
            (lambda: hf.Ttl(1, time="EventTime"), "it can be 'processing' or 'event'. EventTime is time='event'"),
            (lambda: hf.Ttl("soon"), "its time to live is not a duration"),
            (lambda: hf.Ttl(0), "it must be longer than zero"),
            (lambda: hf.Limits(max_keys=1, policy="lru"), "it can be 'fail', 'evict_lru', 'evict_oldest', 'over_limit'."),
            (lambda: hf.TimerSpec("t", "watermark"), "use TimeDomain.WATERMARK or TimeDomain.REAL_TIME."),
            (lambda: hf.Upgrade(5), "its upgrade is 5; give a function from an old value to a new one."),
            (lambda: hf.Upgrade(str, hf.VarIntCoder), "write VarIntCoder() to make an instance."),
            (lambda: hf.AsList([], refresh="soon"), "refresh is not a duration"),
            (lambda: hf.AsList([], refresh=-1), "refresh is -1; it cannot be negative."),
            (lambda: hf.Top(3, key="amount"), "key is 'amount': give a function"),
        ],
    )
    def test_where_it_is_given(self, make, says):
        assert says in refused(make)

    def test_all_that_is_wrong_is_told_together(self):
        with pytest.raises(hf.InvalidStep, match=r"Ttl\(\.\.\.\) cannot be made: 3 problems\."):
            hf.Ttl(-1, refresh="x", time="y")

    @pytest.mark.parametrize(
        ("given", "says"),
        [({"ttl": "soon"}, "is not a duration"), ({"upgrade": 5}, "its upgrade is 5"), ({"ttl": -1}, "longer than zero")],
    )
    def test_a_spec_tells_it_with_all_else_and_names_the_cell(self, given, says):
        class Wrong(hf.DoFn):
            CELL = hf.ValueStateSpec("cell", **given)

            def process(self, element, cell=hf.DoFn.StateParam(CELL)):
                pass

        told = only_problem(Wrong())
        assert told.startswith("The cell 'cell': ")
        assert says in told


class TestParametersThatSayNothing:
    """A timer or cell that a method does not ask for is not called a missing side input."""

    def test_the_spec_itself(self):
        class Late(hf.DoFn):
            QUIET = hf.TimerSpec("quiet")
            SEEN = hf.ValueStateSpec("seen")

            def process(self, element, t=QUIET, s=SEEN):
                t.set(5)

            @hf.on_timer(QUIET)
            def on_quiet(self, t=QUIET):
                pass

        with pytest.raises(hf.InvalidStep) as raised:
            build_step(Late())
        timer = "has TimerSpec(quiet) itself as the default of 't'; to get the timer, write t=DoFn.TimerParam(QUIET)."
        assert f"process {timer}" in raised.value.problems
        assert f"on_quiet {timer}" in raised.value.problems
        cell = "has ValueStateSpec(seen) itself as the default of 's'; to get the state cell, write s=DoFn.StateParam(SEEN)."
        assert f"process {cell}" in raised.value.problems

    @pytest.mark.parametrize(
        ("default", "says"),
        [
            (
                hf.DoFn.TimerParam,
                "the class DoFn.TimerParam as the default of 't'; to get the timer, write t=DoFn.TimerParam(",
            ),
            (hf.DoFn.StateParam, "the class DoFn.StateParam as the default of 't'; to get the state cell"),
            (hf.TimerSpec, "the class TimerSpec as the default of 't'; to get the timer"),
            (hf.Timer, "the class Timer as the default of 't'; to get the timer"),
            (hf.BagStateSpec, "the class BagStateSpec as the default of 't'; to get the state cell"),
        ],
    )
    def test_a_class(self, default, says):
        class Late(hf.DoFn):
            def process(self, element, t=default):
                pass

        assert says in only_problem(Late())

    def test_a_name_that_is_a_timers(self):
        class Late(hf.DoFn):
            QUIET = hf.TimerSpec("silence")

            def process(self, element, quiet):
                pass

            @hf.on_timer(QUIET)
            def on_quiet(self, silence):
                pass

        with pytest.raises(hf.InvalidStep) as raised:
            build_step(Late())
        assert raised.value.problems == [
            "process has a parameter 'quiet', which seems to be a timer, but does not ask for one: write "
            "quiet=DoFn.TimerParam(QUIET).",
            "on_quiet has a parameter 'silence', which seems to be a timer, but does not ask for one: write "
            "silence=DoFn.TimerParam(QUIET).",
        ]

    def test_what_is_called_on_it_gives_it_away(self):
        class Late(hf.DoFn):
            def process(self, element, t):
                t.set(5)

        assert "'t', which seems to be a timer" in only_problem(Late())

    def test_an_annotation_gives_it_away(self):
        class Late(hf.DoFn):
            def process(self, element, t: hf.Timer, s: hf.BagState):
                pass

        with pytest.raises(hf.InvalidStep) as raised:
            build_step(Late())
        assert "'t', which seems to be a timer" in raised.value.problems[0]
        assert "'s', which seems to be a state cell" in raised.value.problems[1]

    def test_a_side_input_is_still_one(self):
        class Rated(hf.DoFn):
            SEEN = hf.ValueStateSpec("seen")

            def process(self, element, rates):
                yield rates.get(element)

        assert "no side input of that name is given: side_inputs={'rates': AsDict(...)}" in only_problem(Rated())
        build_step(Rated(), StepOptions(side_inputs={"rates": hf.AsDict({})}))


class TestStreamsAsSideInputs:
    @pytest.mark.parametrize("kind", [hf.AsList, hf.AsIter, hf.AsSingleton])
    def test_are_refused_and_the_join_is_named(self, kind):
        stream = types.SimpleNamespace(isStreaming=True)
        told = refused(lambda: kind(stream))
        assert told.startswith(f"{kind.__name__} is given a streaming DataFrame.")
        assert ".join(hf.keyed(...), within=" in told


class TestPicklesThatNoWorkerCanRead:
    """What the annotations say of values is enough to know it when the step is built."""

    @pytest.fixture
    def model(self):
        return type("Model", (), {"__module__": "__main__"})

    def make(self, coder, annotation):
        class Fit(hf.DoFn):
            MODEL = hf.ValueStateSpec("model", coder)

            def process(self, element, model=hf.DoFn.StateParam(MODEL)):
                yield element

        Fit.process.__annotations__["model"] = annotation
        return Fit()

    def test_of_a_cell(self, model):
        told = only_problem(self.make(hf.PickleCoder(), hf.ValueState[model]))  # type: ignore[valid-type]
        assert told.startswith(
            "process declares the values of ValueStateSpec(model) to be Model and stored with PickleCoder"
        )
        assert "CloudpickleCoder()" in told
        listed = self.make(hf.ListCoder(hf.PickleCoder()), hf.ValueState[list[model]])  # type: ignore[valid-type]
        assert only_problem(listed).startswith("process declares the values")

    def test_of_accumulators(self, model):
        class Fitted(hf.CombineFn):
            def create_accumulator(self):
                return model()

        Fitted.create_accumulator.__annotations__["return"] = model
        spec = hf.CombiningStateSpec("model", hf.PickleCoder(), Fitted())
        assert next(spec.problems()).startswith("The accumulators of the cell 'model' are declared to be Model")

    def test_other_coders_and_classes_are_fine(self, model):
        build_step(self.make(hf.CloudpickleCoder(), hf.ValueState[model]))  # type: ignore[valid-type]
        build_step(self.make(hf.PickleCoder(), hf.ValueState[dict]))

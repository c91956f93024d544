"""What is wrong with a step is found when it is built: all of it, in sentences that say what to do.

Annotations are part of what is tested here, so this file does without `from __future__ import annotations`.
"""

import functools

import pytest

from holdfast import (
    AsDict,
    AsList,
    AsSingleton,
    BagState,
    BagStateSpec,
    CombiningStateSpec,
    Count,
    DoFn,
    FixedWindows,
    HoldfastError,
    InvalidStep,
    MapStateSpec,
    OrderedListStateSpec,
    Sessions,
    SetStateSpec,
    State,
    TimeDomain,
    Timer,
    TimerSpec,
    Timestamp,
    ValueState,
    ValueStateSpec,
    VarIntCoder,
    on_timer,
)
from holdfast.model.functions.options import StepOptions
from holdfast.model.functions.step import build_step, get_dofn_specs, is_stateful_dofn, validate_stateful_dofn
from holdfast.testing import TestStream, run

VALUE = ValueStateSpec("value", VarIntCoder())
BAG = BagStateSpec("bag")
TIMER = TimerSpec("timer")


def problems(fn, **options):
    """All that is said to be wrong."""
    with pytest.raises(InvalidStep) as raised:
        build_step(fn, StepOptions(**options))
    return raised.value.problems


def only_problem(fn, **options):
    """What is said, where one thing is wrong."""
    found = problems(fn, **options)
    assert len(found) == 1, found
    return found[0]


class TestDuplicateNames:
    def test_of_cells_in_one_method(self):
        class Fn(DoFn):
            ONE = ValueStateSpec("same")
            TWO = BagStateSpec("same")

            def process(self, element, one=DoFn.StateParam(ONE), two=DoFn.StateParam(TWO)):
                pass

        assert "Two state cells have the name 'same'; each needs a name of its own." in problems(Fn())

    def test_of_cells_in_two_methods(self):
        class Fn(DoFn):
            ONE = ValueStateSpec("same")
            TWO = ValueStateSpec("same")
            T = TimerSpec("t")

            def process(self, element, one=DoFn.StateParam(ONE), t=DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def fires(self, two=DoFn.StateParam(TWO)):
                pass

        assert only_problem(Fn()) == "Two state cells have the name 'same'; each needs a name of its own."

    def test_of_timers(self):
        class Fn(DoFn):
            ONE = TimerSpec("same")
            TWO = TimerSpec("same", TimeDomain.REAL_TIME)

            def process(self, element, one=DoFn.TimerParam(ONE)):
                pass

            @on_timer(ONE)
            def on_one(self, two=DoFn.TimerParam(TWO)):
                pass

            @on_timer(TWO)
            def on_two(self):
                pass

        assert only_problem(Fn()) == "Two timers have the name 'same'; each needs a name of its own."

    def test_a_cell_and_a_timer_may_share_a_name(self):
        class Fn(DoFn):
            CELL = ValueStateSpec("same")
            T = TimerSpec("same")

            def process(self, element, cell=DoFn.StateParam(CELL), t=DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def fires(self):
                pass

        assert build_step(Fn()).cells == (Fn.CELL,)


class TestWrongKind:
    def test_a_timer_as_a_cell(self):
        class Fn(DoFn):
            def process(self, element, cell=DoFn.StateParam(TIMER)):
                pass

        assert only_problem(Fn()) == (
            "process has StateParam(TimerSpec(timer)) as 'cell': that is a timer's spec; use DoFn.TimerParam."
        )

    def test_a_cell_as_a_timer(self):
        class Fn(DoFn):
            def process(self, element, timer=DoFn.TimerParam(BAG)):
                pass

        assert only_problem(Fn()) == (
            "process has TimerParam(BagStateSpec(bag)) as 'timer': that is a state cell's spec; use DoFn.StateParam."
        )

    @pytest.mark.parametrize("spec", ["count", None, 5, VarIntCoder()], ids=repr)
    @pytest.mark.parametrize("param", [DoFn.StateParam, DoFn.TimerParam])
    def test_what_is_no_spec_at_all(self, param, spec):
        class Fn(DoFn):
            def process(self, element, thing=param(spec)):
                pass

        assert f"{param.__name__}({spec!r}) as 'thing': that is not a" in only_problem(Fn())

    def test_a_class_in_place_of_a_spec(self):
        class Fn(DoFn):
            def process(self, element, cell=DoFn.StateParam(ValueStateSpec)):
                pass

        assert "that is a class; make an instance, ValueStateSpec('name', ...)." in only_problem(Fn())

    def test_an_annotation_of_another_kind(self):
        class Fn(DoFn):
            def process(self, element, cell: BagState = DoFn.StateParam(VALUE)):
                pass

        assert only_problem(Fn()) == ("process declares 'cell' as a BagState, but ValueStateSpec(value) is a value cell.")

    def test_an_annotation_with_a_type_in_brackets(self):
        class Fn(DoFn):
            def process(self, element, cell: BagState[int] = DoFn.StateParam(VALUE)):
                pass

        assert "declares 'cell' as a BagState" in only_problem(Fn())

    def test_an_annotation_as_text(self):
        class Fn(DoFn):
            def process(self, element, cell: "BagState" = DoFn.StateParam(VALUE)):
                pass

        assert "declares 'cell' as a BagState" in only_problem(Fn())

    def test_a_cell_annotated_as_a_timer(self):
        class Fn(DoFn):
            def process(self, element, cell: Timer = DoFn.StateParam(VALUE)):
                pass

        assert "declares 'cell' as a Timer" in only_problem(Fn())

    def test_a_timer_annotated_as_a_cell(self):
        class Fn(DoFn):
            T = TimerSpec("t")

            def process(self, element, t: BagState = DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def fires(self):
                pass

        assert "declares 't' as a BagState" in only_problem(Fn())

    @pytest.mark.parametrize(
        "annotation", [ValueState, ValueState[int], State, object, int, "ValueState", "Unknown", None], ids=repr
    )
    def test_annotations_that_fit_or_say_nothing(self, annotation):
        class Fn(DoFn):
            def process(self, element, cell=DoFn.StateParam(VALUE)):
                pass

        Fn.process.__annotations__["cell"] = annotation
        assert build_step(Fn()).cells == (VALUE,)

    @pytest.mark.parametrize(
        ("spec", "method", "has"),
        [
            (ValueStateSpec("cell"), "add", "clear, read, write"),
            (BagStateSpec("cell"), "write", "add, clear, read"),
            (SetStateSpec("cell"), "put", "add, clear, contains, read, remove"),
            (MapStateSpec("cell"), "write", "clear, contains, get, items, keys, put, read, remove, values"),
            (OrderedListStateSpec("cell"), "write", "add, clear, clear_range, read, read_range"),
            (CombiningStateSpec("cell", sum), "write", "add, clear, read"),
        ],
        ids=lambda part: getattr(part, "kind", None),
    )
    def test_a_method_that_the_cell_does_not_have(self, spec, method, has):
        namespace = {"DoFn": DoFn, "SPEC": spec}
        exec(f"def process(self, element, cell=DoFn.StateParam(SPEC)):\n    cell.{method}(1)\n", namespace)
        fn = type("Fn", (DoFn,), {"process": namespace["process"]})
        assert only_problem(fn()) == (f"process calls cell.{method}, but {spec!r} is a {spec.kind} cell, which has {has}.")

    def test_it_is_found_in_every_method(self):
        class Fn(DoFn):
            T = TimerSpec("t")

            def process(self, element, value=DoFn.StateParam(VALUE), t=DoFn.TimerParam(T)):
                if element:
                    yield value.add(1)

            @on_timer(T)
            def fires(self, value=DoFn.StateParam(VALUE)):
                value.append(1)

            def on_window_expiration(self, value=DoFn.StateParam(VALUE)):
                return value.pop()

        assert [sentence.partition(",")[0] for sentence in problems(Fn())] == [
            "process calls value.add",
            "fires calls value.append",
            "on_window_expiration calls value.pop",
        ]

    def test_a_method_is_told_once(self):
        class Fn(DoFn):
            def process(self, element, value=DoFn.StateParam(VALUE)):
                value.add(1)
                value.add(2)
                value.extend([3])

        assert [sentence.partition(",")[0] for sentence in problems(Fn())] == [
            "process calls value.add",
            "process calls value.extend",
        ]

    def test_a_name_that_is_taken_for_something_else_later_is_no_cell_any_more(self):
        class Fn(DoFn):
            def process(self, element, bag=DoFn.StateParam(BAG)):
                bag = list(bag.read())
                bag.sort()
                bag.append(element)
                return bag

        assert build_step(Fn()).cells == (BAG,)

    def test_other_things_of_the_same_method_are_left_alone(self):
        class Fn(DoFn):
            def process(self, element, time=DoFn.TimestampParam, value=DoFn.StateParam(VALUE)):
                self.value = [time.micros, element.append]
                self.value.append(value.read().bit_length())
                value.prefetch()

        assert build_step(Fn()).cells == (VALUE,)


class TestParameters:
    @pytest.mark.parametrize("name", ["KeyParam", "TimestampParam", "WindowParam", "PaneInfoParam"])
    def test_twice(self, name):
        class Fn(DoFn):
            def process(self, element, a=getattr(DoFn, name), b=getattr(DoFn, name)):
                pass

        assert only_problem(Fn()) == f"process asks for {name} twice, as 'a' and as 'b'; keep one."

    def test_a_cell_twice(self):
        class Fn(DoFn):
            def process(self, element, a=DoFn.StateParam(VALUE), b=DoFn.StateParam(VALUE)):
                pass

        assert only_problem(Fn()) == "process asks for StateParam(value) twice, as 'a' and as 'b'; keep one."

    def test_the_element_twice(self):
        class Fn(DoFn):
            def process(self, element, again=DoFn.ElementParam):
                pass

        assert only_problem(Fn()) == "process asks for ElementParam twice, as 'element' and as 'again'; keep one."

    def test_by_keyword_only(self):
        class Fn(DoFn):
            def process(self, element, *, cell=DoFn.StateParam(VALUE), key=DoFn.KeyParam):
                pass

        first, second = problems(Fn())
        assert first == (
            "process takes 'cell' by keyword only, where DoFn.StateParam(ValueStateSpec(value)) would silently be "
            "ignored; put it before the '*'."
        )
        assert "'key' by keyword only" in second

    def test_by_keyword_only_in_a_callback(self):
        class Fn(DoFn):
            T = TimerSpec("t")

            def process(self, element, t=DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def fires(self, *, cell=DoFn.StateParam(VALUE)):
                pass

        assert only_problem(Fn()).startswith("fires takes 'cell' by keyword only")

    def test_by_keyword_only_without_a_default(self):
        class Fn(DoFn):
            def process(self, element, *, factor):
                pass

        assert "so it cannot be called" in only_problem(Fn())

    def test_where_a_method_cannot_be_given_them(self):
        class Fn(DoFn):
            T = TimerSpec("t")

            def setup(self, cell=DoFn.StateParam(VALUE)):
                pass

            def start_bundle(self, time=DoFn.TimestampParam):
                pass

            def process(self, element, t=DoFn.TimerParam(T), tag=DoFn.DynamicTimerTagParam):
                pass

            @on_timer(T)
            def fires(self, element=DoFn.ElementParam, pane=DoFn.PaneInfoParam):
                pass

            def on_window_expiration(self, t=DoFn.TimerParam(T)):
                pass

            def finish_bundle(self, key=DoFn.KeyParam):
                pass

            def teardown(self, window=DoFn.WindowParam):
                pass

        assert sorted(problems(Fn())) == sorted(
            f"{method} asks for DoFn.{param} as {name!r}, which is not available there."
            for method, param, name in [
                ("setup", "StateParam", "cell"),
                ("start_bundle", "TimestampParam", "time"),
                ("process", "DynamicTimerTagParam", "tag"),
                ("fires", "ElementParam", "element"),
                ("fires", "PaneInfoParam", "pane"),
                ("on_window_expiration", "TimerParam", "t"),
                ("finish_bundle", "KeyParam", "key"),
                ("teardown", "WindowParam", "window"),
            ]
        )

    def test_that_nobody_gives(self):
        class Fn(DoFn):
            def setup(self, connection):
                pass

            def process(self, element):
                pass

        assert only_problem(Fn()) == "setup has a parameter 'connection', but nothing can be passed to it there."


class TestCallbacks:
    def test_none(self):
        class Fn(DoFn):
            EXPIRY = TimerSpec("expiry")

            def process(self, element, expiry=DoFn.TimerParam(EXPIRY)):
                pass

        assert only_problem(Fn()) == ("TimerSpec(expiry) has no callback: decorate a method with @on_timer(EXPIRY).")

    def test_none_for_a_timer_of_a_callback(self):
        class Fn(DoFn):
            ONE = TimerSpec("one")
            TWO = TimerSpec("two")

            def process(self, element, one=DoFn.TimerParam(ONE)):
                pass

            @on_timer(ONE)
            def on_one(self, two=DoFn.TimerParam(TWO)):
                pass

        assert only_problem(Fn()).startswith("TimerSpec(two) has no callback")

    def test_two(self):
        class Fn(DoFn):
            T = TimerSpec("t")

            def process(self, element, t=DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def one(self):
                pass

            @on_timer(T)
            def two(self):
                pass

        assert only_problem(Fn()) == "TimerSpec(t) has two callbacks, one and two; keep one."

    def test_two_by_inheritance(self):
        class Base(DoFn):
            T = TimerSpec("t")

            def process(self, element, t=DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def one(self):
                pass

        class Fn(Base):
            @on_timer(Base.T)
            def two(self):
                pass

        assert build_step(Base()).timers == (Base.T,)
        assert only_problem(Fn()) == "TimerSpec(t) has two callbacks, one and two; keep one."

    def test_overwritten_in_a_subclass(self):
        class Base(DoFn):
            T = TimerSpec("t")

            def process(self, element, t=DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def fires(self):
                pass

        class Fn(Base):
            def fires(self):
                pass

        assert only_problem(Fn()) == (
            "The callback of TimerSpec(t) was fires, but that name now stands for another function, without "
            "@on_timer. Decorate the new one too, or give it another name."
        )
        assert build_step(Base()).timers == (Base.T,)

    def test_overwritten_in_the_same_class(self):
        class Fn(DoFn):
            T = TimerSpec("t")

            def process(self, element, t=DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def fires(self):
                pass

            def fires(self):  # type: ignore[no-redef]  # noqa: F811
                pass

        assert "The callback of TimerSpec(t) was fires, but that name now stands for another" in only_problem(Fn())

    def test_overwritten_by_an_attribute(self):
        class Fn(DoFn):
            T = TimerSpec("t")

            def process(self, element, t=DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def fires(self):
                pass

            fires = None  # noqa: F811

        assert "The callback of TimerSpec(t) was fires" in only_problem(Fn())

    def test_a_callback_of_another_class_is_not_this_ones(self):
        class Other(DoFn):
            @on_timer(TIMER)
            def fires(self):
                pass

        class Fn(DoFn):
            def process(self, element, timer=DoFn.TimerParam(TIMER)):
                pass

        assert only_problem(Fn()) == "TimerSpec(timer) has no callback: decorate a method with @on_timer(TIMER)."

    @pytest.mark.parametrize("spec", [VALUE, "timer", None, TimerSpec], ids=repr)
    def test_of_something_that_is_no_timer(self, spec):
        class Fn(DoFn):
            def process(self, element):
                pass

            @on_timer(spec)
            def fires(self):
                pass

        assert only_problem(Fn()) == f"fires is decorated with @on_timer({spec!r}), which is not a TimerSpec."

    def test_with_a_parameter_that_nobody_gives(self):
        class Fn(DoFn):
            T = TimerSpec("t")

            def process(self, element, t=DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def fires(self, element):
                pass

        assert "fires has a parameter 'element'" in only_problem(Fn())


class TestSpecs:
    """A spec is checked where it is used, so that all its problems are told together with the others."""

    @pytest.mark.parametrize(
        ("make", "sentence"),
        [
            (lambda: ValueStateSpec(5), "A value cell needs a name that is a non-empty string, not 5."),
            (lambda: BagStateSpec(""), "A bag cell needs a name that is a non-empty string, not ''."),
            (lambda: SetStateSpec(None), "A set cell needs a name that is a non-empty string, not None."),
            (
                lambda: ValueStateSpec("~seen"),
                "The cell name '~seen' begins with '~', which is reserved for Holdfast's own cells.",
            ),
            (
                lambda: ValueStateSpec("cell", VarIntCoder),
                "The cell 'cell' has the class VarIntCoder as its coder; write VarIntCoder() to make an instance.",
            ),
            (lambda: BagStateSpec("cell", int), "The cell 'cell' has <class 'int'> as its coder, which is not a"),
            (lambda: OrderedListStateSpec("cell", "int"), "The cell 'cell' has 'int' as its coder, which is not a"),
            (
                lambda: MapStateSpec("cell", VarIntCoder),
                "The keys of the cell 'cell' has the class VarIntCoder as its coder; write VarIntCoder()",
            ),
            (lambda: MapStateSpec("cell", VarIntCoder(), 5), "The cell 'cell' has 5 as its coder, which is not a"),
            (lambda: CombiningStateSpec("cell"), "The cell 'cell' needs a CombineFn or a function such as sum"),
            (lambda: CombiningStateSpec("cell", 5), "The cell 'cell' needs a CombineFn or a function such as sum"),
            (lambda: CombiningStateSpec("cell", Count), "use Count() not Count"),
            (
                lambda: CombiningStateSpec("cell", VarIntCoder()),
                "The cell 'cell' needs a CombineFn or a function such as sum",
            ),
        ],
    )
    def test_of_cells(self, make, sentence):
        spec = make()

        class Fn(DoFn):
            def process(self, element, cell=DoFn.StateParam(spec)):
                pass

        assert sentence in only_problem(Fn())

    @pytest.mark.parametrize(
        ("make", "sentence"),
        [
            (lambda: TimerSpec(""), "A timer needs a name that is a non-empty string, not ''."),
            (lambda: TimerSpec(b"t"), "A timer needs a name that is a non-empty string, not b't'."),
            (
                lambda: TimerSpec("t", "watermark"),
                "The timer 't' has the time domain 'watermark'; use TimeDomain.WATERMARK or TimeDomain.REAL_TIME.",
            ),
        ],
    )
    def test_of_timers(self, make, sentence):
        """At once, where it is written."""
        with pytest.raises(InvalidStep, match=r"TimerSpec\(\.\.\.\) cannot be made: 1 problem") as raised:
            make()
        assert raised.value.problems == [sentence]


class Fine(DoFn):
    """Nothing is wrong with this one."""

    def process(self, element, value=DoFn.StateParam(VALUE)):
        yield element


class TestFunction:
    def test_a_class_in_place_of_an_instance(self):
        assert only_problem(Fine) == "Fine is the class; give an instance, Fine()."

    @pytest.mark.parametrize("fn", [5, "fn", None, int], ids=repr)
    def test_what_is_no_dofn(self, fn):
        assert only_problem(fn) == f"{fn!r} is not a DoFn: derive a class from holdfast.DoFn and give an instance of it."

    def test_without_process(self):
        class Fn(DoFn):
            pass

        assert only_problem(Fn()) == "Fn has no process method."


class TestInput:
    @pytest.mark.parametrize("element", [5, "ab", ("a",), ("a", 1, 2), None, {"a": 1, "b": 2}, {1, 2}], ids=repr)
    def test_an_input_without_keys(self, element):
        with pytest.raises(InvalidStep) as raised:
            run(Fine(), TestStream().add_elements([("fine", 1)]).add_elements([element]))
        (sentence,) = raised.value.problems
        assert sentence.startswith(f"The input is not keyed: {element!r} is not a (key, value) pair.")
        assert "must be such a pair" in sentence

    def test_one_sentence_for_all_of_it(self):
        with pytest.raises(InvalidStep) as raised:
            run(Fine(), TestStream().add_elements(range(100)))
        assert len(raised.value.problems) == 1

    @pytest.mark.parametrize("stream", [[("k", 1)], None, TestStream], ids=repr)
    def test_what_is_no_stream(self, stream):
        with pytest.raises(InvalidStep, match="must be a TestStream"):
            run(Fine(), stream)


class TestRedefined:
    def test_two_decorated_callbacks_of_one_name(self):
        class Twice(DoFn):
            T = TimerSpec("t")

            def process(self, element, t=DoFn.TimerParam(T)):
                t.set(1)

            @on_timer(T)
            def fire(self):
                yield "first"

            @on_timer(T)  # type: ignore[no-redef]
            def fire(self):  # noqa: F811
                yield "second"

        with pytest.raises(InvalidStep, match="two callbacks of one name, fire"):
            validate_stateful_dofn(Twice())


class TestWindows:
    def test_merging_windows_under_cells(self):
        sentence = only_problem(Fine(), windowing=Sessions(10))
        assert sentence.startswith("Sessions merges windows")
        assert "Use FixedWindows, SlidingWindows or GlobalWindows" in sentence

    def test_merging_windows_under_timers(self):
        class Fn(DoFn):
            T = TimerSpec("t")

            def process(self, element, t=DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def fires(self):
                pass

        assert only_problem(Fn(), windowing=Sessions(10)).startswith("Sessions merges windows")

    def test_merging_windows_under_expiration(self):
        class Fn(DoFn):
            def process(self, element):
                pass

            def on_window_expiration(self):
                pass

        assert only_problem(Fn(), windowing=Sessions(10)).startswith("Sessions merges windows")

    def test_merging_windows_under_sorting_by_time(self):
        class Fn(DoFn):
            def process(self, element):
                pass

        sentence = only_problem(Fn(), windowing=Sessions(10), requires_time_sorted_input=True)
        assert sentence.startswith("Sessions merges windows")

    def test_merging_windows_without_state(self):
        class Fn(DoFn):
            def process(self, element):
                pass

        assert build_step(Fn(), StepOptions(windowing=Sessions(10))).windowing.window_fn == Sessions(10)

    @pytest.mark.parametrize("windowing", [FixedWindows, 60, "1 minute"], ids=repr)
    def test_what_is_no_window_function(self, windowing):
        assert "it must be an instance of a WindowFn, such as FixedWindows(60)." in only_problem(Fine(), windowing=windowing)


class TestOptions:
    @pytest.mark.parametrize("lateness", [-1, "soon", None, Timestamp(5)], ids=repr)
    def test_lateness(self, lateness):
        assert only_problem(Fine(), allowed_lateness=lateness).startswith("allowed_lateness is ")

    @pytest.mark.parametrize("lateness", [0, 1.5, "10 minutes"], ids=repr)
    def test_lateness_that_is_fine(self, lateness):
        assert build_step(Fine(), StepOptions(allowed_lateness=lateness)).windowing.allowed_lateness.micros >= 0

    def test_on_error(self):
        assert only_problem(Fine(), on_error="ignore") == "on_error is 'ignore'; it can be 'fail' or 'dead_letter'."

    @pytest.mark.parametrize(
        ("option", "value"), [("backend", "tape"), ("key_groups", 0), ("key_groups", "two"), ("runtime", "flink")]
    )
    def test_of_a_run(self, option, value):
        with pytest.raises(InvalidStep, match=f"{option} is {value!r}"):
            run(Fine(), TestStream(), **{option: value})


class TakesRates(DoFn):
    def process(self, element, rates, value=DoFn.StateParam(VALUE)):
        yield element


class TestSideInputs:
    def test_missing(self):
        assert only_problem(TakesRates()) == (
            "process has a parameter 'rates', but no side input of that name is given: side_inputs={'rates': AsDict(...)}. "
            "(A timer is rates=DoFn.TimerParam(SPEC), a state cell rates=DoFn.StateParam(SPEC).)"
        )

    def test_unknown(self):
        found = problems(TakesRates(), side_inputs={"rate": AsDict({})})
        assert "A side input 'rate' is given, but no method has a parameter of that name for it." in found
        assert len(found) == 2

    def test_not_wrapped(self):
        sentence = only_problem(TakesRates(), side_inputs={"rates": {"eur": 1}})
        assert sentence == "The side input 'rates' is {'eur': 1}; wrap it in AsDict, AsList or AsSingleton."

    def test_too_many(self):
        sides = [AsDict({}), AsList([])]
        assert only_problem(TakesRates(), side_inputs=sides) == (
            "2 side inputs are given, but process has 1 parameters for them."
        )

    def test_a_cell_is_no_place_for_one(self):
        found = problems(Fine(), side_inputs={"value": AsSingleton([1])})
        assert found == ["A side input 'value' is given, but no method has a parameter of that name for it."]


class ManyMistakes(DoFn):
    """Has five things wrong with it."""

    COUNT = ValueStateSpec("count", VarIntCoder)
    TOTAL = ValueStateSpec("total")
    ALSO_TOTAL = CombiningStateSpec("total", sum)
    LATER = TimerSpec("later")
    NEVER = TimerSpec("never")

    def process(
        self,
        element,
        count=DoFn.StateParam(COUNT),
        total=DoFn.StateParam(TOTAL),
        later=DoFn.TimerParam(LATER),
        never=DoFn.TimerParam(NEVER),
        *,
        key=DoFn.KeyParam,
    ):
        total.add(1)

    @on_timer(LATER)
    def fires(self, total=DoFn.StateParam(ALSO_TOTAL)):
        pass


class TestAllAtOnce:
    def test_every_problem_is_told(self):
        found = problems(ManyMistakes())
        assert len(found) == 5
        for words in [
            "process takes 'key' by keyword only",
            "process calls total.add, but ValueStateSpec(total) is a value cell",
            "Two state cells have the name 'total'",
            "has the class VarIntCoder as its coder; write VarIntCoder()",
            "TimerSpec(never) has no callback",
        ]:
            assert sum(words in sentence for sentence in found) == 1, words

    def test_those_of_the_options_and_of_the_input_too(self):
        with pytest.raises(InvalidStep) as raised:
            run(
                ManyMistakes(),
                TestStream().add_elements([5]),
                windowing=Sessions(10),
                allowed_lateness=-1,
                on_error="ignore",
                side_inputs={"rates": AsDict({})},
                key_groups=0,
                backend="tape",
            )
        assert len(raised.value.problems) == 12

    def test_the_message_lists_them_under_the_name_of_the_step(self):
        with pytest.raises(InvalidStep) as raised:
            build_step(ManyMistakes(), StepOptions(name="payments"))
        first, *rest = str(raised.value).splitlines()
        assert first == "The step 'payments' cannot be built: 5 problems."
        assert rest == [f"  - {sentence}" for sentence in raised.value.problems]

    def test_the_name_is_that_of_the_class_if_there_is_no_other(self):
        with pytest.raises(InvalidStep, match="The step 'ManyMistakes' cannot be built"):
            build_step(ManyMistakes())

    def test_one_problem_is_one_problem(self):
        with pytest.raises(InvalidStep, match=r"'Fine' cannot be built: 1 problem\.\n") as raised:
            build_step(Fine(), StepOptions(on_error="ignore"))
        assert isinstance(raised.value, ValueError)
        assert isinstance(raised.value, HoldfastError)

    def test_the_same_sentence_is_said_once(self):
        bad = ValueStateSpec("bad", VarIntCoder)

        class Fn(DoFn):
            T = TimerSpec("t")

            def process(self, element, cell=DoFn.StateParam(bad), t=DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def fires(self, cell=DoFn.StateParam(bad)):
                pass

        assert "VarIntCoder()" in only_problem(Fn())


class TestUnusualButFine:
    def test_a_spec_outside_of_the_class(self):
        class Fn(DoFn):
            def process(self, element, value=DoFn.StateParam(VALUE), bag=DoFn.StateParam(BAG)):
                pass

        assert build_step(Fn()).cells == (VALUE, BAG)

    def test_a_spec_of_a_function(self):
        local = SetStateSpec("local")

        class Fn(DoFn):
            def process(self, element, members=DoFn.StateParam(local)):
                pass

        assert build_step(Fn()).cells == (local,)

    def test_a_spec_that_nobody_asks_for(self):
        class Fn(DoFn):
            UNUSED = ValueStateSpec("unused", VarIntCoder)
            NEVER = TimerSpec("never")

            def process(self, element):
                pass

        step = build_step(Fn())
        assert step.cells == ()
        assert step.timers == ()

    def test_a_callback_of_a_timer_that_nobody_asks_for(self):
        class Fn(DoFn):
            NEVER = TimerSpec("never")

            def process(self, element):
                pass

            @on_timer(NEVER)
            def fires(self):
                pass

        assert build_step(Fn()).timers == ()

    def test_stacked_callbacks(self):
        class Fn(DoFn):
            ONE = TimerSpec("one")
            TWO = TimerSpec("two", TimeDomain.REAL_TIME)

            def process(self, element, one=DoFn.TimerParam(ONE), two=DoFn.TimerParam(TWO)):
                pass

            @on_timer(ONE)
            @on_timer(TWO)
            def fires(self):
                pass

        assert {name: callback.method for name, callback in build_step(Fn()).callbacks.items()} == {
            "one": "fires",
            "two": "fires",
        }

    def test_a_subclass_that_shares_the_specs(self):
        class Base(DoFn):
            COUNT = ValueStateSpec("count")
            T = TimerSpec("t")

            def process(self, element, count=DoFn.StateParam(COUNT), t=DoFn.TimerParam(T)):
                pass

            @on_timer(T)
            def fires(self, count=DoFn.StateParam(COUNT)):
                pass

        class Child(Base):
            def process(self, element, t=DoFn.TimerParam(Base.T), count=DoFn.StateParam(Base.COUNT)):
                return super().process(element, count, t)

        class Grandchild(Child):
            @on_timer(Base.T)
            def fires(self, count=DoFn.StateParam(Base.COUNT)):
                pass

        for fn in (Base(), Child(), Grandchild()):
            step = build_step(fn)
            assert step.cells == (Base.COUNT,)
            assert step.timers == (Base.T,)
            assert step.callbacks["t"].function == fn.fires

    def test_two_classes_that_share_a_timer(self):
        class One(DoFn):
            def process(self, element, timer=DoFn.TimerParam(TIMER)):
                pass

            @on_timer(TIMER)
            def fires(self):
                pass

        class Two(DoFn):
            def process(self, element, timer=DoFn.TimerParam(TIMER)):
                pass

            @on_timer(TIMER)
            def also_fires(self):
                pass

        assert build_step(One()).callbacks["timer"].method == "fires"
        assert build_step(Two()).callbacks["timer"].method == "also_fires"

    def test_the_element_by_its_param(self):
        class Fn(DoFn):
            def process(self, value=DoFn.StateParam(VALUE), it=DoFn.ElementParam):
                pass

        assert build_step(Fn()).cells == (VALUE,)

    def test_more_side_inputs_than_are_named(self):
        class Fn(DoFn):
            def process(self, element, first, *others, value=7):
                pass

        step = build_step(Fn(), StepOptions(side_inputs=[AsList([1]), AsList([2]), AsList([3])]))
        assert list(step.side_inputs) == ["first"]
        assert len(step.extra_side_inputs) == 2

    def test_static_methods(self):
        class Fn(DoFn):
            T = TimerSpec("t")

            @staticmethod
            def process(element, t=DoFn.TimerParam(T)):
                pass

            @staticmethod
            @on_timer(T)
            def fires(key=DoFn.KeyParam):
                pass

        assert build_step(Fn()).timers == (Fn.T,)

    def test_positional_only_parameters(self):
        class Fn(DoFn):
            def process(self, element, value=DoFn.StateParam(VALUE), /):
                pass

        assert build_step(Fn()).cells == (VALUE,)

    def test_a_decorated_process(self):
        def logged(method):
            @functools.wraps(method)
            def wrapper(*args):
                return method(*args)

            return wrapper

        class Fn(DoFn):
            @logged
            def process(self, element, value=DoFn.StateParam(VALUE)):
                value.write(1)

        assert build_step(Fn()).cells == (VALUE,)

    def test_keyword_arguments_that_nobody_gives(self):
        class Fn(DoFn):
            def process(self, element, *, verbose=False, **others):
                pass

        assert build_step(Fn()).cells == ()

    def test_properties_of_the_instance_are_not_touched(self):
        class Fn(DoFn):
            @property
            def connection(self):
                raise AssertionError("not open")

            def process(self, element):
                pass

        assert build_step(Fn()).name == "Fn"


class TestQuestions:
    """Beam's questions about a function."""

    def test_is_stateful(self):
        class Stateless(DoFn):
            def process(self, element, key=DoFn.KeyParam):
                pass

        assert is_stateful_dofn(Fine())
        assert not is_stateful_dofn(Stateless())

    def test_specs(self):
        class Fn(DoFn):
            def process(self, element, value=DoFn.StateParam(VALUE), timer=DoFn.TimerParam(TIMER)):
                pass

            @on_timer(TIMER)
            def fires(self, bag=DoFn.StateParam(BAG)):
                pass

        assert get_dofn_specs(Fn()) == ({VALUE, BAG}, {TIMER})

    def test_validate(self):
        validate_stateful_dofn(Fine())
        with pytest.raises(InvalidStep):
            validate_stateful_dofn(ManyMistakes())

    def test_side_inputs_that_are_not_given_yet_are_no_obstacle(self):
        assert get_dofn_specs(TakesRates()) == ({VALUE}, set())
        assert is_stateful_dofn(TakesRates())
        validate_stateful_dofn(TakesRates())

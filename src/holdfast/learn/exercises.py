"""The exercises, from the first cell to an aggregation: three of a tutorial on Beam's state, and five more."""

from __future__ import annotations

from holdfast.errors import InputError
from holdfast.learn.cases import Case, Exercise
from holdfast.model.state.specs import BagStateSpec, ValueStateSpec
from holdfast.model.time.timers import TimerSpec
from holdfast.model.windows.ready import FixedWindows
from holdfast.model.windows.values import TimestampedValue
from holdfast.testing import TestStream

__all__ = ["EXERCISES", "exercise_named"]

_MINUTE, _HOUR = 60, 3600
_LOST = "A restart loses whatever the function keeps in its attributes: keep it in a cell."
_MIXED = "A cell belongs to the element's key. Do not keep one value for all keys in an attribute or a global."


def _at(*elements: tuple[str, object, float]) -> list[TimestampedValue]:
    """Elements from (key, value, time)."""
    return [TimestampedValue((key, value), time) for key, value, time in elements]


_KEY_COUNTER = Exercise(
    name="key-counter",
    about="a value cell",
    class_name="KeyCounterDoFn",
    uses=(ValueStateSpec,),
    cases=(
        Case(
            "counts the elements of a key",
            TestStream().add_elements([("a", "x"), ("a", "y"), ("a", "x")]),
            (("a", 1), ("a", 2), ("a", 3)),
            "Read the cell, which gives None the first time; write what you read, plus one; yield it.",
        ),
        Case(
            "counts each key by itself",
            TestStream().add_elements([("a", 1), ("b", 1), ("a", 1)]),
            (("a", 1), ("b", 1), ("a", 2)),
            _MIXED,
        ),
        Case(
            "continues after a crash",
            TestStream().add_elements([("a", 1), ("a", 1)]).crash().add_elements([("a", 1)]),
            (("a", 1), ("a", 2), ("a", 3)),
            _LOST,
        ),
    ),
)

_DEDUPLICATE = Exercise(
    name="deduplicate",
    about="a cell that says whether",
    class_name="DeduplicateDoFn",
    uses=(ValueStateSpec,),
    cases=(
        Case(
            "gives the first element of a key, and no other",
            TestStream().add_elements([("a", 1), ("a", 2), ("b", 3), ("a", 4)]),
            (("a", 1), ("b", 3)),
            "An empty cell reads as None, which is as good as False.",
        ),
        Case(
            "knows after a crash what it has seen",
            TestStream().add_elements([("a", 1)]).crash().add_elements([("a", 2), ("b", 3)]),
            (("a", 1), ("b", 3)),
            _LOST,
        ),
    ),
)

_TRANSACTION_BUFFER = Exercise(
    name="transaction-buffer",
    about="a bag, and clearing",
    class_name="TransactionBufferDoFn",
    uses=(BagStateSpec, ValueStateSpec),
    cases=(
        Case(
            "gives three amounts together",
            TestStream().add_elements([("s", 1.5), ("s", 2.5), ("s", 3.5)]),
            (("s", [1.5, 2.5, 3.5]),),
            "Add to the bag, count in the value cell, and yield (store, list) when the count is three.",
            keeps=(),
        ),
        Case(
            "starts again after three",
            TestStream().add_elements([("s", float(n)) for n in range(1, 8)]),
            (("s", [1.0, 2.0, 3.0]), ("s", [4.0, 5.0, 6.0])),
            "Clear both cells: the bag, and the count.",
            keeps=("s",),
        ),
        Case(
            "keeps stores apart, even across a crash",
            TestStream().add_elements([("s", 1.0), ("t", 9.0), ("s", 2.0)]).crash().add_elements([("t", 8.0), ("s", 3.0)]),
            (("s", [1.0, 2.0, 3.0]),),
            _LOST,
            keeps=("t",),
        ),
    ),
)

_RATE_LIMIT = Exercise(
    name="rate-limit",
    about="state in windows",
    class_name="RateLimitDoFn",
    uses=(),
    cases=(
        Case(
            "lets five calls of a minute through",
            TestStream().add_elements(_at(*[("ann", n, n) for n in range(7)])),
            tuple(("ann", n) for n in range(5)),
            "Count the calls in a cell; yield the element as long as the count is five or less.",
            {"windowing": FixedWindows(_MINUTE)},
        ),
        Case(
            "starts again with the next minute, for each user",
            TestStream().add_elements(_at(*[("ann", n, 10 * n) for n in range(8)], ("bob", 0, 0))),
            (*(("ann", n) for n in range(5)), ("ann", 6), ("ann", 7), ("bob", 0)),
            "The step puts elements into windows of a minute, each with a cell of its own: you need not look at the time.",
            {"windowing": FixedWindows(_MINUTE)},
        ),
        Case(
            "keeps counting after a crash",
            TestStream()
            .add_elements(_at(*[("ann", n, n) for n in range(4)]))
            .crash()
            .add_elements(_at(*[("ann", n, n) for n in range(4, 8)])),
            tuple(("ann", n) for n in range(5)),
            _LOST,
            {"windowing": FixedWindows(_MINUTE)},
        ),
        Case(
            "leaves nothing behind when the minute is over",
            TestStream().add_elements(_at(("ann", 0, 1))).crash().advance_watermark_to(_MINUTE),
            (("ann", 0),),
            "State of a window goes with it, unless you keep it elsewhere.",
            {"windowing": FixedWindows(_MINUTE)},
            keeps=(),
        ),
    ),
)

_SESSION_TRAIL = Exercise(
    name="session-trail",
    about="a timer",
    class_name="SessionTrailDoFn",
    uses=(TimerSpec,),
    cases=(
        Case(
            "gives the pages of a visit after half an hour of silence",
            TestStream().add_elements(_at(("ann", "/", 0), ("ann", "/cart", 60))).advance_watermark_to(_HOUR),
            (("ann", ["/", "/cart"]),),
            "Set the timer to the time of the element plus 1800 with each page; yield in its callback.",
            keeps=(),
        ),
        Case(
            "waits as long as pages come",
            TestStream()
            .add_elements(_at(("ann", "/", 0)))
            .advance_watermark_to(1700)
            .add_elements(_at(("ann", "/a", 1700)))
            .advance_watermark_to(1900),
            (),
            "A timer that is set again moves: use one timer, and set it with each page.",
            keeps=("ann",),
        ),
        Case(
            "begins a new visit after that, even across a crash",
            TestStream()
            .add_elements(_at(("ann", "/", 0)))
            .advance_watermark_to(1800)
            .crash()
            .add_elements(_at(("ann", "/b", 2000)))
            .crash()
            .advance_watermark_to(2 * _HOUR),
            (("ann", ["/"]), ("ann", ["/b"])),
            "Clear the pages in the callback.",
            keeps=(),
        ),
    ),
)

_IMPOSSIBLE_TRAVEL = Exercise(
    name="impossible-travel",
    about="the time of an element",
    class_name="ImpossibleTravelDoFn",
    uses=(),
    cases=(
        Case(
            "reports two places within an hour",
            TestStream().add_elements(_at(("ann", "Tokyo", 0), ("ann", "New York", 600))),
            (("ann", "Tokyo", "New York"),),
            "Keep the last place with its time; compare with DoFn.TimestampParam.",
        ),
        Case(
            "says nothing about the same place, nor after an hour",
            TestStream().add_elements(_at(("ann", "Tokyo", 0), ("ann", "Tokyo", 60), ("ann", "Osaka", 60 + _HOUR))),
            (),
            "An hour or more is time enough: only less than 3600 seconds counts.",
        ),
        Case(
            "compares with this user's last login, even across a crash",
            TestStream()
            .add_elements(_at(("ann", "Tokyo", 0), ("bob", "Oslo", 1)))
            .crash()
            .add_elements(_at(("bob", "Rome", 600), ("ann", "Osaka", 4000), ("ann", "Kobe", 4100), ("bob", "Rome", 4200))),
            (("bob", "Oslo", "Rome"), ("ann", "Osaka", "Kobe")),
            "Write the place and the time of every login, even if you report nothing.",
        ),
    ),
)

_LAST_PAGE = Exercise(
    name="last-page",
    about="a time to live",
    class_name="LastPageDoFn",
    uses=(ValueStateSpec,),
    cases=(
        Case(
            "gives each page with the one before",
            TestStream().add_elements([("ann", "/"), ("bob", "/"), ("ann", "/cart")]),
            (("ann", None, "/"), ("bob", None, "/"), ("ann", "/", "/cart")),
            "Read the cell before you write it; empty, it reads as None.",
        ),
        Case(
            "forgets a user after a day",
            TestStream()
            .add_elements([("ann", "/")])
            .advance_processing_time(24 * _HOUR)
            .crash()
            .add_elements([("ann", "/cart")]),
            (("ann", None, "/"), ("ann", None, "/cart")),
            'Declare it where the cell is declared: ttl="24 hours".',
        ),
        Case(
            "counts the day from the last page",
            TestStream()
            .add_elements([("ann", "/")])
            .advance_processing_time(20 * _HOUR)
            .add_elements([("ann", "/a")])
            .advance_processing_time(20 * _HOUR)
            .add_elements([("ann", "/b")]),
            (("ann", None, "/"), ("ann", "/", "/a"), ("ann", "/a", "/b")),
            "Write each page: a write restarts the time.",
        ),
    ),
)

_AVERAGE = Exercise(
    name="average",
    about="an aggregation",
    class_name="AverageFn",
    uses=(),
    cases=(
        Case(
            "gives the average of each key when the window ends",
            TestStream().add_elements(_at(("a", 1.0, 0), ("b", 5.0, 1), ("a", 4.0, 2))).advance_watermark_to(_MINUTE),
            (("a", 2.5), ("b", 5.0)),
            "Use an accumulator of two numbers, the sum and the count; add_input returns a new one.",
            {"windowing": FixedWindows(_MINUTE)},
        ),
        Case(
            "gives the same if parts are computed separately and merged",
            TestStream(),
            (4.0,),
            "merge_accumulators gets several accumulators: add up the sums and the counts. You cannot average averages.",
            parts=((1.0, 2.0), (9.0,)),
        ),
        Case(
            "takes parts to which nothing was added",
            TestStream(),
            (3.0,),
            "An accumulator may be as create_accumulator made it: the sum of nothing is 0, and so is the number.",
            parts=((), (3.0,), ()),
        ),
        Case(
            "gives None for nothing",
            TestStream(),
            (None,),
            "extract_output may get an accumulator to which nothing was added: do not divide by 0.",
            parts=((), ()),
        ),
    ),
)

EXERCISES = (
    _KEY_COUNTER,
    _DEDUPLICATE,
    _TRANSACTION_BUFFER,
    _IMPOSSIBLE_TRAVEL,
    _RATE_LIMIT,
    _SESSION_TRAIL,
    _LAST_PAGE,
    _AVERAGE,
)
"""In the order in which they are best done."""


def exercise_named(name: str) -> Exercise:
    for exercise in EXERCISES:
        if exercise.name == name:
            return exercise
    names = ", ".join(exercise.name for exercise in EXERCISES)
    raise InputError(f"There is no exercise {name!r}.", todo=f"choose one of: {names}")

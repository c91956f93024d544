"""Cells that are declared in Flink's words."""

from __future__ import annotations

import holdfast as hf
from holdfast.flink import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from holdfast.testing import TestStream

DAY_SECONDS = 24 * 3600


class Session(hf.DoFn):
    """Says what is known of a session, then remembers the page."""

    PAGE = ValueStateDescriptor("session_state", Types.STRING())
    PAGE.enable_time_to_live(
        StateTtlConfig.new_builder(hf.Duration.of_hours(24))
        .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
        .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
        .build()
    )

    def process(self, element, page=hf.DoFn.StateParam(PAGE)):
        user, seen = element
        yield user, page.read()
        if seen is not None:
            page.write(seen)


class Average:
    """Flink's AggregateFunction: the mean. It cannot say what the mean of nothing is, and is not asked."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Everything(hf.DoFn):
    """One cell of each other kind; gives what they held before the element."""

    ALL = ListStateDescriptor("all", Types.LONG())
    BY_KIND = MapStateDescriptor("by_kind", Types.STRING(), Types.LONG())
    LARGEST = ReducingStateDescriptor("largest", lambda one, other: max(one, other), Types.LONG())
    MEAN = AggregatingStateDescriptor("mean", Average(), Types.TUPLE([Types.LONG(), Types.LONG()]))

    def process(
        self,
        element,
        every=hf.DoFn.StateParam(ALL),
        by_kind=hf.DoFn.StateParam(BY_KIND),
        largest=hf.DoFn.StateParam(LARGEST),
        mean=hf.DoFn.StateParam(MEAN),
    ):
        _, value = element
        yield list(every.read()), by_kind.read(), largest.read(), mean.read()
        every.add(value)
        by_kind.put("even" if value % 2 == 0 else "odd", value)
        largest.add(value)
        mean.add(value)


def test_a_session_is_forgotten_after_a_day_without_a_write(run):
    stream = TestStream().add_elements([("ann", "home")]).advance_processing_time(DAY_SECONDS - 1)
    # Reading does not prolong it.
    stream.add_elements([("ann", None)]).crash().advance_processing_time(1).add_elements([("ann", "cart")])
    stream.advance_processing_time(DAY_SECONDS - 1).add_elements([("ann", None)])
    out = run(Session(), stream)
    assert out.values == [("ann", None), ("ann", "home"), ("ann", None), ("ann", "cart")]


def test_the_other_descriptors(run, feed):
    out = run(Everything(), feed(TestStream(), [("k", 4), ("k", 9), ("k", 2)]))
    assert out.values == [
        ([], {}, None, None),
        ([4], {"even": 4}, 4, 4.0),
        ([4, 9], {"even": 4, "odd": 9}, 9, 6.5),
    ]
    assert out.state("k") == {"all": [4, 9, 2], "by_kind": {"even": 2, "odd": 9}, "largest": 9, "mean": 5.0}

"""A script whose side input has the results of an aggregation of its own elements, and scripts that make no sense."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.model.coders import coder_from_description, default_coder
from holdfast.testing import SideStream, TestStream, run


class ModelFromEventsFn(hf.CombineFn):
    """As in Beam's post on stateful processing; the model is the sorted amounts."""

    def create_accumulator(self):
        return ()

    def add_input(self, model, input):
        return (*model, input)

    def merge_accumulators(self, accumulators):
        return tuple(amount for accumulator in accumulators for amount in accumulator)

    def extract_output(self, model):
        return tuple(sorted(model))


def event_prediction(user_event, models):
    user = user_event[0]
    event = user_event[1]
    model = models[user]
    return (user, sum(model) - event)


def at(time, *pairs):
    return [hf.TimestampedValue(pair, time) for pair in pairs]


def test_the_model_of_the_window():
    window = hf.FixedWindows(60)
    models = SideStream(window, results_of=hf.CombinePerKey(ModelFromEventsFn()))
    events = TestStream().add_elements(at(10, ("ann", 1), ("bob", 5))).crash().add_elements(at(50, ("ann", 2)))
    held = run(hf.Map(event_prediction, hf.AsDict(models)), events, windowing=window)
    assert held.values == []
    assert held.state("ann", hf.IntervalWindow(0, 60))["waiting"] == [(hf.Timestamp(10), 1), (hf.Timestamp(50), 2)]
    events.crash().add_elements(at(70, ("ann", 4))).advance_watermark_to(60)
    out = run(hf.Map(event_prediction, hf.AsDict(models)), events, windowing=window)
    assert sorted(out.values) == [("ann", 1), ("ann", 2), ("bob", 0)]
    out = run(hf.Map(event_prediction, hf.AsDict(models)), events.advance_watermark_to_infinity(), windowing=window)
    assert sorted(out.values) == [("ann", 0), ("ann", 1), ("ann", 2), ("bob", 0)]
    assert out.keys() == []


def test_sliding_windows():
    windows = hf.SlidingWindows(20, 10)
    models = SideStream(windows, results_of=hf.CombinePerKey(ModelFromEventsFn()))
    events = TestStream().add_elements(at(5, ("ann", 1))).add_elements(at(15, ("ann", 2))).advance_watermark_to(100)
    out = run(hf.Map(event_prediction, hf.AsDict(models)), events, windowing=windows)
    assert sorted((output.value[1], float(output.window.end)) for output in out) == [(0, 10), (0, 30), (1, 20), (2, 20)]


def test_the_newest_model_with_a_trigger():
    trigger = hf.Repeatedly(hf.AfterAll(hf.AfterCount(1), hf.AfterProcessingTime(1)))
    models = SideStream(results_of=hf.CombinePerKey(ModelFromEventsFn()), trigger=trigger, accumulation_mode="accumulating")
    events = TestStream().add_elements([("ann", 1)]).add_elements([("ann", 2)]).advance_processing_time(2)
    events.add_elements([("ann", 5)]).advance_processing_time(2).crash().add_elements([("ann", 7)])
    out = run(hf.Map(event_prediction, hf.AsDict(models, wait=60)), events)
    assert out.values == [("ann", 2), ("ann", 1), ("ann", -2), ("ann", 1)]


@pytest.mark.parametrize("time", [hf.MAX_TIMESTAMP, hf.GlobalWindow().max_timestamp(), hf.MIN_TIMESTAMP])
def test_an_element_at_the_end_of_time_does_not_wait_for_ever(time):
    models = SideStream()
    fn = hf.Map(lambda event, models: models.get("ann"), hf.AsDict(models, wait=60))
    waits = TestStream().add_elements([hf.TimestampedValue(("ann", 1), time)])
    answered = TestStream().add_elements([hf.TimestampedValue(("ann", 1), time)]).add_elements([("ann", "model")], to=models)
    assert run(fn, answered).values == ["model"]
    out = run(fn, waits.crash().advance_watermark_to_infinity())
    assert out.values == [None]
    assert out.keys() == []


@pytest.mark.parametrize(
    ("to", "given", "runtime", "message"),
    [
        (SideStream(), hf.AsDict({}), "memory", "adds rows to a SideStream which is no side input"),
        (None, hf.AsDict(SideStream(results_of=hf.GroupByKey()), wait=1), "spark", "is for the runtime in memory"),
    ],
    ids=["unknown", "on Spark"],
)
def test_what_makes_no_sense(to, given, runtime, message):
    stream = TestStream().add_elements([("ann", 1)], to=to)
    with pytest.raises(hf.InvalidStep, match=message):
        run(hf.Map(event_prediction, given), stream, runtime=runtime)


def test_rows_added_to_results():
    models = SideStream(hf.FixedWindows(5), results_of=hf.GroupByKey())
    stream = TestStream().add_elements([("ann", 1)], to=models)
    with pytest.raises(hf.InvalidStep, match="those come by themselves"):
        run(hf.Map(event_prediction, hf.AsDict(models)), stream, windowing=hf.FixedWindows(5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"wait": -1}, "wait is -1; it cannot be negative"),
        ({"wait": "soon"}, "wait is not a duration"),
        ({"ttl": 0}, "time to live is 0; it must be longer than zero"),
        ({"ttl": "soon"}, "time to live is not a duration"),
    ],
    ids=["negative", "no duration", "no time", "no time to live"],
)
def test_a_wait_that_is_none(options, message):
    with pytest.raises(hf.InvalidStep, match=message):
        hf.AsDict({}, **options)


def test_rows_that_are_kept_are_read_without_their_schema():
    description = {"id": "row", "version": 1, "fields": ["limit", "note"]}
    data = default_coder().encode((1.5, "new"))
    assert coder_from_description(description, view_records=True).decode(data) == {"limit": 1.5, "note": "new"}
    assert coder_from_description({**description, "bare": True, "fields": ["v"]}, view_records=True).decode(data) == (
        1.5,
        "new",
    )
    assert coder_from_description(description) is None
    for damaged in (default_coder().encode((1.5,)), b"\xff"):
        with pytest.raises(hf.CoderError, match="damaged"):
            coder_from_description(description, view_records=True).decode(damaged)

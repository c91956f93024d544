"""Side inputs that are streams, on Spark: the models of an aggregation over the same events, looked up by user."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from pyspark.sql import functions as F

import holdfast as hf
from holdfast.ops import read_state

BEGIN = datetime(2026, 1, 5, 8, tzinfo=timezone.utc)
EVENTS = "user string, amount double, seen_at timestamp"
PREDICTION = "user string, amount double, model double, above double"
WINDOW = hf.FixedWindows("60 seconds")

# Seconds after the beginning, in files, each of which is a micro-batch.
FILES = [
    [("ann", 1.0, 0), ("bob", 8.0, 10), ("ann", 3.0, 50), ("ann", 5.0, 70)],
    [("bob", 2.0, 20), ("eve", 9.0, 90), ("ann", 2.0, 59)],
    [("ann", 7.0, 130), ("bob", 4.0, 130)],
    [("zoe", 0.0, 400)],
]


class MeanModel(hf.CombineFn):
    """The mean of the amounts, as a model."""

    def create_accumulator(self):
        return (0.0, 0)

    def add_input(self, accumulator, amount):
        return accumulator[0] + amount, accumulator[1] + 1

    def merge_accumulators(self, accumulators):
        totals, counts = zip(*accumulators, strict=True)
        return sum(totals), sum(counts)

    def extract_output(self, accumulator):
        return accumulator[0] / accumulator[1]


def event_prediction(user_event, models):
    """As in Beam's post on stateful processing: looks up the model of the user."""
    user = user_event[0]
    event = user_event[1]
    model = models[user]
    return user, event, model, event - model


def wanted():
    """Each event with the mean of all events of its user and minute, of those minutes that are over."""
    rows = [row for file in FILES for row in file if row[2] < 400]
    minutes = {}
    for user, amount, second in rows:
        minutes.setdefault((user, second // 60), []).append(amount)
    means = {place: sum(amounts) / len(amounts) for place, amounts in minutes.items()}
    return sorted((u, a, means[u, s // 60], a - means[u, s // 60]) for u, a, s in rows)


@pytest.fixture
def events(feed):
    made = feed(EVENTS)
    for file in FILES:
        made.add(*({"user": u, "amount": a, "seen_at": BEGIN + timedelta(seconds=s)} for u, a, s in file))
    return made


def keyed(df):
    return hf.keyed(df, key="user", value="amount", timestamp="seen_at", watermark="100 seconds")


def predictions(events, **options):
    stream = keyed(events.df).window_into(WINDOW)
    models = hf.AsDict(stream.combine_per_key(MeanModel(), output="model double", name="models", key_groups=2))
    return stream.par_do(hf.Map(event_prediction, models), output=PREDICTION, key_groups=2, **options)


def plain(rows):
    return sorted(map(tuple, rows))


@pytest.mark.night
def test_events_wait_for_the_model_of_their_window(events, run_job):
    [found] = run_job(predictions(events))
    assert plain(found) == wanted()


def test_in_a_job_with_several_sinks_that_is_stopped_and_started(spark, feed, run_job, tmp_path):
    """Both the newest model, from another stream, and what misses it; with a restart after every file."""
    made, said = feed(EVENTS), feed("who string, limit double, note string", "limits")
    found = []
    for number, (user, second) in enumerate([("ann", 0), ("bob", 5), ("ann", 200), ("x", 900)]):
        made.add({"user": user, "amount": 1.0, "seen_at": BEGIN + timedelta(seconds=second)})
        said.add({"who": "ann", "limit": float(number), "note": "new"})
        limits = hf.AsDict(hf.keyed(said.df, key="who"), wait="100 seconds")
        checked = keyed(made.df).par_do(
            hf.Map(lambda event, limits: (event[0], limits[event[0]].limit, limits[event[0]].note), limits),
            output="user string, limit double, note string",
            outputs={"dead_letter": None},
            on_error="dead_letter",
            name="checked",
            key_groups=2,
        )
        letters = checked.dead_letter.select("user", "amount", "method")
        found.append(run_job(checked.main, letters, checked.main.where("limit >= 0")))
        if number == 1:
            rows = read_state(spark, str(tmp_path / "checkpoint")).collect()
            held = {(row.key, row.cell): row.value for row in rows}
    main, letters, same = ([row for rows in some for row in plain(rows)] for some in zip(*found, strict=True))
    assert held["ann", "side limits"].endswith('{"limit":1.0,"note":"new"}]}')
    assert held["bob", "waiting"] == '[{"$tuple":[{"$timestamp":"2026-01-05T08:00:05Z"},1.0]}]'
    assert held["bob", "due"] == '{"$timestamp":"2026-01-05T08:01:45Z"}'
    assert len(held) == 3
    assert main == same == [("ann", 0.0, "new"), ("ann", 2.0, "new")]
    assert sorted(letters) == [("bob", 1.0, "process")]


@pytest.mark.night
def test_the_same_script_in_memory_and_on_spark():
    from holdfast.testing import SideStream, TestStream, run

    windows = hf.FixedWindows(60)
    models = SideStream(windows)

    def at(time, *pairs):
        return [hf.TimestampedValue(pair, time) for pair in pairs]

    stream = (
        TestStream()
        .add_elements(at(10, ("ann", 1), ("bob", 2)))
        .crash()
        .add_elements([*at(59, ("ann", "a")), *at(119, ("ann", "b"))], to=models)
        .add_elements(at(70, ("ann", 3), ("bob", 4)))
        .advance_watermark_to(60)
        .crash()
        .add_elements(at(20, ("ann", 5), ("eve", 5)))
        .advance_watermark_to(100)
        .add_elements(at(20, ("ann", 6)))
        .advance_watermark_to_infinity()
    )
    looked_up = hf.Map(lambda event, models: (*event, models.get(event[0], "none")), hf.AsDict(models))
    options = {"windowing": windows, "allowed_lateness": 30, "outputs": ["late"]}
    in_memory, on_spark = (run(looked_up, stream, runtime=runtime, **options) for runtime in ("memory", "spark"))
    assert [tuple(output) for output in on_spark] == [tuple(output) for output in in_memory]
    assert len(in_memory.values) == 6
    assert in_memory.tagged("late") == [("ann", 6)]
    assert in_memory.keys() == on_spark.keys() == []
    assert in_memory.metrics.late == on_spark.metrics.late == 1


@pytest.mark.night
def test_in_a_batch(spark):
    rows = [(u, a, BEGIN + timedelta(seconds=s)) for file in FILES for u, a, s in file if s < 400]
    stream = keyed(spark.createDataFrame(rows, EVENTS)).window_into(WINDOW)
    models = hf.AsDict(stream.combine_per_key(MeanModel(), output="model double", name="models", key_groups=2))
    found = stream.par_do(hf.Map(event_prediction, models), output=PREDICTION, key_groups=2)
    assert plain(found.collect()) == wanted()
    # Tables, of which every call has everything, although they have windows.
    spans = stream.combine_per_key(hf.Count(), name="counts", key_groups=1).where("user = 'eve'")
    made = hf.Map(
        lambda e, rows, ends: (e[0], len(rows) + len(ends)), hf.AsList(spans), hf.AsDict(spans.select("user", "window"))
    )
    assert plain(stream.par_do(made, output="user string, n int").where("user = 'bob'").collect()) == [("bob", 2)] * 3


@pytest.mark.parametrize(
    ("window", "message"),
    [("60 seconds", ""), ("120 seconds", "is looked up in FixedWindows.*a row of another window.*window_into")],
)
def test_windows_of_sparks_own(spark, window, message):
    """They must be those of the elements: otherwise a model would be given to a window that is not its own."""
    rows = spark.createDataFrame(
        [(u, a, BEGIN + timedelta(seconds=s)) for file in FILES for u, a, s in file if s < 400], EVENTS
    )
    models = rows.groupBy("user", F.window("seen_at", window)).agg(F.avg("amount").alias("model"))
    stream = keyed(rows).window_into(WINDOW)
    found = stream.par_do(hf.Map(event_prediction, hf.AsDict(models)), output=PREDICTION, key_groups=2)
    if not message:
        assert plain(found.collect()) == wanted()
        return
    with pytest.raises(Exception, match=message):
        found.collect()


def test_what_is_refused(events, feed, spark):
    stream = keyed(events.df).window_into(WINDOW)
    other = feed("user int, limit double", "other").df
    refused = [
        (hf.AsDict(other.select("limit"), wait=1), "has no column 'user'; its columns are limit. Say what its key is"),
        (hf.AsDict(other, wait=1), "has the key 'user' of type int, the elements 'user' of string; cast one"),
        (hf.AsDict(events.df.select("user", "amount")), "Say how long an element may wait for its first row"),
        (hf.AsDict(hf.keyed(spark.createDataFrame([("a", 1)], "u string, v int"), key="u"), wait=1), "is no stream, but"),
    ]
    for side_input, message in refused:
        with pytest.raises(hf.InvalidStep, match=message):
            stream.par_do(hf.Map(event_prediction, side_input), output=PREDICTION)
    untimed = hf.keyed(events.df, key="user", value="amount")
    with pytest.raises(hf.InvalidStep, match="so the elements need event time"):
        untimed.par_do(hf.Map(event_prediction, hf.AsDict(events.df.select("user", "amount"), wait=1)), output=PREDICTION)

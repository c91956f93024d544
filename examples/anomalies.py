"""Finds anomalies in what users do, in two ways: with a model that comes as a side input, and with a model kept in state.

Both learn what is usual for each user (the number of events, their mean and spread) and score each event by its distance.

* `with_side_input`: an aggregation builds a model for each user and window, and the models are joined back to the events.
  A model is ready when its window is over or, with a trigger, some time after the events it has learnt from.
* `as_you_go`: one function keeps the model in a cell. Each event meets the model of all events before it, and only
  predictions that differ from the last one come out.

    python examples/anomalies.py [--way side-input | early | stateful] [--users 20] [--seed 7]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import holdfast as hf

EVENT = "event long, user string, amount double, seen_at timestamp"
MODEL = "struct<events: bigint, mean: double, squares: double>"
PREDICTION = (
    "user string, event long, seen_at timestamp, expected double, score double, learnt_from long, known_until timestamp"
)

LEARNT = 8
"""A model predicts nothing before it has seen this many events."""
SCORE_MAX = 5.0
"""An event this many standard deviations from the mean is an anomaly."""
SCORE_CHANGE = 3.0
"""A prediction whose score differs this much from the last one is worth giving."""
SPREAD_MIN = 0.01

WINDOW = "15 minutes"
EARLY = hf.AfterWatermark(early=hf.Repeatedly(hf.AfterCount(10)))
BEGIN = datetime(2026, 1, 5, 8, tzinfo=timezone.utc).timestamp()


class Model(NamedTuple):
    """What is usual for a user: the number of events, their mean, and the sum of squared distances from it."""

    events: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def with_event(self, amount: float) -> Model:
        """The model with one more event, by Welford's method, which avoids the difference of two large sums."""
        events = self.events + 1
        away = amount - self.mean
        mean = self.mean + away / events
        return Model(events, mean, self.squares + away * (amount - mean))

    def merged(self, other: Model) -> Model:
        """The model of the events of both."""
        if not self.events or not other.events:
            return self if self.events else other
        events = self.events + other.events
        apart = other.mean - self.mean
        mean = self.mean + apart * other.events / events
        return Model(events, mean, self.squares + other.squares + apart * apart * self.events * other.events / events)

    @property
    def is_ready(self) -> bool:
        return self.events >= LEARNT

    @property
    def spread(self) -> float:
        """The standard deviation, with a lower bound for users who always do the same."""
        return max(math.sqrt(self.squares / (self.events - 1)), SPREAD_MIN) if self.events > 1 else SPREAD_MIN

    def score(self, amount: float) -> float:
        """How many standard deviations an amount is from the mean. The uncertainty of a small model counts as spread."""
        return (amount - self.mean) / (self.spread * math.sqrt(1 + 1 / self.events))


class ModelFn(hf.CombineFn):
    """Builds the model of the amounts, or of a field of the elements."""

    def __init__(self, field: str | None = None) -> None:
        self.field = field

    def create_accumulator(self) -> Model:
        return Model()

    def add_input(self, mutable_accumulator: Model, element: Any) -> Model:
        return mutable_accumulator.with_event(element if self.field is None else getattr(element, self.field))

    def merge_accumulators(self, accumulators: Iterable[Model]) -> Model:
        merged = Model()
        for accumulator in accumulators:
            merged = merged.merged(accumulator)
        return merged

    def extract_output(self, accumulator: Model) -> Model:
        return accumulator

    def get_accumulator_coder(self) -> hf.Coder:
        return hf.RecordCoder(Model)


class Prediction(NamedTuple):
    """What a model says about an event, how many events it had learnt from, and the time of the newest of them."""

    user: str
    event: int
    seen_at: hf.Timestamp
    expected: float
    score: float
    learnt_from: int
    known_until: hf.Timestamp


def predict(user: str, event: int, amount: float, seen_at: hf.Timestamp, model: Model, until: hf.Timestamp) -> Prediction:
    return Prediction(user, event, seen_at, model.mean, model.score(amount), model.events, until)


def is_anomaly(score: float) -> bool:
    return abs(score) >= SCORE_MAX


def should_output(previous: float | None, score: float) -> bool:
    """Whether a prediction is worth giving after the last one that was given."""
    if previous is None or is_anomaly(previous) != is_anomaly(score):
        return True
    return abs(score - previous) >= SCORE_CHANGE


class PredictWithModel(hf.DoFn):
    """The side input: events and models of a user in one stream. A prediction for each event, by the newest model.

    Rows have `model`, or else `event` and `amount`. The time of a model is that of its newest event. Events that
    come before the first model wait for it.
    """

    NEWEST = hf.ValueStateSpec("newest", hf.TupleCoder([hf.TimestampCoder(), hf.RecordCoder(Model)]))
    WAITING = hf.BagStateSpec("waiting", hf.TupleCoder([hf.VarIntCoder(), hf.FloatCoder(), hf.TimestampCoder()]))

    def process(
        self,
        element: Any,
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        newest: hf.ValueState[tuple[hf.Timestamp, Model]] = hf.DoFn.StateParam(NEWEST),
        waiting: hf.BagState[tuple[int, float, hf.Timestamp]] = hf.DoFn.StateParam(WAITING),
    ) -> Iterator[Prediction]:
        user, row = element
        held = newest.read()
        if row.model is None:
            if held is None:
                waiting.add((row.event, row.amount, at))
            else:
                yield predict(user, row.event, row.amount, at, held[1], held[0])
            return
        model = Model(*row.model)
        # A pane of an older window may come late.
        if not model.is_ready or (held is not None and (at, model.events) < (held[0], held[1].events)):
            return
        newest.write((at, model))
        if held is None:
            for event, amount, seen_at in waiting.read():
                yield predict(user, event, amount, seen_at, model, at)
            waiting.clear()


class PredictAsYouGo(hf.DoFn):
    """The stateful way: the model, and the last score that was given, are cells."""

    MODEL = hf.CombiningStateSpec("model", ModelFn())
    UNTIL = hf.CombiningStateSpec("until", hf.Max())
    PREVIOUS = hf.ValueStateSpec("previous", hf.FloatCoder())

    def process(
        self,
        element: Any,
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        model: hf.CombiningState = hf.DoFn.StateParam(MODEL),
        until: hf.CombiningState = hf.DoFn.StateParam(UNTIL),
        previous: hf.ValueState[float] = hf.DoFn.StateParam(PREVIOUS),
    ) -> Iterator[Prediction]:
        user, row = element
        known = model.read()
        if known.is_ready:
            prediction = predict(user, row.event, row.amount, at, known, until.read())
            if should_output(previous.read(), prediction.score):
                previous.write(prediction.score)
                yield prediction
        model.add(row.amount)
        until.add(at)


def with_side_input(
    events: DataFrame,
    *,
    windowing: hf.WindowFn | None = None,
    trigger: hf.Trigger | None = None,
    watermark: str = "30 seconds",
    key_groups: int = 8,
) -> DataFrame:
    """Predictions by a model for each user and window, which the aggregation gives at the window's end or by a trigger.

    On a stream, events come before the models of the same micro-batch: a model is used from the next one on. In a batch,
    where all models come at once, events and models are sorted by time instead.
    """
    stream = hf.keyed(events, key="user", value=["amount", "seen_at"], timestamp="seen_at", watermark=watermark)
    models = stream.window_into(
        windowing or hf.FixedWindows(WINDOW),
        trigger=trigger,
        accumulation_mode=None if trigger is None else "accumulating",
    ).combine_per_key(
        {"model": ModelFn("amount"), "newest": hf.Max("seen_at")},
        output=f"model {MODEL}, newest timestamp",
        name="models",
        key_groups=key_groups,
    )
    both = stream.df.select("user", "seen_at", "event", "amount", F.lit(None).cast(MODEL).alias("model"))
    both = both.unionByName(models.select("user", F.col("newest").alias("seen_at"), "model"), allowMissingColumns=True)
    predictions: DataFrame = hf.keyed(both, key="user", value=["event", "amount", "model"], timestamp="seen_at").par_do(
        PredictWithModel(), output=PREDICTION, key_groups=key_groups, requires_time_sorted_input=not events.isStreaming
    )
    return predictions


def as_you_go(events: DataFrame, *, watermark: str = "30 seconds", key_groups: int = 8) -> DataFrame:
    """Predictions by a model in a cell: for each event in order of time, but only those that are worth giving.

    An event meets the model of the events before it, even when many come at once and out of order.
    """
    stream = hf.keyed(events, key="user", value=["event", "amount"], timestamp="seen_at", watermark=watermark)
    predictions: DataFrame = stream.par_do(
        PredictAsYouGo(), output=PREDICTION, key_groups=key_groups, requires_time_sorted_input=True
    )
    return predictions


class Event(NamedTuple):
    """Something a user did, at a time in seconds. The rules do not see whether it was planted."""

    event: int
    user: str
    amount: float
    seen_at: float
    is_planted: bool


def generate(seed: int, users: int, minutes: float, planted: float = 0.005) -> list[Event]:
    """Events in order of time. Each user has a pace, a usual amount and a spread; a share `planted` of all events is
    8 to 16 times the spread away."""
    draw = random.Random(seed)
    rows = []
    for number in range(users):
        pace, usual = draw.uniform(15, 60), draw.uniform(50, 200)
        spread = usual * draw.uniform(0.02, 0.05)
        second = draw.expovariate(1 / pace)
        while second < minutes * 60:
            is_planted = draw.random() < planted
            away = draw.choice((-1, 1)) * draw.uniform(8, 16) if is_planted else draw.gauss(0, 1)
            rows.append((round(BEGIN + second, 3), f"user-{number:04d}", round(usual + away * spread, 2), is_planted))
            second += draw.expovariate(1 / pace)
    rows.sort()
    return [Event(number, user, amount, seen_at, mark) for number, (seen_at, user, amount, mark) in enumerate(rows)]


def write_files(events: list[Event], folder: Path, files: int) -> None:
    """Cuts the events into JSON files, which a stream reads one by one."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(events) // files)
    for number in range(files):
        lines = []
        for event in events[number * size : (number + 1) * size]:
            seen_at = datetime.fromtimestamp(event.seen_at, tz=timezone.utc).isoformat(timespec="microseconds")
            lines.append(json.dumps({**event._asdict(), "seen_at": seen_at}))
        (folder / f"events-{number:04d}.json").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=["side-input", "early", "stateful"], default="stateful")
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    events = generate(options.seed, options.users, minutes=60)
    planted = {event.event for event in events if event.is_planted}
    spark = hf.session("anomalies")
    with tempfile.TemporaryDirectory(prefix="holdfast-anomalies-") as folder:
        write_files(events, Path(folder) / "events", files=6)
        stream = spark.readStream.schema(EVENT).option("maxFilesPerTrigger", 1).json(f"{folder}/events")
        if options.way == "stateful":
            predictions = as_you_go(stream)
        else:
            predictions = with_side_input(stream, trigger=EARLY if options.way == "early" else None)
        sink = hf.sinks.Collect()
        with hf.Job("anomalies", checkpoint=f"{folder}/checkpoint", trigger="available now") as job:
            job.write(predictions, sink)
            job.run()
    print(f"{len(events):,} events of {options.users} users, {len(planted)} anomalies planted")
    print(f"{len(sink.rows):,} predictions; those that are anomalies:")
    found = sorted((row for row in sink.rows if is_anomaly(row.score)), key=lambda row: row.event)
    for row in found:
        what = f"expected {row.expected:.2f}, {row.score:+.1f} deviations away, learnt from {row.learnt_from} events"
        print(f"  {row.user}  event {row.event}  {what}  {'planted' if row.event in planted else 'not planted'}")
    print(f"found {len({row.event for row in found} & planted)} of {len(planted)}")


if __name__ == "__main__":
    main()

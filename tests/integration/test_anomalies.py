"""The example of anomalies on Spark: both ways against plain Python that goes through the same micro-batches."""

from __future__ import annotations

import datetime
import math
import random
import statistics
import sys
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from anomalies import EVENT, as_you_go, with_side_input

UTC = datetime.timezone.utc
START = 1_700_000_040  # a full minute
WINDOW = 60
LEARNT = 8


def batches():
    """(event, user, amount, second) of some micro-batches. Ann does something unusual in the third and the fifth."""
    draw = random.Random(11)
    plan = [
        [("ann", range(0, 40, 4)), ("bob", range(1, 50, 10))],
        [("ann", range(62, 74, 4)), ("bob", range(52, 60, 2))],
        [("ann", range(75, 99, 4)), ("bob", range(80, 84, 2))],
        [("bob", range(130, 134, 2))],
        [("ann", range(140, 150, 2)), ("bob", range(141, 146, 2))],
        [("ann", range(150, 160, 2)), ("bob", range(151, 154, 2))],
    ]
    unusual = {("ann", 83): 150.0, ("ann", 144): 20.0}
    made, number = [], 0
    for batch in plan:
        rows = []
        for user, seconds in batch:
            for second in seconds:
                rows.append((number, user, unusual.get((user, second), round(draw.gauss(80, 3), 2)), second))
                number += 1
        made.append(rows)
    return made


def row(event, user, amount, second):
    return {"event": event, "user": user, "amount": amount, "seen_at": at(second)}


def at(second):
    return datetime.datetime.fromtimestamp(START + second, tz=UTC)


def say(amounts, until, event, user, amount, second):
    """A prediction by the standard library."""
    mean, spread = statistics.fmean(amounts), statistics.stdev(amounts)
    score = (amount - mean) / (spread * math.sqrt(1 + 1 / len(amounts)))
    return event, user, at(second), mean, score, len(amounts), at(until)


def side_input_by_hand(micro_batches, early=None):
    """First the events of a micro-batch, then the models that its elements or the watermark of those before make."""
    windows, new, held, waiting, said = {}, {}, {}, {}, []
    watermark = 0
    for rows in micro_batches:
        for event in rows:
            _, user, amount, second = event
            window = (user, second // WINDOW)
            windows.setdefault(window, []).append((amount, second))
            new[window] = new.get(window, 0) + 1
            if user in held:
                said.append(say(*held[user], *event))
            else:
                waiting.setdefault(user, []).append(event)
        for window in sorted(windows):
            user, number = window
            is_over = (number + 1) * WINDOW <= watermark
            if is_over or (early is not None and new[window] >= early):
                content = windows[window]
                new[window] = 0
                if is_over:
                    del windows[window]
                if len(content) >= LEARNT:
                    held[user] = [amount for amount, _ in content], max(second for _, second in content)
                    said += [say(*held[user], *event) for event in waiting.pop(user, [])]
        watermark = max(watermark, *(second for *_, second in rows))
    return said


def as_you_go_by_hand(micro_batches):
    seen, last, said = {}, {}, []
    for event in (event for rows in micro_batches for event in rows):
        _, user, amount, second = event
        before = seen.setdefault(user, [])
        if len(before) >= LEARNT:
            prediction = say([amount for amount, _ in before], before[-1][1], *event)
            score, told = prediction[4], last.get(user)
            if told is None or abs(score - told) >= 3 or (abs(score) >= 5) != (abs(told) >= 5):
                last[user] = score
                said.append(prediction)
        before.append((amount, second))
    return said


def check(rows, wanted):
    got: list[tuple[Any, ...]] = sorted(
        (r.event, r.user, r.seen_at, r.expected, r.score, r.learnt_from, r.known_until) for r in rows
    )
    got = [tuple(v.astimezone(UTC) if isinstance(v, datetime.datetime) else v for v in values) for values in got]
    wanted = sorted(wanted)
    exact = [0, 1, 2, 5, 6]
    assert [[values[i] for i in exact] for values in got] == [[values[i] for i in exact] for values in wanted]
    for place in (3, 4):
        assert [values[place] for values in got] == pytest.approx([values[place] for values in wanted], rel=1e-9)


def feed_all(source):
    for rows in batches():
        source.add(*(row(*event) for event in rows))
    return source.df


@pytest.mark.night
@pytest.mark.parametrize("early", [pytest.param(None, marks=pytest.mark.night), 6])
def test_side_input(feed, run_job, early):
    trigger = None if early is None else hf.AfterWatermark(early=hf.Repeatedly(hf.AfterCount(early)))
    df = feed_all(feed(EVENT))
    predictions = with_side_input(
        df, windowing=hf.FixedWindows(WINDOW), trigger=trigger, watermark="0 seconds", key_groups=2
    )
    [rows] = run_job(predictions)
    wanted = side_input_by_hand(batches(), early)
    check(rows, wanted)
    assert [event for event, *_, score, _, _ in sorted(wanted) if abs(score) >= 5] != []


@pytest.mark.night
def test_as_you_go(feed, run_job):
    [rows] = run_job(as_you_go(feed_all(feed(EVENT)), watermark="0 seconds", key_groups=2))
    wanted = as_you_go_by_hand(batches())
    check(rows, wanted)
    assert len(wanted) < len([event for rows in batches() for event in rows]) / 3


def test_a_batch(spark):
    """All at once, and out of order: by their times, a model is there for the events after its newest one."""
    events = [event for rows in batches() for event in rows]
    shuffled = random.Random(1).sample(events, len(events))
    df = spark.createDataFrame([tuple(row(*event).values()) for event in shuffled], EVENT)
    by_time = sorted(events, key=lambda event: event[3])
    check(as_you_go(df, key_groups=2).collect(), as_you_go_by_hand([by_time]))

    wanted, held, waiting, content = [], {}, {}, {}
    for event in by_time:
        content.setdefault((event[1], event[3] // WINDOW), []).append(event)
    for event in by_time:
        _, user, _, second = event
        if user in held:
            wanted.append(say(*held[user], *event))
        else:
            waiting.setdefault(user, []).append(event)
        whole = content[user, second // WINDOW]
        if event is whole[-1] and len(whole) >= LEARNT:
            held[user] = [amount for _, _, amount, _ in whole], second
            wanted += [say(*held[user], *waited) for waited in waiting.pop(user, [])]
    check(with_side_input(df, windowing=hf.FixedWindows(WINDOW), key_groups=2).collect(), wanted)

"""How soon, how fresh and how much: anomalies by a model as side input beside a model in state.

The functions are those of examples/anomalies.py. One stream of events, with anomalies planted in it, is cut into
micro-batches and goes through the engine in memory, without Spark, in these ways:

* side input, at the window's end: a model for each user and window, when the watermark has passed its end
* side input, early: the same with a trigger that gives a model of the events so far, some seconds after the first new one
* side input, early, global: the same without windows, so that a model has all events of the user, as the stateful one has
* stateful: the model in a cell of the function that predicts

Models of a micro-batch are there for the next one, as a side input's would be at best. Nothing is timed: the figures are
counts, and the same seed gives the same figures.

    python benchmarks/latency_vs_outputs.py [--users 300] [--minutes 90] [--json FILE] [--plot FILE]
"""

from __future__ import annotations

import argparse
import bisect
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from _report import print_table, save_json, save_plot

import holdfast as hf
from holdfast.model.functions.grouping import build
from holdfast.model.functions.options import StepOptions
from holdfast.testing.memory_runtime import MemoryRuntime
from holdfast.testing.stream import AddElements, AdvanceProcessingTime, AdvanceWatermark

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

from anomalies import BEGIN, Event, Model, ModelFn, PredictAsYouGo, Prediction, PredictWithModel, generate, is_anomaly


class Row(NamedTuple):
    """An event or a model, as the functions get them."""

    event: int | None = None
    amount: float | None = None
    seen_at: float | None = None
    model: Model | None = None


class Given(NamedTuple):
    """A prediction and the micro-batch in which it came out."""

    prediction: Prediction
    batch: int


@dataclass
class Outcome:
    """What came out of one way."""

    predictions: list[Given]
    models: int


class Runtime:
    """One step in memory; a call gives what came out of it."""

    def __init__(self, fn: Any, **options: Any) -> None:
        self._runtime = MemoryRuntime(lambda: build(fn, StepOptions(outputs=None, **options)), StepOptions())

    def __call__(self, event: Any) -> list[Any]:
        before = len(self._runtime.outputs)
        self._runtime.play(event)
        return [output.value for output in self._runtime.outputs[before:]]


def elements(events: Sequence[Event]) -> AddElements:
    pairs = [((e.user, Row(e.event, e.amount, e.seen_at)), hf.Timestamp.of(e.seen_at)) for e in events]
    return AddElements(tuple(pairs))


def cut(events: list[Event], seconds: int) -> list[list[Event]]:
    """The events of each micro-batch."""
    batches: list[list[Event]] = [[] for _ in range(int((events[-1].seen_at - BEGIN) // seconds) + 1)]
    for event in events:
        batches[int((event.seen_at - BEGIN) // seconds)].append(event)
    return batches


def side_input(
    batches: list[list[Event]], seconds: int, windowing: hf.WindowFn, trigger: hf.Trigger | None = None
) -> Outcome:
    """Both steps of the side input, with micro-batches of so many seconds."""
    mode = None if trigger is None else "accumulating"
    combine = hf.CombinePerKey({"model": ModelFn("amount"), "newest": hf.Max("seen_at")})
    build_models = Runtime(combine, windowing=windowing, trigger=trigger, accumulation_mode=mode)
    predict = Runtime(PredictWithModel())
    outcome = Outcome([], 0)
    ready: list[Any] = []
    for number, events in enumerate(batches):
        models = tuple(((user, Row(model=got["model"])), hf.Timestamp.of(got["newest"])) for user, got in ready)
        found = [*predict(AddElements(models)), *predict(elements(events))]
        outcome.predictions += [Given(prediction, number) for prediction in found]
        end = BEGIN + (number + 1) * seconds
        ready = [
            *build_models(elements(events)),
            *build_models(AdvanceProcessingTime(hf.Duration.of(seconds))),
            *build_models(AdvanceWatermark(hf.Timestamp.of(end))),
        ]
        outcome.models += len(ready)
    return outcome


def stateful(batches: list[list[Event]]) -> Outcome:
    predict = Runtime(PredictAsYouGo())
    given = [Given(prediction, number) for number, events in enumerate(batches) for prediction in predict(elements(events))]
    return Outcome(given, 0)


@dataclass(frozen=True)
class Figures:
    """What is reported of one way. Pairs are the median and the 90th percentile."""

    way: str
    events_to_first: tuple[float, float]
    stale_events: tuple[float, float]
    stale_seconds: tuple[float, float]
    models: int
    predictions: int
    recall: float
    recall_at_once: float
    precision: float


def figures(way: str, outcome: Outcome, events: list[Event], batches: list[list[Event]], seconds: int) -> Figures:
    times: dict[str, list[float]] = {}
    for event in events:
        times.setdefault(event.user, []).append(event.seen_at)
    batch_of = {event.event: number for number, batch in enumerate(batches) for event in batch}
    planted = {event.event for event in events if event.is_planted}
    first: dict[str, int] = {}
    stale = list(_staleness(outcome.predictions, times))
    for prediction, batch in outcome.predictions:
        if prediction.user not in first:
            # If it had to wait, all that came before its micro-batch; else the events up to its own.
            is_late = batch != batch_of[prediction.event]
            at = BEGIN + batch * seconds if is_late else float(prediction.seen_at)
            first[prediction.user] = bisect.bisect_right(times[prediction.user], at)
    found = {p.event: batch for p, batch in outcome.predictions if is_anomaly(p.score)}
    hits = planted & found.keys()
    return Figures(
        way=way,
        events_to_first=median_and_p90([*first.values()]),
        stale_events=median_and_p90([number for number, _ in stale]),
        stale_seconds=median_and_p90([seconds for _, seconds in stale]),
        models=outcome.models,
        predictions=len(outcome.predictions),
        recall=len(hits) / len(planted),
        recall_at_once=sum(found[event] == batch_of[event] for event in hits) / len(planted),
        precision=len(hits) / len(found) if found else 0.0,
    )


def _staleness(predictions: list[Given], times: dict[str, list[float]]) -> Iterator[tuple[int, float]]:
    """Of each prediction, how far the model was behind: how many events of the user before this one it did not know, and
    how much newer the last of these is than the newest it knew. Nothing for an event that waited for its model."""
    for prediction, _ in predictions:
        of_user = times[prediction.user]
        place = bisect.bisect_left(of_user, float(prediction.seen_at))
        known = bisect.bisect_right(of_user, float(prediction.known_until))
        missed = max(place - known, 0)
        yield missed, of_user[place - 1] - of_user[known - 1] if missed else 0.0


def median_and_p90(values: list[Any]) -> tuple[float, float]:
    if len(values) < 2:
        return (float(values[0]),) * 2 if values else (float("nan"),) * 2
    return float(statistics.median(values)), float(statistics.quantiles(values, n=10, method="inclusive")[8])


def show(results: list[Figures]) -> None:
    columns = ["", "events to first", "stale, events", "stale, s", "models", "predictions", "recall", "at once", "precision"]
    rows = []
    for result in results:
        pairs = (result.events_to_first, result.stale_events, result.stale_seconds)
        counts = [f"{result.models:,}", f"{result.predictions:,}"]
        shares = [f"{share:.3f}" for share in (result.recall, result.recall_at_once, result.precision)]
        rows.append([result.way, *(f"{a:,.0f} ({b:,.0f})" for a, b in pairs), *counts, *shares])
    print_table(columns, rows)


def draw(results: list[Figures], pyplot: Any) -> Any:
    """Staleness against rows that leave a step, a point for each way."""
    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for result in results:
        axes.scatter(result.stale_events[1], result.models + result.predictions, s=70, label=result.way)
    axes.set_xlabel("staleness of the model, events of the user, 90th percentile")
    axes.set_ylabel("rows out: models and predictions")
    axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--minutes", type=int, default=90)
    parser.add_argument("--batch", type=int, default=10, help="seconds of a micro-batch")
    parser.add_argument("--window", type=int, default=900, help="seconds")
    parser.add_argument("--delay", type=int, default=30, help="seconds from a user's first new event to an early model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("artifacts/latency_vs_outputs.json"))
    parser.add_argument("--plot", type=Path, default=Path("artifacts/latency_vs_outputs.png"))
    options = parser.parse_args()
    events = generate(options.seed, options.users, options.minutes)
    batches = cut(events, options.batch)
    planted = sum(event.is_planted for event in events)
    print(f"{len(events):,} events of {options.users} users, {planted} anomalies planted, seed {options.seed}; ", end="")
    print(f"micro-batches of {options.batch} s, windows of {options.window} s, early models after {options.delay} s\n")
    windows = hf.FixedWindows(options.window)
    early = hf.Repeatedly(hf.AfterProcessingTime(options.delay))
    outcomes = {
        "side input, at the window's end": side_input(batches, options.batch, windows),
        "side input, early": side_input(batches, options.batch, windows, hf.AfterWatermark(early=early)),
        "side input, early, global": side_input(batches, options.batch, hf.GlobalWindows(), early),
        "stateful": stateful(batches),
    }
    results = [figures(way, outcome, events, batches, options.batch) for way, outcome in outcomes.items()]
    show(results)
    print("\nmedian (90th percentile); at once: recall in the micro-batch of the event itself")
    settings = {name: getattr(options, name) for name in ("users", "minutes", "batch", "window", "delay", "seed")}
    save_json(options.json, {"events": len(events), "planted": planted, **settings, "ways": [asdict(r) for r in results]})
    save_plot(options.plot, lambda pyplot: draw(results, pyplot))


if __name__ == "__main__":
    main()

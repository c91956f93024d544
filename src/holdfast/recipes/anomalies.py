"""Anomalies: a model for each key that learns as it goes, and says something only when there is something new to say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import holdfast as hf
from holdfast.recipes.arguments import Recipe, Span
from holdfast.recipes.models import Moments, OnlineModel
from holdfast.recipes.rows import number_in, read

__all__ = ["Anomalies"]


class Anomalies(Recipe):
    """Scores each value by a model of the values before it, and gives (key, time, score, is anomaly) when that changes.

    A value is an anomaly if its score is at least `threshold`. What comes out is the first verdict, each verdict that
    differs from the last one given, and with `change` each score that differs by as much from the last one given. The model
    then learns from the value; with `learns_anomalies=False` only if it is none, so that they stay unusual.

    `model` is `Moments()` unless you give another: `MovingMoments`, a `RiverModel`, or your own `OnlineModel`. The first two
    take the number in the field `field`, or the value itself; with `whole=True` a model is given the value as it is.

    Keeps for each key and window: the time of the last value, the state of the model, and the last verdict given.

    Frees it: when the watermark is `forget_after` beyond the last value.

    Order: by event time, so the step needs `requires_time_sorted_input=True`. Late values go to the output `late`.
    """

    needs_time_sorted_input = True

    MODEL = hf.ValueStateSpec(
        "model",
        hf.TupleCoder([hf.TimestampCoder(), hf.PlainCoder()]),
        doc="The last value's time, and what the model has learnt.",
    )
    GIVEN = hf.ValueStateSpec(
        "given",
        hf.TupleCoder([hf.FloatCoder(), hf.BooleanCoder()]),
        doc="The last score given, and whether it was an anomaly.",
    )
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def __init__(
        self,
        threshold: float = 4.0,
        *,
        field: str | None = None,
        whole: bool = False,
        model: OnlineModel[Any] | None = None,
        change: float | None = None,
        learns_anomalies: bool = True,
        forget_after: Span = "30 days",
    ) -> None:
        super().__init__()
        check = self._arguments
        self._threshold = check.number("threshold", threshold, above=0.0)
        self._field = check.optional_field("field", field)
        self._whole = check.choice("whole", whole, (False, True))
        self._model: OnlineModel[Any] = Moments() if model is None else model
        missing = [name for name in ("name", "create", "score", "learn") if not hasattr(self._model, name)]
        if missing:
            check.problems.append(f"model is {model!r}, which is no OnlineModel: it has no {' and no '.join(missing)}.")
        self._change = None if change is None else check.number("change", change, above=0.0)
        self._learns_anomalies = check.choice("learns_anomalies", learns_anomalies, (False, True))
        self._forget_after = check.span("forget_after", forget_after)

    def state_parameters(self) -> dict[str, object]:
        return {"model": getattr(self._model, "name", "none")}

    def process(
        self,
        element: tuple[object, object],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        model: hf.ValueState[tuple[hf.Timestamp, object]] = hf.DoFn.StateParam(MODEL),
        given: hf.ValueState[tuple[float, bool]] = hf.DoFn.StateParam(GIVEN),
        quiet: hf.Timer = hf.DoFn.TimerParam(QUIET),
    ) -> Iterator[tuple[object, hf.Timestamp, float, bool]]:
        key, element_value = element
        value = read(element_value, self._field) if self._whole else number_in(element_value, self._field)
        held = model.read()
        if held is not None and at >= held[0] + self._forget_after:
            held = None
            given.clear()
        known = self._model.create() if held is None else held[1]
        score = self._model.score(known, value)
        is_anomaly = score is not None and score >= self._threshold
        if score is not None and self._is_new(given.read(), score, is_anomaly):
            given.write((score, is_anomaly))
            yield key, at, score, is_anomaly
        model.write((at, self._model.learn(known, value) if self._learns_anomalies or not is_anomaly else known))
        quiet.set(at + self._forget_after)

    @hf.on_timer(QUIET)
    def on_quiet(
        self,
        model: hf.ValueState[tuple[hf.Timestamp, object]] = hf.DoFn.StateParam(MODEL),
        given: hf.ValueState[tuple[float, bool]] = hf.DoFn.StateParam(GIVEN),
    ) -> None:
        model.clear()
        given.clear()

    def _is_new(self, last: tuple[float, bool] | None, score: float, is_anomaly: bool) -> bool:
        if last is None or last[1] != is_anomaly:
            return True
        return self._change is not None and abs(score - last[0]) >= self._change

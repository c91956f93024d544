"""Beam's post on stateful processing: an index for each element, and anomaly detection in three ways.

What differs from the post's Python snippets:
- the import lines name holdfast, and each snippet's `CombiningStateSpec` or `CombiningValueStateSpec` is either name here;
- the post leaves `Model`, its coders, the merging and `should_output_prediction` open: they are written here;
- there is no pipeline with `|`: a step is run over elements, and `events | beam.core.CombinePerKey(…)` is a `SideStream`;
- in the global window, which never ends, a side input says how long an event may wait for it (`wait`);
- triggers that fire again and again say so (`Repeatedly`), and how results relate (`accumulation_mode`);
- the bag with the previous prediction is read as a list: an empty bag is not None;
- an empty model predicts nothing, so a user's first event gives no prediction.

    python examples/texts/beam_post.py

    index: ('a', 0) ('b', 1) ('c', 0)
    with a side input: ('ann', 2.75) ('ann', 2.75) ('ann', 6.25) ('ann', 0.75)
    with the model so far: ('ann', 0.0) ('ann', 0.0) ('ann', 9.0) ('ann', 1.0)
    stateful: ('ann', 0.0) ('ann', 9.0) ('ann', 1.0)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import holdfast as beam
from holdfast import trigger
from holdfast.coders import Coder, FloatCoder, RecordCoder
from holdfast.state import BagStateSpec, CombiningStateSpec, CombiningValueStateSpec
from holdfast.testing import SideStream, TestStream, run
from holdfast.transforms.core import DoFn
from holdfast.transforms.window import FixedWindows, GlobalWindows


class IndexAssigningStatefulDoFn(DoFn):
    INDEX_STATE = CombiningStateSpec("index", sum)

    def process(self, element, index=DoFn.StateParam(INDEX_STATE)):
        unused_key, value = element  # noqa: RUF059
        current_index = index.read()
        yield (value, current_index)
        index.add(1)


class Model(NamedTuple):
    """How much a user does: the mean of the events so far. The prediction is how far an event is from it."""

    events: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float:
        return self.total / self.events

    def update(self, event: float) -> Model:
        return Model(self.events + 1, self.total + event)

    def prediction(self, event: float) -> float | None:
        return abs(event - self.mean) if self.events else None


def ModelCoder() -> Coder:
    return RecordCoder(Model)


def PredictionCoder() -> Coder:
    return FloatCoder()


class ModelFromEventsFn(beam.core.CombineFn):
    def create_accumulator(self):
        # Create a new empty model
        return Model()

    def add_input(self, model, input):
        return model.update(input)

    def merge_accumulators(self, accumulators: Iterable[Model]) -> Model:
        models = list(accumulators)
        return Model(sum(model.events for model in models), sum(model.total for model in models))

    def extract_output(self, model):
        return model

    def get_accumulator_coder(self) -> Coder:
        # Beam would pickle the accumulator.
        return ModelCoder()


def event_prediction(user_event, models):
    user = user_event[0]
    event = user_event[1]

    # Retrieve the model calculated for this user
    model = models[user]

    return (user, model.prediction(event))


class ModelStatefulFn(beam.DoFn):
    PREVIOUS_PREDICTION = BagStateSpec("previous_pred_state", PredictionCoder())
    MODEL_STATE = CombiningValueStateSpec("model_state", ModelCoder(), ModelFromEventsFn())

    def process(
        self,
        user_event,
        previous_pred_state=beam.DoFn.StateParam(PREVIOUS_PREDICTION),
        model_state=beam.DoFn.StateParam(MODEL_STATE),
    ):
        user = user_event[0]
        event = user_event[1]
        model = model_state.read()
        previous_prediction = next(iter(previous_pred_state.read()), None)

        new_prediction = model.prediction(event)
        model_state.add(event)

        if new_prediction is not None and (
            previous_prediction is None or self.should_output_prediction(previous_prediction, new_prediction)
        ):
            previous_pred_state.clear()
            previous_pred_state.add(new_prediction)
            yield (user, new_prediction)

    def should_output_prediction(self, previous: float, new: float) -> bool:
        return abs(new - previous) >= 3


EVENTS = [("ann", 10.0), ("ann", 10.0), ("ann", 19.0), ("ann", 12.0)]


def events_at_a_second_each() -> TestStream:
    stream = TestStream()
    for second, event in enumerate(EVENTS):
        stream.add_elements([beam.TimestampedValue(event, second)]).advance_processing_time(1)
    return stream.advance_watermark_to_infinity()


def with_side_input() -> list[Any]:
    """High latency, high completeness: events wait until their window is over, and its model is there."""
    minutes = FixedWindows(60)
    models = SideStream(minutes, results_of=beam.core.CombinePerKey(ModelFromEventsFn()), coder=ModelCoder())
    user_models = beam.pvalue.AsDict(models)
    predictions = beam.Map(event_prediction, user_models)
    return run(predictions, events_at_a_second_each(), windowing=minutes).values


def with_the_model_so_far() -> list[Any]:
    """A new model a second after input arrives. An event waits for the first one; then it sees the newest."""
    user_models = beam.pvalue.AsDict(
        SideStream(
            GlobalWindows(),
            results_of=beam.core.CombinePerKey(ModelFromEventsFn()),
            trigger=trigger.Repeatedly(trigger.AfterAll(trigger.AfterCount(1), trigger.AfterProcessingTime(1))),
            accumulation_mode="accumulating",
            coder=ModelCoder(),
        ),
        wait="1 minute",
    )
    return run(beam.Map(event_prediction, user_models), events_at_a_second_each()).values


def main() -> None:
    elements = [("ann", "a"), ("ann", "b"), ("bob", "c")]
    print("index:", *run(IndexAssigningStatefulDoFn(), TestStream().add_elements(elements)).values)
    print("with a side input:", *with_side_input())
    print("with the model so far:", *with_the_model_so_far())
    print("stateful:", *run(ModelStatefulFn(), TestStream().add_elements(EVENTS)).values)


if __name__ == "__main__":
    main()

"""Beam's post on stateful processing: the index, the model as an aggregation and as a side input, and the model in state."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast as hf
from holdfast.testing import SideStream, TestStream, run

from .snippets import run_snippet

INDEX = """
class IndexAssigningStatefulDoFn(DoFn):
  INDEX_STATE = CombiningStateSpec('index', sum)

  def process(self, element, index=DoFn.StateParam(INDEX_STATE)):
    unused_key, value = element
    current_index = index.read()
    yield (value, current_index)
    index.add(1)
"""

MODEL_FN = """
class ModelFromEventsFn(apache_beam.core.CombineFn):

  def create_accumulator(self):
    # Create a new empty model
    return Model()

  def add_input(self, model, input):
    return model.update(input)

  def merge_accumulators(self, accumulators):
    # Custom merging logic

  def extract_output(self, model):
    return model
"""

PREDICTION = """
def event_prediction(user_event, models):
  user = user_event[0]
  event = user_event[1]

  # Retrieve the model calculated for this user
  model = models[user]

  return (user, model.prediction(event))
"""

STATEFUL = """
class ModelStatefulFn(beam.DoFn):

  PREVIOUS_PREDICTION = BagStateSpec('previous_pred_state', PredictionCoder())
  MODEL_STATE = CombiningValueStateSpec('model_state',
                                        ModelCoder(),
                                        ModelFromEventsFn())

  def process(self,
              user_event,
              previous_pred_state=beam.DoFn.StateParam(PREVIOUS_PREDICTION),
              model_state=beam.DoFn.StateParam(MODEL_STATE)):
    user = user_event[0]
    event = user_event[1]
    model = model_state.read()
    previous_prediction = previous_pred_state.read()

    new_prediction = model.prediction(event)
    model_state.add(event)

    if (previous_prediction is None
        or self.should_output_prediction(
            previous_prediction, new_prediction)):
      previous_pred_state.clear()
      previous_pred_state.add(new_prediction)
      yield (user, new_prediction)
"""

MERGING = {"# Custom merging logic": "return Model.merged(accumulators)"}
"""The post leaves it open, and without a statement it is no Python."""


class Model:
    """How many events there were, and their sum. A class as users write them: it is changed in place."""

    def __init__(self, events=0, total=0.0):
        self.events, self.total = events, total

    def update(self, amount):
        self.events += 1
        self.total += amount
        return self

    def prediction(self, amount):
        """How far an amount is from the mean."""
        return amount - self.total / self.events if self.events else 0.0

    @staticmethod
    def merged(models):
        models = list(models)
        return Model(sum(model.events for model in models), sum(model.total for model in models))


class ModelCoder(hf.Coder):
    def encode(self, value):
        return f"{value.events} {value.total}".encode()

    def decode(self, encoded):
        events, total = encoded.decode().split()
        return Model(int(events), float(total))


@pytest.fixture
def model_fn():
    """Changes: `import holdfast as apache_beam`, and the merging that the post leaves open."""
    return run_snippet(MODEL_FN, MERGING, apache_beam=hf, Model=Model)["ModelFromEventsFn"]


@pytest.fixture
def stored_model_fn(model_fn):
    """The same with a coder for its accumulators, which are of a class of one's own."""

    base: Any = model_fn

    class Stored(base):
        def get_accumulator_coder(self):
            return ModelCoder()

    return Stored


def known(value):
    """A model as a tuple, which can be compared."""
    return value.events, value.total


def test_the_index():
    """Changes: import lines."""
    index = run_snippet(INDEX, {}, DoFn=hf.DoFn, CombiningStateSpec=hf.CombiningStateSpec)["IndexAssigningStatefulDoFn"]
    stream = TestStream().add_elements([("k", "A"), ("k", "B"), ("j", "C")]).crash().add_elements([("k", "D")])
    assert run(index(), stream).values == [("A", 0), ("B", 1), ("C", 0), ("D", 2)]


def events_of_two_windows():
    events = [(("ann", 1.0), 1), (("bob", 5.0), 2), (("ann", 3.0), 3), (("ann", 8.0), 11)]
    stream = TestStream().add_elements([hf.TimestampedValue(*event) for event in events[:2]]).crash()
    stream.add_elements([hf.TimestampedValue(*event) for event in events[2:]])
    return stream.advance_watermark_to_infinity()


def test_the_model_of_each_user(stored_model_fn):
    """Changes: `import holdfast as apache_beam`; a coder for models; the merging, written out."""
    fn = hf.core.CombinePerKey(stored_model_fn())
    out = run(fn, events_of_two_windows(), windowing=hf.FixedWindows(10))
    assert sorted((user, *known(model)) for user, model in out.values) == [("ann", 1, 8.0), ("ann", 2, 4.0), ("bob", 1, 5.0)]


def test_an_accumulator_of_ones_own_class_needs_a_coder(model_fn):
    """Beam would pickle it. Here nothing is pickled unasked, and the error says what to write."""
    with pytest.raises(hf.CoderError, match="Model") as refused:
        run(hf.core.CombinePerKey(model_fn()), events_of_two_windows(), windowing=hf.FixedWindows(10))
    assert "coder" in str(refused.value)


def test_predictions_with_the_models_as_side_input(stored_model_fn):
    """Changes: a script for the pipeline's `|`, and a stream of its results, with the coder of models. Events wait
    until their window has its model."""
    event_prediction = run_snippet(PREDICTION, {})["event_prediction"]
    window = hf.FixedWindows(10)
    models = SideStream(window, results_of=hf.core.CombinePerKey(stored_model_fn()), coder=ModelCoder())
    user_models = hf.pvalue.AsDict(models)
    out = run(hf.Map(event_prediction, user_models), events_of_two_windows(), windowing=window)
    assert sorted(out.values) == [("ann", -1.0), ("ann", 0.0), ("ann", 1.0), ("bob", 0.0)]
    assert out.keys() == []


def test_predictions_with_the_model_so_far(stored_model_fn):
    """Changes: as above, and `Repeatedly`, a mode, and how long an event may wait for the first model, as its window never
    ends. Events see the newest model from then on."""
    event_prediction = run_snippet(PREDICTION, {})["event_prediction"]
    trigger = hf.trigger.Repeatedly(hf.trigger.AfterAll(hf.trigger.AfterCount(1), hf.trigger.AfterProcessingTime(1)))
    models = SideStream(
        hf.GlobalWindows(),
        results_of=hf.core.CombinePerKey(stored_model_fn()),
        trigger=trigger,
        accumulation_mode="accumulating",
        coder=ModelCoder(),
    )
    stream = TestStream().add_elements([("ann", 1.0), ("ann", 3.0)]).crash().advance_processing_time(1)
    stream.add_elements([("ann", 5.0)]).advance_processing_time(1).crash().add_elements([("ann", 4.0)])
    out = run(hf.Map(event_prediction, hf.pvalue.AsDict(models, wait="1 minute")), stream)
    # The models: 2.0 a second after the first events, which have waited for it; 3.0 a second after the third.
    assert out.values == [("ann", -1.0), ("ann", 1.0), ("ann", 3.0), ("ann", 1.0)]


def test_the_model_so_far(stored_model_fn):
    """Changes: `Repeatedly`, and a mode. Beam too refuses the post's trigger by now: it fires once and loses the rest."""
    fn = hf.core.CombinePerKey(stored_model_fn())
    once = hf.trigger.AfterAll(hf.trigger.AfterCount(1), hf.trigger.AfterProcessingTime(1))
    stream = TestStream().add_elements([("ann", 1.0)]).add_elements([("ann", 3.0)]).advance_processing_time(1)
    stream.crash().add_elements([("ann", 5.0)]).advance_processing_time(1)
    with pytest.raises(hf.InvalidStep, match="Repeatedly"):
        run(fn, stream, windowing=hf.GlobalWindows(), trigger=once)
    again = hf.trigger.Repeatedly(once)
    out = run(fn, stream, windowing=hf.GlobalWindows(), trigger=again, accumulation_mode="accumulating")
    assert [known(model) for _, model in out.values] == [(2, 4.0), (3, 9.0)]


def test_the_model_in_state(model_fn):
    """Changes: import lines. A bag is never None, in Beam too, so the comparison, which the post leaves open, gets it."""
    names = {
        "beam": hf,
        "BagStateSpec": hf.BagStateSpec,
        "CombiningValueStateSpec": hf.CombiningValueStateSpec,
        "PredictionCoder": hf.FloatCoder,
        "ModelCoder": ModelCoder,
        "ModelFromEventsFn": model_fn,
    }
    fn: Any = run_snippet(STATEFUL, {}, **names)["ModelStatefulFn"]

    class Speaking(fn):
        def should_output_prediction(self, previous, prediction):
            return all(abs(prediction - last) > 2 for last in previous)

    stream = TestStream().add_elements([("ann", 4.0), ("ann", 5.0), ("bob", 1.0)]).crash()
    stream.add_elements([("ann", 9.0), ("ann", 10.0), ("ann", 6.0)])
    out = run(Speaking(), stream)
    # The models before each event: none, 4, none, 4.5, 6, 7; the predictions: 0, 1, 0, 4.5, 4, -1.
    assert out.values == [("ann", 0.0), ("bob", 0.0), ("ann", 4.5), ("ann", -1.0)]
    assert out.state("ann")["previous_pred_state"] == [-1.0]

"""The example of anomalies: its model against the standard library, and its functions in memory."""

from __future__ import annotations

import math
import random
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import holdfast as hf
from holdfast.testing import TestStream, run

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from anomalies import LEARNT, Model, ModelFn, PredictAsYouGo, PredictWithModel, generate, should_output


class Row(NamedTuple):
    event: int | None = None
    amount: float | None = None
    model: Model | None = None


def amounts(seed, number, usual=100.0, spread=3.0):
    draw = random.Random(seed)
    return [draw.gauss(usual, spread) for _ in range(number)]


def same(model, other):
    assert model.events == other.events
    assert model.mean == pytest.approx(other.mean, rel=1e-12)
    assert model.squares == pytest.approx(other.squares, rel=1e-9)


class TestModel:
    @pytest.mark.parametrize(("usual", "spread"), [(100.0, 3.0), (0.0, 1.0), (1e9, 0.1)])
    def test_mean_and_spread(self, usual, spread):
        """A billion with a tenth around it: a difference of large sums would have lost it."""
        values = amounts(1, 500, usual, spread)
        model = ModelFn().apply(values)
        assert model.events == 500
        assert model.mean == pytest.approx(statistics.fmean(values), rel=1e-12, abs=1e-12)
        assert math.sqrt(model.squares / 499) == pytest.approx(statistics.stdev(values), rel=1e-6)

    @pytest.mark.parametrize("cuts", [[], [0], [1], [250], [3, 3, 40, 499], [500]])
    def test_merging_is_adding(self, cuts):
        values = amounts(2, 500)
        fn = ModelFn()
        ends = zip([0, *cuts], [*cuts, 500], strict=True)
        parts = [fn.add_inputs(fn.create_accumulator(), values[start:end]) for start, end in ends]
        same(fn.merge_accumulators(parts), fn.apply(values))
        same(fn.merge_accumulators(reversed(parts)), fn.apply(values))

    def test_nothing_is_no_model(self):
        fn = ModelFn()
        assert fn.merge_accumulators([]) == fn.merge_accumulators([Model(), Model()]) == Model()
        assert not Model().is_ready

    def test_a_field(self):
        assert ModelFn("amount").apply([Row(amount=2.0), Row(amount=4.0)]) == Model(2, 3.0, 2.0)

    def test_one_who_always_does_the_same(self):
        model = ModelFn().apply([7.0] * LEARNT)
        assert model.score(7.0) == 0
        assert model.score(8.0) > 50

    def test_a_model_survives_its_coder(self):
        model = ModelFn().apply(amounts(3, 9))
        coder = ModelFn().get_accumulator_coder()
        assert coder.decode(coder.encode(model)) == model


class TestPredictAsYouGo:
    def test_first_change_and_back(self):
        values = [100.0, 101.0] * (LEARNT // 2) + [100.5, 100.4, 130.0, 100.6, 100.5]
        out = self.run_over(values, crash=False)
        assert [prediction.event for prediction in out] == [8, 10, 11]
        assert [prediction.learnt_from for prediction in out] == [8, 10, 11]
        assert [prediction.known_until for prediction in out] == [7, 9, 10]
        assert abs(out[1].score) > 5 > abs(out[2].score)
        assert self.run_over(values, crash=True) == out

    def run_over(self, values, crash):
        stream = TestStream()
        for event, amount in enumerate(values):
            stream.add_elements([hf.TimestampedValue(("ann", Row(event, amount)), event)])
            if crash:
                stream.crash()
        return run(PredictAsYouGo(), stream).values

    def test_should_output(self):
        assert should_output(None, 0.0)
        assert not should_output(0.5, -2.0)
        assert should_output(0.5, -2.6)
        assert should_output(4.9, 5.0)
        assert not should_output(6.0, 8.0)
        assert should_output(-6.0, 6.0)


class TestPredictWithModel:
    def test_events_wait_for_a_model_that_has_learnt_enough(self):
        small, large = Model(LEARNT - 1, 1.0, 1.0), Model(LEARNT, 2.0, 28.0)
        out = self.play((0, Row(0, 2.0)), (1, Row(model=small)), (2, Row(1, 6.0)), (3, Row(model=large)), (4, Row(2, 2.0)))
        assert [(p.event, p.seen_at, p.known_until) for p in out] == [(0, 0, 3), (1, 2, 3), (2, 4, 3)]
        assert [p.score for p in out] == pytest.approx([0, 2 / math.sqrt(1 + 1 / LEARNT), 0])

    def test_the_newest_model_counts_and_no_older_one(self):
        def model(events, mean):
            return Row(model=Model(events, mean, 10.0))

        rows = [(10, model(20, 1.0)), (9, model(30, 2.0)), (10, model(19, 3.0)), (11, Row(0, 1.0))]
        out = self.play(*rows, (10, model(21, 4.0)), (12, Row(1, 1.0)), (13, model(9, 5.0)), (14, Row(2, 1.0)))
        assert [p.expected for p in out] == [1.0, 4.0, 5.0]

    def play(self, *rows):
        stream = TestStream()
        for second, row in rows:
            stream.add_elements([hf.TimestampedValue(("ann", row), second)]).crash()
        return run(PredictWithModel(), stream).values


def test_generated_events():
    events = generate(5, users=40, minutes=30)
    assert events == generate(5, users=40, minutes=30)
    assert [event.event for event in events] == [*range(len(events))]
    assert [event.seen_at for event in events] == sorted(event.seen_at for event in events)
    assert len({event.user for event in events}) == 40
    assert 0 < sum(event.is_planted for event in events) < len(events) / 50

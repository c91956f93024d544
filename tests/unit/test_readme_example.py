"""The first example that anyone reads: its state is bounded, it is right out of order, and its timer never moves back."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.demo.payments import Payment
from holdfast.demo.velocity import Velocity
from holdfast.testing import TestStream, run

sys.path.insert(0, str(Path(__file__).parents[1]))

from documents import ROOT, blocks, name_of

CARD = "card-1"


@pytest.fixture(scope="module")
def velocity() -> type[hf.DoFn]:
    """The class of the README's first example."""
    block = next(block for block in blocks(ROOT / "README.md") if "class Velocity" in block.text)
    names: dict = {}
    exec(compile(block.text, name_of(block.page), "exec"), names)
    return names["Velocity"]


def paying(*times: float) -> list[hf.TimestampedValue]:
    return [hf.TimestampedValue((CARD, 1.0), time) for time in times]


def test_the_state_of_a_busy_card_is_bounded(velocity: type[hf.DoFn]) -> None:
    """One payment a second, for ten minutes; and one every minute, for ten hours."""
    for gap, payments, alerts in ((1, 600, 120), (60, 600, 0)):
        stream = TestStream()
        for number in range(payments):
            at = number * gap
            stream.add_elements(paying(at)).advance_watermark_to(at)
            if number % 150 == 149:
                held = run(velocity(), stream, requires_time_sorted_input=True).state(CARD)
                assert len(held.get("recent", [])) <= 4
        assert len(run(velocity(), stream, requires_time_sorted_input=True).values) == alerts


@pytest.mark.parametrize("last", [75, 71])
def test_a_payment_out_of_order_makes_the_alert(velocity: type[hf.DoFn], last: int) -> None:
    """The watermark is ten seconds behind the newest payment, as the example declares."""
    stream = TestStream().add_elements(paying(0, 20, 40, 80)).advance_watermark_to(70)
    stream.add_elements(paying(last)).advance_watermark_to(80)
    out = run(velocity(), stream, requires_time_sorted_input=True)
    assert [(output.value, output.timestamp) for output in out] == [((CARD, 5.0), 80)]
    assert out.metrics.late == 0


def test_four_payments_make_no_alert(velocity: type[hf.DoFn]) -> None:
    """Nor do five of which the first is more than three minutes before the last."""
    for times in ((0, 20, 40, 80), (0, 20, 40, 80, 181)):
        stream = TestStream().add_elements(paying(*times)).advance_watermark_to_infinity()
        assert run(velocity(), stream, requires_time_sorted_input=True).values == []


def test_a_payment_out_of_order_does_not_move_the_timer_back(velocity: type[hf.DoFn]) -> None:
    stream = TestStream().add_elements(paying(0, 80)).advance_watermark_to(70).add_elements(paying(75))
    stream.advance_watermark_to(80)
    out = run(velocity(), stream, requires_time_sorted_input=True)
    assert [time for _, _, _, time in out.timers(CARD)] == [260]


def test_a_payment_that_is_too_late_does_not_touch_the_timer(velocity: type[hf.DoFn]) -> None:
    stream = TestStream().add_elements(paying(80)).advance_watermark_to(80).add_elements(paying(10))
    out = run(velocity(), stream, requires_time_sorted_input=True)
    assert out.metrics.late == 1
    assert [time for _, _, _, time in out.timers(CARD)] == [260]
    assert [time for time, _ in out.state(CARD)["recent"]] == [80]


def test_the_readme_lets_payments_come_in_order_and_declares_ten_seconds() -> None:
    """What the tests above rely on."""
    block = next(block for block in blocks(ROOT / "README.md") if "hf.keyed(payments" in block.text)
    assert 'watermark="10 seconds"' in block.text
    assert "requires_time_sorted_input=True" in block.text


def test_the_rule_of_the_demo_is_the_same(velocity: type[hf.DoFn]) -> None:
    """Both alert at the same times; the demo's rows have more columns."""
    times = [0, 20, 40, 80, 75, 90, 100, 400, 401, 402, 403, 404, 405]
    row = Payment(0, CARD, 1.0, "Oslo", 0.0, 0.0, "")

    class OverRows(Velocity):
        """Elements wait for their turn in the state, so they must be plain."""

        @functools.wraps(Velocity.process)
        def process(self, element, *rest):
            return Velocity.process(self, (element[0], row), *rest)

    numbered = [hf.TimestampedValue((CARD, number), time) for number, time in enumerate(times)]
    theirs = run(
        OverRows(), TestStream().add_elements(numbered).advance_watermark_to_infinity(), requires_time_sorted_input=True
    )
    stream = TestStream().add_elements(paying(*times)).advance_watermark_to_infinity()
    ours = run(velocity(), stream, requires_time_sorted_input=True)
    assert [output.timestamp for output in theirs] == [output.timestamp for output in ours] == [80, 404]

"""The demo's two rules in plain Python, without Holdfast or Spark: what its job is compared with."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from datetime import datetime

from holdfast.demo.payments import WATERMARK_SECONDS, Payment
from holdfast.demo.travel import DISTANCE_KM_MIN, SPEED_KMH_MAX, distance_km, is_on_earth
from holdfast.demo.velocity import PAYMENTS_MAX, SPAN_SECONDS

__all__ = ["Finding", "by_hand", "seconds_of"]

Finding = tuple[str, str | int, str]
"""Rule, card of an alert or number of a refused payment, time to the second."""


def by_hand(payments: list[Payment]) -> tuple[list[Finding], list[Finding]]:
    """The alerts and the dead letters of both rules, for payments in order of time. The last seconds are left out: the job
    still waits for earlier payments there."""
    end = seconds_of(payments[-1]) - WATERMARK_SECONDS
    settled = [payment for payment in payments if seconds_of(payment) <= end]
    has_amount = [payment for payment in settled if payment.amount is not None and payment.amount > 0]
    has_place = [payment for payment in settled if is_on_earth(payment.lat, payment.lon)]
    alerts = [_finding("velocity", payment, payment.card) for payment in _too_many(has_amount)]
    alerts += [_finding("travel", payment, payment.card) for payment in _too_far(has_place)]
    letters = [
        _finding(rule, payment, payment.payment)
        for rule, taken in (("velocity", has_amount), ("travel", has_place))
        for payment in sorted(set(settled) - set(taken), key=seconds_of)
    ]
    return alerts, letters


def seconds_of(payment: Payment) -> float:
    return datetime.fromisoformat(payment.paid_at).timestamp()


def _too_many(payments: list[Payment]) -> Iterator[Payment]:
    """Payments that are the fifth of a card in three minutes."""
    recent: dict[str, deque[float]] = defaultdict(deque)
    for payment in payments:
        at, times = seconds_of(payment), recent[payment.card]
        times.append(at)
        while times[0] < at - SPAN_SECONDS:
            times.popleft()
        if len(times) == PAYMENTS_MAX:
            yield payment
            times.clear()


def _too_far(payments: list[Payment]) -> Iterator[Payment]:
    """Payments too far from where the card was last."""
    last: dict[str, Payment] = {}
    for payment in payments:
        before = last.get(payment.card)
        if before is not None:
            kilometres = distance_km(*_place(before), *_place(payment))
            hours = max((seconds_of(payment) - seconds_of(before)) / 3600, 1e-6)
            if kilometres > DISTANCE_KM_MIN and kilometres / hours > SPEED_KMH_MAX:
                yield payment
        last[payment.card] = payment


def _place(payment: Payment) -> tuple[float, float]:
    assert payment.lat is not None
    assert payment.lon is not None
    return payment.lat, payment.lon


def _finding(rule: str, payment: Payment, which: str | int) -> Finding:
    return rule, which, payment.paid_at[:19]

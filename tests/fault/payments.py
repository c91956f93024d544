"""Payments for the job between Kafka and PostgreSQL, and what its tables must have, in plain Python."""

from __future__ import annotations

import datetime
import json
import random
from collections import Counter, defaultdict, deque
from typing import Any, NamedTuple

__all__ = ["Payment", "Tables", "expected_tables", "make_payments"]

BEGIN = datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc)
SPAN = datetime.timedelta(seconds=180)
PAYMENTS_MIN = 5
CARDS, BUSY = 1000, 20
POISON = (b"", b"{", b"nonsense", b'{"id": 7}', b'{"id": "x", "card": null, "at": "2024-05-01T00:00:00Z"}', b"\xff\xfe{}")


class Payment(NamedTuple):
    """A record: its key in the topic, and its value."""

    card: str
    value: bytes
    id: str
    """Empty if the record cannot be read."""
    at: datetime.datetime


class Tables(NamedTuple):
    """What is in the tables, each as counted rows."""

    alerts: Counter[tuple[Any, ...]]
    last_alerts: Counter[tuple[Any, ...]]
    letters: Counter[tuple[Any, ...]]


def make_payments(seed: int, count: int) -> list[Payment]:
    """Payments in the order of their times. Some cards pay often; one record in five hundred cannot be read."""
    draw = random.Random(f"payments {seed}")
    at = BEGIN
    made = []
    for number in range(count):
        at += datetime.timedelta(milliseconds=draw.randrange(100, 500))
        card = f"card-{draw.randrange(BUSY if draw.random() < 0.1 else CARDS):03d}"
        if draw.random() < 0.002:
            made.append(Payment(card, draw.choice(POISON), "", at))
            continue
        content = {"id": f"{number}", "card": card, "amount": draw.randrange(10_000) / 100, "at": at.isoformat()}
        made.append(Payment(card, json.dumps(content).encode(), f"{number}", at))
    return made


def expected_tables(payments: list[Payment]) -> Tables:
    """A card's payments are judged in their order, whatever came between them."""
    recent: dict[str, deque[datetime.datetime]] = defaultdict(deque)
    alerts: list[tuple[Any, ...]] = []
    last: dict[str, tuple[Any, ...]] = {}
    letters = []
    for payment in payments:
        if not payment.id:
            letters.append((payment.value,))
            continue
        times = recent[payment.card]
        times.append(payment.at)
        while times[0] < payment.at - SPAN:
            times.popleft()
        if len(times) >= PAYMENTS_MIN:
            row = (payment.card, payment.id, len(times))
            alerts.append(row)
            last[payment.card] = row
    return Tables(Counter(alerts), Counter(last.values()), Counter(letters))

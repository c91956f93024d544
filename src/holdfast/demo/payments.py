"""Generated payments with planted fraud and planted mistakes: the demo's input, and what its rules must find."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

__all__ = ["SCHEMA", "WATERMARK_SECONDS", "Payment", "Planted", "generate", "live_payments", "write_file", "write_files"]

WATERMARK_SECONDS = 30
"""How far out of order payments may arrive."""
SCHEMA = "payment long, card string, amount double, city string, lat double, lon double, paid_at timestamp"

CITIES = {
    "Lisbon": (38.72, -9.14),
    "Oslo": (59.91, 10.75),
    "Athens": (37.98, 23.73),
    "Nairobi": (-1.29, 36.82),
    "Tokyo": (35.68, 139.69),
    "New York": (40.71, -74.01),
    "Lima": (-12.05, -77.04),
    "Perth": (-31.95, 115.86),
}
BEGIN = datetime(2026, 1, 5, 8, tzinfo=timezone.utc).timestamp()


STOLEN_SHARE = 0.15
"""In how many seconds a live card is stolen, for each rule; and how many have a mistake."""


@dataclass(frozen=True)
class Payment:
    payment: int
    card: str
    amount: float | None
    city: str
    lat: float | None
    lon: float | None
    paid_at: str


@dataclass(frozen=True)
class Planted:
    """What the rules must find, by their names."""

    cards: dict[str, frozenset[str]]
    """Cards with planted fraud."""
    malformed: dict[str, frozenset[int]]
    """Payments that a rule must refuse."""


MISTAKES: tuple[tuple[Callable[[Payment], Payment], tuple[str, ...]], ...] = (
    (lambda payment: replace(payment, amount=None), ("velocity",)),
    (lambda payment: replace(payment, amount=-20.0), ("velocity",)),
    (lambda payment: replace(payment, lat=138.72), ("travel",)),
    (lambda payment: replace(payment, lat=None, lon=None), ("travel",)),
    (lambda payment: replace(payment, amount=0.0, lon=-999.0), ("velocity", "travel")),
)
"""What is wrong with malformed payments, and which rules refuse them."""


def generate(seed: int, cards: int, payments: int, hours: int, fraud: int) -> tuple[list[Payment], Planted]:
    """Payments in order of time. Each card pays at home, now and then; a stolen one pays six times within a minute, or
    ten minutes later at the other end of the world. Each mistake is made three times, by other cards."""
    draw = random.Random(seed)
    names = [f"card-{number:05d}" for number in range(cards)]
    home = {name: draw.choice(sorted(CITIES)) for name in names}
    stolen = draw.sample(names, 2 * fraud)
    rows = [
        (draw.uniform(0, hours * 3600), name, round(draw.uniform(3, 90), 2), home[name])
        for name in (draw.choice(names) for _ in range(payments))
    ]
    for name in stolen[:fraud]:
        begin = draw.uniform(600, hours * 3600 - 600)
        rows += [(begin + draw.uniform(0, 60), name, round(draw.uniform(200, 900), 2), home[name]) for _ in range(6)]
    for name in stolen[fraud:]:
        begin = draw.uniform(600, hours * 3600 - 1200)
        amount = round(draw.uniform(200, 900), 2)
        rows += [(begin, name, 12.5, home[name]), (begin + 600, name, amount, _far_from(home[name]))]
    made = [_payment(number, *row) for number, row in enumerate(sorted(rows))]
    honest = [payment.payment for payment in made[: -payments // hours] if payment.card not in stolen]
    malformed = _make_mistakes(made, draw.sample(honest, 3 * len(MISTAKES)))
    return made, Planted({"velocity": frozenset(stolen[:fraud]), "travel": frozenset(stolen[fraud:])}, malformed)


def live_payments(draw: random.Random, first: int, cards: int, now: float) -> list[Payment]:
    """The payments of the second before `now`, numbered from `first`, in order of time: some honest ones, and now and then a
    stolen card or a mistake."""
    drawn = [draw.randrange(cards) for _ in range(draw.randint(20, 60))]
    rows = [(now - draw.random(), f"live-{card:05d}", round(draw.uniform(3, 90), 2), _live_home(card)) for card in drawn]
    stolen = draw.randrange(cards)
    name, home = f"live-{stolen:05d}", _live_home(stolen)
    fate = draw.random()
    if fate < STOLEN_SHARE:
        rows += [(now - draw.random(), name, round(draw.uniform(200, 900), 2), home) for _ in range(6)]
    elif fate < 2 * STOLEN_SHARE:
        rows += [(now - 0.9, name, 12.5, home), (now, name, 640.0, _far_from(home))]
    numbered = enumerate(sorted(rows), first)
    made = [_payment(number, at - BEGIN, card, amount, city) for number, (at, card, amount, city) in numbered]
    if draw.random() < STOLEN_SHARE:
        number = draw.randrange(len(made))
        made[number] = draw.choice(MISTAKES)[0](made[number])
    return made


def _live_home(card: int) -> str:
    return sorted(CITIES)[card % len(CITIES)]


def _far_from(city: str) -> str:
    return max(sorted(CITIES), key=lambda other: abs(CITIES[other][1] - CITIES[city][1]))


def _make_mistakes(made: list[Payment], numbers: list[int]) -> dict[str, frozenset[int]]:
    """Spoils these payments, each in one of the ways; says which a rule must refuse."""
    refused: dict[str, set[int]] = {"velocity": set(), "travel": set()}
    for number, (mistake, rules) in zip(numbers, itertools.cycle(MISTAKES), strict=False):
        made[number] = mistake(made[number])
        for rule in rules:
            refused[rule].add(number)
    return {rule: frozenset(found) for rule, found in refused.items()}


def _payment(number: int, second: float, card: str, amount: float, city: str) -> Payment:
    lat, lon = CITIES[city]
    paid_at = datetime.fromtimestamp(BEGIN + second, tz=timezone.utc)
    return Payment(number, card, amount, city, lat, lon, paid_at.isoformat(timespec="microseconds"))


def write_files(payments: list[Payment], folder: Path, files: int) -> None:
    """Cuts the payments into JSON files, which a stream reads one by one."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(payments) // files)
    for number in range(files):
        write_file(payments[number * size : (number + 1) * size], folder / f"payments-{number:04d}.json")


def write_file(payments: list[Payment], path: Path) -> None:
    """Payments as lines of JSON. A stream that watches the folder sees the file when all of it is there."""
    # Spark does not read files whose names begin with a dot.
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text("".join(json.dumps(asdict(payment)) + "\n" for payment in payments))
    unfinished.rename(path)

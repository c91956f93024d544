"""Generated payments with planted fraud and planted mistakes: the demo's input, and the answer that its rules must find."""

from __future__ import annotations

import itertools
import json
import random
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

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


MISTAKES: tuple[tuple[dict[str, float | None], tuple[str, ...]], ...] = (
    ({"amount": None}, ("velocity",)),
    ({"amount": -20.0}, ("velocity",)),
    ({"lat": 138.72}, ("travel",)),
    ({"lat": None, "lon": None}, ("travel",)),
    ({"amount": 0.0, "lon": -999.0}, ("velocity", "travel")),
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
        abroad = max(sorted(CITIES), key=lambda city: abs(CITIES[city][1] - CITIES[home[name]][1]))
        rows += [(begin, name, 12.5, home[name]), (begin + 600, name, round(draw.uniform(200, 900), 2), abroad)]
    made = [_payment(number, *row) for number, row in enumerate(sorted(rows))]
    honest = [payment.payment for payment in made[: -payments // hours] if payment.card not in stolen]
    malformed = _make_mistakes(made, draw.sample(honest, 3 * len(MISTAKES)))
    return made, Planted({"velocity": frozenset(stolen[:fraud]), "travel": frozenset(stolen[fraud:])}, malformed)


def _make_mistakes(made: list[Payment], numbers: list[int]) -> dict[str, frozenset[int]]:
    """Spoils these payments, each in one of the ways; says which a rule must refuse."""
    refused: dict[str, set[int]] = {"velocity": set(), "travel": set()}
    for number, (mistake, rules) in zip(numbers, itertools.cycle(MISTAKES), strict=False):
        made[number] = replace(made[number], **mistake)
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
        lines = [json.dumps(asdict(payment)) for payment in payments[number * size : (number + 1) * size]]
        (folder / f"payments-{number:04d}.json").write_text("\n".join(lines) + "\n")

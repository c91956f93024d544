"""Generated payments with planted fraud: the demo's input, and the answer that its rules must find."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
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
    amount: float
    city: str
    lat: float
    lon: float
    paid_at: str


@dataclass(frozen=True)
class Planted:
    """The cards with planted fraud, by rule."""

    velocity: frozenset[str]
    travel: frozenset[str]


def generate(seed: int, cards: int, payments: int, hours: int, fraud: int) -> tuple[list[Payment], Planted]:
    """Payments in order of time. Each card pays at home, now and then; a stolen one pays six times within a minute, or
    ten minutes later at the other end of the world."""
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
    return made, Planted(frozenset(stolen[:fraud]), frozenset(stolen[fraud:]))


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

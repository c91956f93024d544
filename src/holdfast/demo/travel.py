"""The impossible-travel rule: alert when a card would have had to travel faster than an aeroplane. A payment from nowhere on
Earth is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator

import holdfast as hf
from holdfast.demo.payments import Payment

__all__ = ["DISTANCE_KM_MIN", "SPEED_KMH_MAX", "ImpossibleTravel", "distance_km", "is_on_earth"]

SPEED_KMH_MAX = 1000.0
DISTANCE_KM_MIN = 500.0
REMEMBERED = 5


def is_on_earth(lat: float | None, lon: float | None) -> bool:
    return lat is not None and lon is not None and abs(lat) <= 90 and abs(lon) <= 180


def distance_km(lat: float, lon: float, other_lat: float, other_lon: float) -> float:
    """Great-circle distance, by the haversine formula."""
    phi, other_phi = math.radians(lat), math.radians(other_lat)
    half_lat, half_lon = (other_phi - phi) / 2, math.radians(other_lon - lon) / 2
    chord = math.sin(half_lat) ** 2 + math.cos(phi) * math.cos(other_phi) * math.sin(half_lon) ** 2
    return 2 * 6371.0 * math.asin(math.sqrt(chord))


class ImpossibleTravel(hf.DoFn):
    """Keeps each card's last five places, and compares a payment with the one before it.

    It needs payments in order of time: requires_time_sorted_input=True.
    """

    PLACES = hf.OrderedListStateSpec("places")

    def process(
        self,
        element: tuple[str, Payment],
        paid_at: hf.Timestamp = hf.DoFn.TimestampParam,
        places: hf.OrderedListState[tuple[float, float, str]] = hf.DoFn.StateParam(PLACES),
    ) -> Iterator[tuple[str, str, hf.Timestamp, str]]:
        card, payment = element
        if payment.lat is None or payment.lon is None or not is_on_earth(payment.lat, payment.lon):
            raise ValueError(f"a position of {payment.lat}, {payment.lon}")
        known = places.read()
        if known:
            before, (lat, lon, city) = known[-1]
            kilometres = distance_km(lat, lon, payment.lat, payment.lon)
            hours = max(float(paid_at - before) / 3600, 1e-6)
            if kilometres > DISTANCE_KM_MIN and kilometres / hours > SPEED_KMH_MAX:
                yield card, "travel", paid_at, f"{city} to {payment.city} in {hours * 60:.0f} minutes"
        places.add((paid_at, (payment.lat, payment.lon, payment.city)))
        if len(known) == REMEMBERED:
            places.clear_range(known[0][0], known[0][0].successor())

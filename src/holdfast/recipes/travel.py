"""Impossible travel: two logins that nobody can have made, because they are too far apart for the time between."""

from __future__ import annotations

import math
from collections.abc import Iterator

import holdfast as hf
from holdfast.recipes.arguments import Recipe, Span
from holdfast.recipes.rows import number_in, plain, read

__all__ = ["ImpossibleTravel", "great_circle_km"]

EARTH_RADIUS_KM = 6371.0088
Login = tuple[hf.Timestamp, float, float, object]


def great_circle_km(lat: float, lon: float, other_lat: float, other_lon: float) -> float:
    """The shortest way along the globe between two places in degrees, by the haversine formula."""
    half_lat, half_lon = math.radians(other_lat - lat) / 2, math.radians(other_lon - lon) / 2
    across = math.cos(math.radians(lat)) * math.cos(math.radians(other_lat))
    chord = math.sin(half_lat) ** 2 + across * math.sin(half_lon) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(math.sqrt(min(chord, 1.0)))


class ImpossibleTravel(Recipe):
    """Alerts when a login is further from one of the last ones than `max_speed_kmh` allows.

    Distances below `min_km` never alert: places are inexact, and people share networks. That is why the last `remembered`
    logins are kept, and not only one: several short jumps may add up. `lat` and `lon` are fields in degrees, `place` is a
    field that names the place, if there is one.

    An alert is (key, place before, place now, km, seconds between), with the most recent login that is too far away. A
    position that is nowhere on Earth is an InputError.

    Keeps for each key and window: the last `remembered` logins.

    Frees it: when the watermark is `forget_after` beyond the last login.

    Order: by event time, so the step needs `requires_time_sorted_input=True`. Late logins go to the output `late`.
    """

    needs_time_sorted_input = True

    LOGINS = hf.ValueStateSpec("logins", doc="The last logins, oldest first: time, latitude, longitude, place.")
    QUIET = hf.TimerSpec("quiet", hf.TimeDomain.WATERMARK)

    def __init__(
        self,
        *,
        max_speed_kmh: float = 1000.0,
        min_km: float = 100.0,
        remembered: int = 5,
        lat: str = "lat",
        lon: str = "lon",
        place: str | None = None,
        forget_after: Span = "30 days",
    ) -> None:
        super().__init__()
        check = self._arguments
        self._max_speed = check.number("max_speed_kmh", max_speed_kmh, above=0.0)
        self._min_km = check.number("min_km", min_km)
        self._remembered = check.whole("remembered", remembered)
        self._lat, self._lon = check.field("lat", lat), check.field("lon", lon)
        self._place = check.optional_field("place", place)
        self._forget_after = check.span("forget_after", forget_after)

    def process(
        self,
        element: tuple[object, object],
        at: hf.Timestamp = hf.DoFn.TimestampParam,
        logins: hf.ValueState[tuple[Login, ...]] = hf.DoFn.StateParam(LOGINS),
        quiet: hf.Timer = hf.DoFn.TimerParam(QUIET),
    ) -> Iterator[tuple[object, object, object, float, float]]:
        key, value = element
        login = self._read(value, at)
        known = logins.read() or ()
        if known and at >= known[-1][0] + self._forget_after:
            known = ()
        for other in reversed(known):
            km, seconds = great_circle_km(other[1], other[2], login[1], login[2]), float(at - other[0])
            if km >= self._min_km and km > self._max_speed * seconds / 3600:
                yield key, other[3], login[3], km, seconds
                break
        logins.write((*known, login)[-self._remembered :])
        quiet.set(at + self._forget_after)

    @hf.on_timer(QUIET)
    def on_quiet(self, logins: hf.ValueState[tuple[Login, ...]] = hf.DoFn.StateParam(LOGINS)) -> None:
        logins.clear()

    def _read(self, value: object, at: hf.Timestamp) -> Login:
        lat, lon = number_in(value, self._lat), number_in(value, self._lon)
        if abs(lat) > 90 or abs(lon) > 180:
            raise hf.InputError(
                f"A login is from {lat}, {lon}, which is nowhere on Earth.",
                detail="Latitudes go from -90 to 90 degrees, longitudes from -180 to 180.",
                todo="Leave such rows out before the step, or send them to the output dead_letter: on_error='dead_letter'.",
            )
        return at, lat, lon, None if self._place is None else plain(read(value, self._place))

"""Flink's older word for a span of time."""

from __future__ import annotations

from holdfast.model.time.timestamps import Duration

__all__ = ["Time"]


class Time:
    """Spans of time by their units; each is a `Duration`."""

    @staticmethod
    def days(days: float) -> Duration:
        return Duration.of_days(days)

    @staticmethod
    def hours(hours: float) -> Duration:
        return Duration.of_hours(hours)

    @staticmethod
    def minutes(minutes: float) -> Duration:
        return Duration.of_minutes(minutes)

    @staticmethod
    def seconds(seconds: float) -> Duration:
        return Duration.of_seconds(seconds)

    @staticmethod
    def milliseconds(milliseconds: float) -> Duration:
        return Duration.of_millis(milliseconds)

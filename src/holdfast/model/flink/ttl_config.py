"""Flink's way to say how long state lives: a builder that makes a `Ttl`."""

from __future__ import annotations

import enum

from holdfast.errors import InvalidStep
from holdfast.model.state.ttl import Expired, Refresh, Ttl
from holdfast.model.time.timestamps import Duration

__all__ = ["StateTtlConfig"]


class _UpdateType(enum.Enum):
    """What counts as a touch."""

    Disabled = "disabled"
    OnCreateAndWrite = "write"
    OnReadAndWrite = "read"


class _StateVisibility(enum.Enum):
    """Whether an expired value may still be returned."""

    ReturnExpiredIfNotCleanedUp = "until_cleaned"
    NeverReturnExpired = "never"


class _TtlTimeCharacteristic(enum.Enum):
    """By which clock state expires. Flink has this one only; here, `Ttl(time="event")` is the other."""

    ProcessingTime = "processing"


class _Builder:
    """Collects what a `Ttl` is made of. Each method but `build` returns the builder."""

    def __init__(self, ttl: Duration) -> None:
        self._duration = ttl
        self._refresh: Refresh | None = "write"
        self._expired: Expired = "never"
        self._problems: list[str] = []

    def set_ttl(self, ttl: Duration) -> _Builder:
        self._duration = ttl
        return self

    def set_update_type(self, update_type: _UpdateType) -> _Builder:
        if update_type is _UpdateType.OnCreateAndWrite:
            self._refresh = "write"
        elif update_type is _UpdateType.OnReadAndWrite:
            self._refresh = "read"
        else:
            self._refresh = None
            self._refuse("set_update_type", update_type, "UpdateType", [*_UpdateType][1:])
        return self

    def update_ttl_on_create_and_write(self) -> _Builder:
        return self.set_update_type(_UpdateType.OnCreateAndWrite)

    def update_ttl_on_read_and_write(self) -> _Builder:
        return self.set_update_type(_UpdateType.OnReadAndWrite)

    def set_state_visibility(self, state_visibility: _StateVisibility) -> _Builder:
        if state_visibility is _StateVisibility.NeverReturnExpired:
            self._expired = "never"
        elif state_visibility is _StateVisibility.ReturnExpiredIfNotCleanedUp:
            self._expired = "until_cleaned"
        else:
            self._refuse("set_state_visibility", state_visibility, "StateVisibility", [*_StateVisibility])
        return self

    def never_return_expired(self) -> _Builder:
        return self.set_state_visibility(_StateVisibility.NeverReturnExpired)

    def return_expired_if_not_cleaned_up(self) -> _Builder:
        return self.set_state_visibility(_StateVisibility.ReturnExpiredIfNotCleanedUp)

    def set_ttl_time_characteristic(self, ttl_time_characteristic: _TtlTimeCharacteristic) -> _Builder:
        if ttl_time_characteristic is not _TtlTimeCharacteristic.ProcessingTime:
            what = [*_TtlTimeCharacteristic]
            self._refuse("set_ttl_time_characteristic", ttl_time_characteristic, "TtlTimeCharacteristic", what)
        return self

    def use_processing_time(self) -> _Builder:
        return self.set_ttl_time_characteristic(_TtlTimeCharacteristic.ProcessingTime)

    def cleanup_full_snapshot(self) -> _Builder:
        """As it is: what has expired is swept, and no snapshot keeps it."""
        return self

    def cleanup_incrementally(self, cleanup_size: int, run_cleanup_for_every_record: bool) -> _Builder:
        """As it is, with a budget of its own: a few expired cells are swept with every micro-batch."""
        return self

    def cleanup_in_rocksdb_compact_filter(
        self, query_time_after_num_entries: int = 1000, periodic_compaction_time: Duration | None = None
    ) -> _Builder:
        """As it is, with a budget of its own: a few expired cells are swept with every micro-batch."""
        return self

    def disable_cleanup_in_background(self) -> _Builder:
        self._problems.append(
            "disable_cleanup_in_background cannot be had: a few expired cells are always swept with every micro-batch."
        )
        return self

    def build(self) -> Ttl:
        """The time to live. Raises InvalidStep for all that is wrong with it."""
        if self._refresh is None or self._problems:
            raise InvalidStep.of("StateTtlConfig", self._problems)
        return Ttl(self._duration, refresh=self._refresh, expired=self._expired)

    def _refuse(self, method: str, given: object, choices: str, names: list[enum.Enum]) -> None:
        known = " or ".join(f"StateTtlConfig.{choices}.{member.name}" for member in names)
        if given is _UpdateType.Disabled:
            self._problems.append("UpdateType.Disabled means no time to live: leave out enable_time_to_live instead.")
        else:
            self._problems.append(f"{method} was given {given!r}; it can be {known}.")


class StateTtlConfig:
    """Flink's builder of a time to live: `StateTtlConfig.new_builder(Duration.of_hours(24)).build()` is a `Ttl`.

    Flink's cleanup strategies change nothing: expired cells are always swept, a few with every micro-batch.
    """

    UpdateType = _UpdateType
    StateVisibility = _StateVisibility
    TtlTimeCharacteristic = _TtlTimeCharacteristic

    @staticmethod
    def new_builder(ttl: Duration) -> _Builder:
        """A builder: touched by writes, expired values never returned, unless it is told otherwise."""
        return _Builder(ttl)

"""From where on a measure is a warning, and from where on critical; and how much it takes to call something a symptom."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields

from holdfast.checkpoint.files.local import LocalFiles
from holdfast.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - which of the two depends on Python
    import tomli as tomllib

__all__ = ["Limit", "Thresholds"]

_GB = 1 << 30
_FILE_BYTES_MAX = 1 << 20


@dataclass(frozen=True)
class Limit:
    """From `warning` on it is a warning, above `critical` it is critical; None: never."""

    warning: float | None = None
    critical: float | None = None


@dataclass(frozen=True)
class Thresholds:
    """The thresholds by which a job is judged. Change some of them with keywords: `Thresholds(state_bytes=Limit(2e9, 8e9))`.

    Times are in milliseconds. `from_mapping` and `from_file` (TOML) take the same names.
    """

    state_bytes: Limit = Limit(_GB, 5 * _GB)
    """State of all steps."""
    checkpoint_ms: Limit = Limit(10_000, 30_000)
    """What a micro-batch takes to make its state and its offsets durable."""
    update_ms: Limit = Limit(10, 50)
    """What a bundle takes to open and store its state, in the slowest step."""
    cleanup_ms: Limit = Limit(5_000, 15_000)
    """What a micro-batch takes to find and remove state that has expired."""
    memory_bytes: Limit = Limit(2 * _GB, 4 * _GB)
    """Resident memory of the largest worker."""
    watermark_lag_ms: Limit = Limit()
    """How far the watermark is behind the latest event time. A job's own delay is part of it, so there is no default."""
    source_lag: Limit = Limit()
    """Records that are there and not read yet. What is much depends on the job, so there is no default."""
    late_share: Limit = Limit(0.05, 0.25)
    """Of all elements, those that came too late for their window."""
    dropped_share: Limit = Limit(0.01, 0.1)
    """Of all elements, those that became dead letters or went over a limit."""
    skew: Limit = Limit(4, 16)
    """Elements of the busiest key group, over the mean of all. Judged only if it has a quarter of all elements or more."""
    hot_key_share: Limit = Limit(0.4, 0.8)
    """Of the elements of a step, those of its busiest key."""
    batch_ratio: Limit = Limit(1, 3)
    """Duration of a micro-batch over the interval of the job's trigger. Judged only from a second beyond it."""
    failures: Limit = Limit(1, 4)
    """Failures and crashes in the last hour."""

    window_batches: int = 60
    """Medians are taken over so many micro-batches with input, the newest."""
    batches_min: int = 8
    """With fewer than this, what is measured by medians is not judged."""
    elements_min: int = 1_000
    """Shares of elements are not judged by fewer than this."""
    growth_ms: int = 300_000
    """State that has grown for so long, without end, is growing; also what the source has left to read."""
    growth_keys_min: int = 10_000
    """Growth by fewer keys than this in that time is none."""
    growth_bytes_min: int = 16 << 20
    """Growth by fewer bytes than this in that time is none."""
    growth_horizon_ms: int = 86_400_000
    """Growth is a symptom if state would be over `state_bytes.critical` within this time; critical in a twelfth of it."""
    idle_ms: int = 180_000
    """A watermark that has not moved for so long while rows came stands still."""
    failures_ms: int = 3_600_000
    """How long failures are remembered."""

    def __post_init__(self) -> None:
        problems = [problem for each in fields(self) for problem in _problems(each.name, getattr(self, each.name))]
        if problems:
            raise _refused("These thresholds make no sense", problems)

    @classmethod
    def from_mapping(cls, given: Mapping[str, object]) -> Thresholds:
        """From names to numbers, or, where there are two of them, to `{"warning": …, "critical": …}`; what is left out keeps
        its default. Raises InputError, naming all that is wrong."""
        known = {each.name: getattr(_DEFAULTS, each.name) for each in fields(cls)}
        changed: dict[str, Limit | int] = {}
        problems = []
        for name, value in given.items():
            if name not in known:
                problems.append(f"{name!r} is not a threshold{_meant(str(name), list(known))}")
            elif isinstance(known[name], Limit):
                if not isinstance(value, Mapping) or not set(value) <= {"warning", "critical"}:
                    problems.append(f"{name} is {value!r:.80}; give {{warning = …, critical = …}}, or one of them")
                else:
                    changed[name] = Limit(**{**vars(known[name]), **value})
            else:
                changed[name] = value  # type: ignore[assignment]  # checked when the thresholds are made
        problems += [problem for name, value in changed.items() for problem in _problems(name, value)]
        if problems:
            raise _refused("These thresholds cannot be used", problems)
        return cls(**changed)  # type: ignore[arg-type]

    @classmethod
    def from_file(cls, path: str) -> Thresholds:
        """From a TOML file. Raises InputError if it cannot be used."""
        try:
            content = LocalFiles().read(path)
        except OSError as error:
            raise InputError(f"--thresholds: {path!r} could not be read: {error.strerror}.") from None
        if content is None:
            raise InputError(f"--thresholds: there is no file {path!r}.", todo="give the path of a TOML file")
        if len(content) > _FILE_BYTES_MAX:
            raise InputError(f"--thresholds: {path!r} is larger than a file of thresholds can be.")
        try:
            found = tomllib.loads(content.decode())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"--thresholds: {path!r} is not TOML: {error}.", todo="see docs/health.md") from None
        try:
            return cls.from_mapping(found)
        except InputError as error:
            raise error.within(file=path) from None


def _problems(name: str, value: object) -> list[str]:
    """What is wrong with one of the values; its default says of which kind it has to be."""
    if not isinstance(value, Limit):
        if name in _LIMITS:
            return [f"{name} is {value!r:.80}, not a Limit"]
        is_fine = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        return [] if is_fine else [f"{name} is {value!r:.80}, not a whole number from 1 on"]
    if name not in _LIMITS:
        return [f"{name} is one whole number, not a Limit"]
    bounds = {bound: number for bound, number in vars(value).items() if number is not None}
    wrong = [
        f"{name}.{bound} is {number!r:.80}, not a number from 0 on"
        for bound, number in bounds.items()
        if not _is_number(number)
    ]
    if not wrong and len(bounds) == 2 and bounds["warning"] > bounds["critical"]:
        return [f"{name} is critical from {value.critical:g} on, before it is a warning from {value.warning:g} on"]
    return wrong


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _meant(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _refused(what: str, problems: list[str]) -> InputError:
    return InputError(f"{what}.", detail="\n".join(f"- {p}" for p in problems), todo="docs/health.md has a table of them")


_LIMITS = frozenset(each.name for each in fields(Thresholds) if isinstance(each.default, Limit))
_DEFAULTS = Thresholds()

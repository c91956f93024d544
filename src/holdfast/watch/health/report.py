"""Health of a job: measures with thresholds, and symptoms by name, judged by its history alone."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

__all__ = ["Health", "Level", "Measure", "Symptom"]


class Level(enum.IntEnum):
    """How bad it is; the worst of several is their maximum."""

    OK = 0
    UNKNOWN = 1
    WARNING = 2
    CRITICAL = 3

    @property
    def word(self) -> str:
        """In lower case, as in JSON and metrics: `warning`."""
        return self.name.lower()


@dataclass(frozen=True)
class Measure:
    """One number with its thresholds."""

    name: str
    """For machines: `state_bytes`."""
    title: str
    """For people: "State size"."""
    value: float | None
    text: str
    """The value with its unit, for people; "?" if it is not known."""
    level: Level
    """UNKNOWN if there is no value, or too few micro-batches to judge it by."""
    warning: float | None = None
    critical: float | None = None
    unit: str = ""
    """`bytes`, `ms`, `records`, `ratio`, `share` or `times`."""
    todo: str = ""
    """What to do if it is too high; empty if it is not."""
    of: str = ""
    """What has the value, where that is one of several: a step, a key group, a key."""

    def as_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {**{name: value for name, value in vars(self).items() if name != "level"}, "level": self.level.word}


@dataclass(frozen=True)
class Symptom:
    """Something that is wrong, by name, with its evidence and what to do."""

    name: str
    """For machines: `state_explosion`. docs/health.md has them all."""
    title: str
    """For people: "State explosion"."""
    level: Level
    evidence: str
    """What was seen, with numbers."""
    todo: str
    """What to do, with the setting or the page of the documentation."""
    step: str | None = None
    key: str | None = None
    """The key concerned, as text."""
    figures: dict[str, float] = field(default_factory=dict)
    """The numbers of the evidence, by name."""

    def as_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {**{name: value for name, value in vars(self).items() if name != "level"}, "level": self.level.word}


@dataclass(frozen=True)
class Health:
    """What a job's history says about it. `level` is the worst of its measures and symptoms, or UNKNOWN if there is nothing
    to judge by. A notebook shows it as a table."""

    level: Level
    job: str
    batch: int | None
    """The last micro-batch that was looked at."""
    at_ms: int
    """When it was judged."""
    measures: list[Measure] = field(default_factory=list)
    symptoms: list[Symptom] = field(default_factory=list)
    """The worst first."""
    notes: list[str] = field(default_factory=list)
    """What limits the judgement: too few micro-batches, unreadable lines."""
    running: bool | None = None
    """Whether the job runs; None if that is not known."""

    def measure(self, name: str) -> Measure | None:
        """The measure of this name."""
        return next((measure for measure in self.measures if measure.name == name), None)

    def symptom(self, name: str) -> Symptom | None:
        """The worst symptom of this name, if there is one."""
        return next((symptom for symptom in self.symptoms if symptom.name == name), None)

    def as_dict(self) -> dict[str, object]:
        """Plain values, for JSON."""
        return {
            "job": self.job,
            "level": self.level.word,
            "running": self.running,
            "batch": self.batch,
            "at_ms": self.at_ms,
            "measures": [measure.as_dict() for measure in self.measures],
            "symptoms": [symptom.as_dict() for symptom in self.symptoms],
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:
        from holdfast.watch.health.html import health_html

        return health_html(self)

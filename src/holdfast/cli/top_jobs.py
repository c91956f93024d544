"""What `holdfast top` looks at: jobs that were named, or all that run here; of each only what is new is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.checkpoint.running import running_jobs
from holdfast.errors import CheckpointError, HoldfastError
from holdfast.ops.upkeep.health import Watched
from holdfast.watch.health.report import Health
from holdfast.watch.health.thresholds import Thresholds
from holdfast.watch.history import History

__all__ = ["JobsLookedAt", "Seen"]

_JOBS_MAX = 50


@dataclass(frozen=True)
class Seen:
    """A job at one look."""

    checkpoint: str
    history: History
    health: Health

    @property
    def name(self) -> str:
        return self.health.job


class JobsLookedAt:
    """Jobs by name or checkpoint; without any, those of this user on this machine, also those that start later."""

    def __init__(self, jobs: Sequence[str], thresholds: Thresholds | None = None, *, spark: object = None) -> None:
        self._thresholds = thresholds
        self._spark = spark
        self._finds_more = not jobs
        self._watched: dict[str, Watched] = {}
        self._health: dict[str, tuple[History, Health]] = {}
        for job in jobs:
            self._add(job)
        if self._finds_more and not self._found_more():
            raise CheckpointError(
                "No job of yours is running on this machine.", todo="name jobs by their checkpoints: holdfast top CKPT ..."
            )

    def look(self) -> list[Seen]:
        """How all of them are now, in the order in which they were found. A checkpoint that cannot be read just now is as it
        was."""
        if self._finds_more:
            self._found_more()
        for checkpoint, watched in self._watched.items():
            try:
                health = watched.judge(self._thresholds)
            except (HoldfastError, OSError):
                continue
            self._health[checkpoint] = watched.tail.history, health
        return [Seen(checkpoint, *found) for checkpoint, found in self._health.items()]

    def close(self) -> None:
        for watched in self._watched.values():
            watched.close()

    def _found_more(self) -> bool:
        for entry in running_jobs():
            if entry.checkpoint not in self._watched and len(self._watched) < _JOBS_MAX:
                try:
                    self._add(entry.checkpoint)
                except HoldfastError:
                    # It has just begun, or is on a file system that needs Spark.
                    continue
        return bool(self._watched)

    def _add(self, job: str) -> None:
        watched = Watched(job, spark=self._spark)  # type: ignore[arg-type]  # a session, which is not imported for its type
        if watched.checkpoint in self._watched:
            watched.close()
        else:
            self._watched[watched.checkpoint] = watched

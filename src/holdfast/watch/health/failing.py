"""A job that failed, was killed, or does its work again and again."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.engine.stored.readable import counted
from holdfast.watch.health.measuring import failures
from holdfast.watch.health.recent import Recent
from holdfast.watch.health.report import Level, Symptom
from holdfast.watch.health.texts import cut, ms_text, time_text
from holdfast.watch.health.values import level_of

__all__ = ["ended_badly", "reprocessing"]

_STUCK = 3
"""So many failures after one and the same micro-batch: it will fail again."""
_SAID_MAX = 300


def reprocessing(recent: Recent) -> Iterator[Symptom]:
    """After each failure the micro-batch that was not committed is done again."""
    found = list(failures(recent))
    begin = recent.at_ms - recent.thresholds.failures_ms
    again = {
        batch.batch: recent.history.again[batch.batch]
        for batch in recent.history.batches
        if batch.batch in recent.history.again and batch.at_ms >= begin
    }
    level = level_of(len(found), recent.thresholds.failures)
    if level < Level.WARNING and not again:
        return
    stuck = _stuck_after(recent, begin)
    evidence = f"{counted(len(found), 'failure')} in the last {ms_text(recent.thresholds.failures_ms)}"
    if found:
        evidence += f", the last: {found[-1]}"
    if again:
        listed = ", ".join(map(str, list(again)[-5:]))
        repeated = counted(sum(again.values()), "time", "times")
        evidence += f". Micro-batches that were committed already were done again {repeated} ({listed})"
    if stuck is not None:
        evidence += f". The job has not come past micro-batch {stuck + 1}"
    yield Symptom(
        name="reprocessing",
        title="Reprocessing after failures",
        level=Level.CRITICAL if stuck is not None else max(level, Level.WARNING),
        evidence=evidence + ".",
        todo=_what_helps(stuck is not None, bool(again)),
        figures={"failures": len(found), "micro_batches_again": sum(again.values())},
    )


def _in_one_line(text: str) -> str:
    """What a failure said, without the ends of its lines."""
    return cut(" · ".join(line.strip() for line in text[:_SAID_MAX].splitlines() if line.strip()), _SAID_MAX)


def _stuck_after(recent: Recent, begin: int) -> int | None:
    """The micro-batch that the last failures all came after, if there were several."""
    failed = [event.batch for event in recent.history.events if event.event == "failed" and event.at_ms >= begin]
    newest = failed[-_STUCK:]
    if len(newest) < _STUCK or len(set(newest)) > 1:
        return None
    last = recent.history.last
    before = -1 if newest[0] is None else newest[0]
    return before if last is None or last.batch <= before else None


def _what_helps(is_stuck: bool, is_again: bool) -> str:
    if is_stuck:
        return (
            "mend the function, or let it go on without the element: on_error='dead_letter' (docs/errors.md#usercodeerror); "
            "restarting alone does not help"
        )
    if is_again:
        return "find out who rolled the checkpoint back: a restored savepoint, or a repair (docs/operations.md)"
    return (
        "look at the error; a worker that dies often is out of memory: a smaller memory budget, backend='disk' "
        "(docs/spark.md#memory, docs/running-jobs.md#when-something-fails)"
    )


def ended_badly(recent: Recent, running: bool | None) -> Iterator[Symptom]:
    """A job whose last word is a failure; or that does not run, and never said that it ended."""
    last = recent.history.events[-1] if recent.history.events else None
    if last is None or running:
        return
    after = "before its first micro-batch" if last.batch is None else f"after micro-batch {last.batch}"
    if last.event == "failed":
        yield Symptom(
            name="failed",
            title="The job has failed",
            level=Level.CRITICAL,
            evidence=f"It failed {after}, at {time_text(last.at_ms)}: {_in_one_line(last.text) or 'it did not say why'}",
            todo="mend what the error says, and start the job again: it goes on from there (docs/running-jobs.md)",
        )
    elif last.event == "started" and running is False:
        yield Symptom(
            name="gone",
            title="The job is gone",
            level=Level.CRITICAL,
            evidence=f"It started at {time_text(last.at_ms)} and has not ended, but nobody holds the lock: it was killed.",
            todo="start it again, there is nothing to clean up; look for the reason in the machine's log, memory first",
        )

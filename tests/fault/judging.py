"""The end of a run that was disturbed: it is let finish, and judged by its history, its sink and the oracle."""

from __future__ import annotations

from .checker import History, Verdict, check
from .oracle import expected_rows
from .running import Place, Program, read_sink
from .stream import File

__all__ = ["finish_and_judge"]


def finish_and_judge(program: Program, place: Place, files: list[File], history: History) -> Verdict:
    """Waits until a program has taken all its input, and gives the verdict on what is in its sink."""
    program.finish()
    history.ended = True
    history.note("end", str(program.said))
    return check(history, lambda: read_sink(place), lambda: expected_rows(place.micro_batches(files)))

"""`holdfast learn`: exercises that check themselves."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.app import app
from holdfast.cli.output import AsJson, console, give, say, table, text
from holdfast.errors import InputError
from holdfast.learn.checking import Checked, check_file
from holdfast.learn.exercises import EXERCISES, exercise_named
from holdfast.learn.progress import BEGUN, DONE, note, progress

__all__ = ["check", "hint", "learn", "list_exercises", "solution", "start"]

Name = Annotated[str, typer.Argument(metavar="NAME", help="The exercise; `holdfast learn` lists them.")]

learn = typer.Typer(
    help="Learn by doing: exercises that check themselves, in memory.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(learn, name="learn")


@learn.callback(invoke_without_command=True)
def list_exercises(ctx: typer.Context, as_json: AsJson = False) -> None:
    """Learn by doing: exercises that check themselves, in memory. Without a command, list them with your progress."""
    if ctx.invoked_subcommand is not None:
        return
    known = progress()
    rows = [(exercise.name, exercise.about, exercise.class_name, known.get(exercise.name, "")) for exercise in EXERCISES]

    def show() -> None:
        console.print(table("", ["exercise", "about", "class", ""], rows))
        done = sum(state == DONE for *_, state in rows)
        new = next((name for name, *_, state in rows if state != DONE), None)
        say(f"{done} of {len(rows)} done." + (f" Next: holdfast learn start {new}" if new else ""))

    columns = ("name", "about", "class", "progress")
    give([dict(zip(columns, row, strict=True)) for row in rows], as_json, show)


@learn.command("start")
def start(
    name: Name, folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where the file goes.")] = Path()
) -> None:
    """Write an exercise's file: the task, and a class to complete. An existing file is left alone."""
    exercise = exercise_named(name)
    path = folder / exercise.file_name
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(exercise.stub)
    except FileExistsError:
        raise InputError(f"{path} is there, and stays as it is.", todo="name another directory, or move the file") from None
    note({name: BEGUN})
    say(f"{path} has the task. When it is done: holdfast learn check {path}")


@learn.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file with the classes of one or more exercises.")],
    as_json: AsJson = False,
) -> None:
    """Check your solution, in memory; exit code 1 if something is wrong. This runs the file."""
    # What the file prints is no part of the document.
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        found = check_file(file)
    note({checked.exercise.name: DONE for checked in found if checked.passed})

    def show() -> None:
        for checked in found:
            _show(checked)

    give([_as_json(checked) for checked in found], as_json, show)
    if not all(checked.passed for checked in found):
        raise typer.Exit(1)


@learn.command("hint")
def hint(name: Name) -> None:
    """Show the hint of an exercise."""
    _say_lines(exercise_named(name).hint)


@learn.command("solution")
def solution(name: Name) -> None:
    """Show one way to do an exercise."""
    _say_lines(exercise_named(name).solution)


def _say_lines(content: str) -> None:
    for line in content.rstrip().splitlines():
        say(line)


def _show(checked: Checked) -> None:
    say(f"{checked.exercise.name}: {checked.exercise.class_name}")
    for outcome in checked.outcomes:
        mark = text("ok    ", "green") if outcome.passed else text("wrong ", "bold red")
        console.print(text("  ") + mark + text(f"it {outcome.shows}"))
        for line in outcome.wrong.splitlines():
            say(f"        {line}")
        if outcome.todo:
            say(f"        what to do: {outcome.todo}")
    if checked.passed:
        say("  done")


def _as_json(checked: Checked) -> dict[str, object]:
    outcomes = [
        {"shows": outcome.shows, "passed": outcome.passed, "wrong": outcome.wrong, "todo": outcome.todo}
        for outcome in checked.outcomes
    ]
    return {"name": checked.exercise.name, "passed": checked.passed, "checks": outcomes}

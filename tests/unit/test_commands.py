"""The command line and `holdfast.ops` have the same names."""

from __future__ import annotations

import typer

from holdfast import ops
from holdfast.cli.main import commands as all_commands

WITHOUT_A_FUNCTION = {
    "demo",
    "learn_check",
    "learn_hint",
    "learn_solution",
    "learn_start",
    "new",
    "run",
    "top",
    "ui",
}
"""A script is run as `python` runs it: from Python, import it. Exercises are done in a shell."""
WITHOUT_A_COMMAND = {"open_checkpoint", "read_changes", "read_state", "stream_changes"}
"""They give what only a program can hold."""
OTHERWISE = {"state_rm": "remove_state"}
"""A shell has a short word for it, and Python a plain one."""


def names_of(commands: typer.Typer, before: str = "") -> set[str]:
    """As functions are called: `state ls` is state_ls."""
    found = {f"{before}{command.name}" for command in commands.registered_commands}
    for group in commands.registered_groups:
        assert group.typer_instance is not None
        found |= names_of(group.typer_instance, f"{before}{group.name}_")
    return found


def test_every_command_is_a_function():
    commands = names_of(all_commands())
    assert {"state_ls", "checkpoint_show", "savepoint_create", "doctor", "stop"} <= commands
    functions = {name for name in ops.__all__ if name.islower()}
    named = {OTHERWISE.get(name, name) for name in commands}
    assert named - WITHOUT_A_FUNCTION == functions - WITHOUT_A_COMMAND


def test_the_comparison_can_fail():
    other = typer.Typer()
    other.command("new")(lambda: None)
    group = typer.Typer()
    group.add_typer(other, name="state")
    assert names_of(group) == {"state_new"}


def test_a_command_waits_for_no_other(monkeypatch):
    """To import the others takes as long as what many commands do."""
    imported: list[str] = []
    monkeypatch.setattr("importlib.import_module", imported.append)
    for word, files in (("--version", []), ("state", ["holdfast.cli.state"]), ("health", ["holdfast.cli.health"])):
        imported.clear()
        all_commands(word)
        assert imported == files
    all_commands("no such word")
    assert len(imported) > 10

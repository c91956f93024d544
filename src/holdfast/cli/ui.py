"""`holdfast ui`: the dashboard."""

from __future__ import annotations

import json
import sys
import webbrowser
from typing import Annotated

import typer

from holdfast.cli.app import app
from holdfast.cli.arguments import TrustPickle
from holdfast.cli.output import AsJson, say
from holdfast.errors import InputError
from holdfast.model.extras import require_extra

__all__ = ["ui"]

_TOKEN_MIN = 16


@app.command("ui")
def ui(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CKPT|JOB]...", help="Checkpoints, or names of running jobs; all running jobs by default."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 4141,
    host: Annotated[str, typer.Option(help="The address; any but the loopback address needs the token that is printed.")] = (
        "127.0.0.1"
    ),
    token: Annotated[
        str | None,
        typer.Option(
            envvar="HOLDFAST_UI_TOKEN", help="Ask for this token. Other users can see it here, but not in the variable."
        ),
    ] = None,
    savepoints: Annotated[
        list[str] | None, typer.Option(metavar="DIR", help="Also show savepoints in this folder; can be repeated.")
    ] = None,
    trust_pickle: TrustPickle = False,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Do not open a browser; none is opened if there is a token.")
    ] = False,
    parent_pid: Annotated[int | None, typer.Option(min=1, help="End when this process has ended.")] = None,
    as_json: AsJson = False,
) -> None:
    """Serve the dashboard: health, charts, graph, keys, state and checkpoints of jobs, until Ctrl-C."""
    for package, version in (("fastapi", (0, 115)), ("uvicorn", (0, 32))):
        require_extra("ui", package, version, "holdfast ui")
    from holdfast.ui.judging import judge
    from holdfast.ui.reading.jobs import Jobs, checkpoints_of
    from holdfast.ui.reading.stored import StoredState
    from holdfast.ui.serve import Address, serve

    if token is not None and len(token) < _TOKEN_MIN:
        raise InputError(f"--token is too short: it needs {_TOKEN_MIN} characters.", todo="leave it out to get a random one")
    if token is not None and not all("!" <= letter <= "~" for letter in token):
        raise InputError(
            "--token has blanks, or letters beyond ASCII, which a header cannot have.",
            todo="leave it out to get a random one",
        )

    def tell(address: Address) -> None:
        if as_json:
            sys.stdout.write(json.dumps({"url": address.url, "host": address.host, "port": address.port}) + "\n")
        else:
            say(address.url)
            say("Ctrl-C ends it.")
        # Whoever started it waits for the first line.
        sys.stdout.flush()
        # A browser is given the address on its command line, which all users of the machine can see: none that has a token.
        if not as_json and not no_open and address.token is None and sys.stdout.isatty():
            webbrowser.open(address.url)

    # A job that starts its own dashboard may not have made its checkpoint yet.
    checkpoints = checkpoints_of(jobs or [], must_exist=parent_pid is None)
    serve(
        Jobs(checkpoints, lambda checkpoint: StoredState(checkpoint, trust_pickle=trust_pickle)),
        judge,
        host=host,
        port=port,
        token=token,
        savepoint_folders=savepoints or [],
        parent=parent_pid,
        on_ready=tell,
    )

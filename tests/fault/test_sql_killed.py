"""The driver is killed with `kill -9` while it writes to a SQL database; with PostgreSQL the server is killed, too."""

from __future__ import annotations

import random
import time
from contextlib import closing

import pytest

from .checker import History
from .judging import finish_and_judge
from .running import Place
from .stream import make_files, write_files

# What is waited for, and how many seconds after it at most the program is killed.
PHASES = {"active": 3.0, "begun": 0.6, "state": 0.3, "committed": 0.1}
FILES = 18


@pytest.mark.night
@pytest.mark.parametrize("sink", ["duckdb", "postgres"])
def test_the_driver_is_killed(seed, sink, start, tmp_path, request):
    place, draw = Place(tmp_path, sink), random.Random(f"sql {seed} {sink}")
    server = served(place, request) if sink == "postgres" else None
    files = make_files(seed, FILES)
    write_files(place.input, files)
    history = History(faults_wanted=len(PHASES))
    for phase in draw.sample(list(PHASES), len(PHASES)):
        program = start(place)
        if not program.until_phase(phase, 1 + draw.randrange(2)):
            break
        time.sleep(draw.uniform(0, PHASES[phase]))
        if program.ended:
            break
        program.kill()
        if server is not None and draw.randrange(2):
            server.restart("QUIT")
        history.note("kill", f"after {phase} (begun {place.begun()}, committed {place.committed()})")
    verdict = finish_and_judge(start(place), place, files, history)
    assert verdict.valid is True, str(verdict)


def served(place, request):
    """A server, of which a file at the place says where it is."""
    server = request.getfixturevalue("postgres").server
    with closing(server.connect()) as connection:
        connection.execute("DROP SCHEMA IF EXISTS ledger CASCADE")
        connection.execute("CREATE SCHEMA ledger")
    place.output.write_text(server.conninfo)
    return server

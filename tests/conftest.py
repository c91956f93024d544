"""Which tests run, how large they are and in which order: `--tier fast`, `test` or `all`; see `tests/README.md`."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
from pathlib import Path
from unittest import mock

import pytest

import class_archive
import scheduling
import services
import tiers
from holdfast import ops
from holdfast.engine.state.key_group import KeyGroupState
from holdfast.errors import HoldfastError
from services.browser import browser  # noqa: F401
from services.postgres import postgres, postgres_server  # noqa: F401

_TESTS = Path(__file__).parent


def pytest_addoption(parser):
    tier = os.environ.get("HOLDFAST_TIER", "test")
    parser.addoption(
        "--tier", choices=list(tiers.TIERS), default=tier, help="which tests run, and how large: tests/README.md"
    )


def pytest_configure(config):
    tiers.enter_tier(config.getoption("--tier"))
    if tiers.current_tier().name == "fast":
        sys.addaudithook(tiers.refuse_spark)
        return
    if _starts_workers(config):
        class_archive.make_archive()
        fetch_connector()
    class_archive.share_archive()


def fetch_connector():
    """Fetches the jars with which Spark reads Kafka, before any session starts: one that runs cannot be given them. Without
    them, the tests with Kafka are left out."""
    with contextlib.suppress(HoldfastError):
        ops.jars("kafka")


def _starts_workers(config):
    """Whether this process gives the tests to others, as `make test` does; a few tests by themselves should not wait."""
    return bool(config.getoption("numprocesses", None)) and not config.getoption("collectonly")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        for mark in tiers.marks_of_folder(item.path.relative_to(_TESTS).parts[0]):
            item.add_marker(mark)
    items.sort(key=lambda item: scheduling.rank(item.path.relative_to(_TESTS).as_posix()))
    if any("::" in argument for argument in config.args):
        return  # Whoever asks for a test by its name gets it.
    tier = tiers.current_tier()
    kept, left_out = [], []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        (kept if tiers.is_in_tier(tier, marks) else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


@pytest.fixture(autouse=True, scope="session")
def changes_are_in_active_windows():
    """A commit stores what changed in the windows that are active. So in all tests, nothing may have changed elsewhere."""
    settle = KeyGroupState.settle

    @functools.wraps(settle)
    def checked(state):
        active = {id(window) for window in state.active_windows()}
        for window in state.windows.values():
            if id(window) not in active:
                assert not any(table.changes for table in window.tables), f"{window.window} was changed, but is not active"
                assert window.counted == window.entries()
        settle(state)

    with mock.patch.object(KeyGroupState, "settle", checked):
        yield


def pytest_collection_finish(session):
    """Thousands of collected tests live to the end: no search for garbage, which some tests call for, need look at them."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """At the end of the process everything can go; DuckDB would complain of what it finds left."""
    gc.unfreeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Unless another way is asked for with --dist."""
    return scheduling.LongestFirst(config, log) if config.getoption("dist") == "load" else None


def pytest_terminal_summary(terminalreporter):
    for line in services.left_out(terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    """A broker. Ask for it before `spark`: a session can read Kafka only if the jars were there when it started."""
    from services.kafka import running_broker

    with running_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker

"""Two queries of one name: one that runs is in the way of another, and one that has just ended is not."""

from __future__ import annotations

from types import SimpleNamespace

from holdfast.spark.job.launching import _is_running


class Session:
    """A session whose list of queries is another one at each look."""

    def __init__(self, *lists):
        self.lists = list(lists)
        self.streams = self

    @property
    def active(self):
        return self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]


def query(name, active):
    return SimpleNamespace(name=name, isActive=active)


def test_a_query_that_runs():
    assert _is_running(Session([query("other", True), query("alerts", True)]), "alerts")


def test_nobody_else_counts():
    assert not _is_running(Session([query("other", True)]), "alerts")


def test_one_that_has_ended_is_let_go():
    leaving = [query("alerts", False)]
    session = Session(leaving, leaving, leaving, [])
    assert not _is_running(session, "alerts")
    assert session.lists == [[]]


def test_one_that_ends_while_another_of_its_name_runs():
    assert _is_running(Session([query("alerts", False)], [query("alerts", False), query("alerts", True)]), "alerts")

"""Spark's settings: what a session of the user's own is given, and what it keeps."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from holdfast.spark.session.settings import SETTINGS, lacking_settings, required_problems, with_stop_timeout

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
STOP = "spark.sql.streaming.stopTimeout"


class Session:
    """As much of a Spark session as has settings."""

    def __init__(self, **settings):
        self.settings = settings
        self.conf = self

    def get(self, option, default):
        return self.settings.get(option, default)

    def set(self, option, value):
        self.settings[option] = value

    def unset(self, option):
        self.settings.pop(option, None)


def lacking(**chosen):
    return lacking_settings(chosen.get)


def test_what_nobody_has_chosen_is_lacking():
    assert lacking() == {option: value for option, value in SETTINGS.items() if option.startswith("spark.sql.")}


@pytest.mark.parametrize(("option", "value"), [("spark.sql.session.timeZone", "Europe/Berlin"), (ROWS, "10000")])
def test_what_the_user_has_chosen_stays_also_if_it_is_sparks_default(option, value):
    assert option not in lacking(**{option: value})


def test_larger_batches_of_the_users_own_keep_their_limit_of_bytes():
    assert BYTES not in lacking(**{ROWS: "100000"})
    assert lacking()[BYTES] == SETTINGS[BYTES]


def test_only_one_provider_will_do():
    assert required_problems(Session()) == []
    assert required_problems(Session(**{PROVIDER: SETTINGS[PROVIDER]})) == []
    (problem,) = required_problems(Session(**{PROVIDER: "org.example.HDFSBackedStateStoreProvider"}))
    assert f"The session has {PROVIDER} set to org.example.HDFSBackedStateStoreProvider;" in problem
    assert f"spark.conf.unset('{PROVIDER}')" in problem


def test_a_stop_is_given_up_after_a_while_and_the_session_is_as_it_was():
    session = Session()
    with with_stop_timeout(session):
        assert session.settings == {STOP: SETTINGS[STOP]}
    assert session.settings == {}


def test_a_stop_takes_as_long_as_the_user_said():
    session = Session(**{STOP: "5s"})
    with with_stop_timeout(session):
        assert session.settings == {STOP: "5s"}
    assert session.settings == {STOP: "5s"}

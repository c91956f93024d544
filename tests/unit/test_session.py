"""Spark's settings: what a session of the user's own is given, and what it keeps."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from holdfast.spark.session.settings import SETTINGS, apply_settings

ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


class Session:
    """As much of a Spark session as has settings."""

    def __init__(self, **settings):
        self.settings = settings
        self.conf = self

    def get(self, option, default):
        return self.settings.get(option, default)

    def set(self, option, value):
        self.settings[option] = value


def given(**settings):
    session = Session(**settings)
    apply_settings(session)
    return session.settings


def test_what_is_lacking_is_set():
    assert given() == {option: value for option, value in SETTINGS.items() if option.startswith("spark.sql.")}


def test_what_is_at_sparks_default_is_set():
    assert given(**{ROWS: "10000"})[ROWS] == SETTINGS[ROWS]


def test_what_the_user_has_chosen_stays():
    assert given(**{"spark.sql.session.timeZone": "Europe/Berlin"})["spark.sql.session.timeZone"] == "Europe/Berlin"


def test_larger_batches_of_the_users_own_keep_their_limit_of_bytes():
    assert BYTES not in given(**{ROWS: "100000"})
    assert given()[BYTES] == given(**{ROWS: "10000"})[BYTES] == SETTINGS[BYTES]

"""How far behind a job is, from reports as Spark makes them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from holdfast.spark.job.lag import source_lags


def source(name, read, latest):
    return SimpleNamespace(description=name, endOffset=read, latestOffset=latest)


def lags(*sources):
    return source_lags(SimpleNamespace(sources=sources))


def test_partitions_are_added_up():
    read, latest = {"t": {"0": 3, "1": 5}}, {"t": {"0": 4, "1": 5, "2": 7}, "u": {"0": 1}}
    assert lags(source("Kafka[t]", json.dumps(read), json.dumps(latest))) == {"Kafka[t]": 9}
    assert lags(source("Kafka[t]", read, latest)) == {"Kafka[t]": 9}


def test_two_sources_of_the_same_name_are_one():
    one = source("a", {"t": {"0": 1}}, {"t": {"0": 3}})
    assert lags(one, one, source("b", {"t": {"0": 5}}, {"t": {"0": 3}})) == {"a": 4, "b": 0}


@pytest.mark.parametrize("offset", [None, "null", "5", "no json", '{"logOffset":0}', '"text"'])
def test_other_sources_have_none(offset):
    assert lags(source("files", offset, offset)) == {}


def test_before_the_first_report():
    assert source_lags(None) == {}

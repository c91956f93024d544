"""A session of the user's own: queries of steps have the settings that they need, and the session stays as it was."""

from __future__ import annotations

import pytest

import holdfast as hf
from holdfast.spark.session.settings import SETTINGS
from integration.conftest import Feed
from integration.functions import Count

OUTPUT = "k string, n int"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ZONE = "spark.sql.session.timeZone"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
WANTED = {option: value for option, value in SETTINGS.items() if option.startswith("spark.sql.")}
WAIT_SECONDS = 120


@pytest.fixture
def own(spark):
    """A session in which nobody has chosen anything."""
    session = spark.newSession()
    for option in WANTED:
        session.conf.unset(option)
    return session


@pytest.fixture
def source(own, tmp_path):
    made = Feed(own, tmp_path / "input", "k string, v int")
    made.add({"k": "a", "v": 1}, {"k": "a", "v": 2})
    return made


def counted(source):
    return hf.keyed(source.df, key="k", value="v").par_do(Count(), output=OUTPUT, key_groups=2)


class Batches:
    """The rows of a query, and the settings it ran with."""

    def __init__(self):
        self.rows = []
        self.settings = {}

    def take(self, batch, number):
        self.rows += [tuple(row) for row in batch.collect()]
        self.settings = dict(batch.sparkSession.conf.getAll)

    def chosen(self):
        return {option: self.settings[option] for option in WANTED if option in self.settings}


def written(df, tmp_path):
    """What a query gave that Spark's own writeStream started."""
    batches = Batches()
    writer = df.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(batches.take)
    query = writer.trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(WAIT_SECONDS)
    finally:
        query.stop()
    return batches


@pytest.mark.night
def test_a_plain_query(own, source, tmp_path):
    before = dict(own.conf.getAll)
    df = counted(source)
    assert dict(own.conf.getAll) == before
    batches = written(df, tmp_path)
    assert batches.rows == [("a", 1), ("a", 2)]
    assert batches.chosen() == WANTED
    # Also what is decided before the first micro-batch.
    assert list((tmp_path / "checkpoint" / "state" / "0" / "0").glob("*.changelog"))
    assert dict(own.conf.getAll) == before


def test_a_job(own, source, tmp_path):
    before = dict(own.conf.getAll)
    batches = Batches()
    job = hf.Job("own", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    job.write(counted(source), hf.sinks.ForeachBatch(batches.take)).run()
    assert batches.rows
    assert batches.chosen() == WANTED
    assert dict(own.conf.getAll) == before


def test_what_the_user_has_chosen_is_kept(own, source, tmp_path):
    own.conf.set(ROWS, "5000")
    own.conf.set(ZONE, "Europe/Berlin")
    batches = written(counted(source), tmp_path)
    others = {option: value for option, value in WANTED.items() if option != BYTES}
    assert batches.chosen() == {**others, ROWS: "5000", ZONE: "Europe/Berlin"}


def test_a_query_without_steps_is_left_alone(own, source, tmp_path):
    counted(source)
    batches = written(source.df, tmp_path)
    assert len(batches.rows) == 2
    assert batches.chosen() == {}


def test_a_provider_that_will_not_do_is_refused_not_overwritten(own, source, tmp_path):
    df = counted(source)
    own.conf.set(PROVIDER, HDFS)
    with pytest.raises(hf.InvalidStep, match=f"set to {HDFS}; .*RocksDBStateStoreProvider only"):
        counted(source)
    job = hf.Job("own", checkpoint=str(tmp_path / "checkpoint"), trigger="available now", progress=False)
    with pytest.raises(hf.InvalidStep, match=rf"spark\.conf\.unset\('{PROVIDER}'\)"):
        job.write(df, hf.sinks.Collect()).run()
    assert own.conf.get(PROVIDER) == HDFS

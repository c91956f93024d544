"""A micro-batch that fails after its state was written, and comes to another state when it is run again."""

from __future__ import annotations

import random

import pytest

import holdfast as hf
from holdfast.ops import checkpoint_verify
from holdfast.spark.session.checkpoint_files import file_settings

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


class Drawn(hf.DoFn):
    """Keeps a number that is another with each attempt."""

    LAST = hf.ValueStateSpec("last", hf.FloatCoder())

    def process(self, element, last=hf.DoFn.StateParam(LAST)):
        last.write(random.SystemRandom().random())
        yield element[0], last.read()


@pytest.fixture
def rows(source):
    return lambda: hf.keyed(source.df, key="k", value="v").par_do(Drawn(), output="k string, n double", key_groups=2)


class Sink:
    """Keeps rows; fails when told to, once the state of the micro-batch has been written."""

    def __init__(self):
        self.rows, self.fails = [], False

    def __call__(self, batch, number):
        found = batch.collect()
        if self.fails:
            raise OSError("no room")
        self.rows += found


def test_with_a_job(spark, source, rows, tmp_path):
    sink, checkpoint = Sink(), str(tmp_path / "checkpoint")

    def run():
        hf.Job("drawn", checkpoint=checkpoint, trigger="available now", progress=False).write(
            rows(), hf.sinks.ForeachBatch(sink)
        ).run()

    check(spark, source, sink, checkpoint, run)


@pytest.mark.night
def test_with_a_query_of_sparks_own(spark, source, rows, tmp_path):
    sink, checkpoint = Sink(), str(tmp_path / "checkpoint")

    def run():
        written = rows().writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
        written.trigger(availableNow=True).start().awaitTermination()

    check(spark, source, sink, checkpoint, run)


def check(spark, source, sink, checkpoint, run):
    """What is stored is one chain after the replay, and what comes next goes on from it."""
    run()
    for fails in (True, True, False, False):
        source.add({"k": "a", "v": "x"})
        sink.fails = fails
        if fails:
            with pytest.raises(Exception, match="no room"):
                run()
        else:
            run()
        assert checkpoint_verify(spark, checkpoint, deep=True).problems == []
    assert len(sink.rows) == 5


def test_files_are_replaced(spark, tmp_path):
    """Whichever way Spark renames them in this session."""
    jvm, settings = spark._jvm, file_settings(spark, str(tmp_path))
    path = jvm.org.apache.hadoop.fs.Path(f"file:{tmp_path}")
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    configuration.set(MANAGER, settings[MANAGER])
    file = tmp_path / "1.changelog"
    file.write_text("before")
    packages = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    manager = getattr(packages, "CheckpointFileManager$").__getattr__("MODULE$").create(path, configuration)
    assert manager.getClass().getName() == settings[MANAGER]
    stream = manager.createAtomic(jvm.org.apache.hadoop.fs.Path(f"file:{file}"), True)
    stream.write(b"after")
    stream.close()
    assert file.read_text() == "after"
    assert [found.name for found in tmp_path.iterdir() if found.name.endswith(".tmp")] == []

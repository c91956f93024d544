"""Sessions with and without the connector, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from holdfast import ops

pytestmark = pytest.mark.night

READ = """
import sys
import holdfast as hf
{session}
source = hf.sources.Kafka(sys.argv[1], sys.argv[2], value=hf.sources.Json("n int"))
try:
    print("rows", sorted(row.n for row in source.read_batch(spark).main.collect()))
except hf.HoldfastError as error:
    print("error", error.what, error.todo)
spark.stop()
"""
OURS = 'spark = hf.session("read", cores=1)'
OWN = """
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.jars", sys.argv[3])
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
"""


@pytest.fixture
def read(kafka):
    topic = kafka.new_topic()
    kafka.put(topic, '{"n":1}', '{"n":2}', "poison")

    def run(session, jars="", **environment):
        command = [sys.executable, "-c", READ.format(session=session), kafka.servers, topic, jars]
        variables = {**os.environ, "PYSPARK_PYTHON": sys.executable, **environment}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_a_session_without_the_jars_says_what_to_run(read, tmp_path):
    told = read(OURS, XDG_CACHE_HOME=str(tmp_path))
    assert told.startswith("error hf.sources.Kafka needs Spark's Kafka connector, which this session does not have. run ")
    assert "holdfast jars kafka" in told


def test_a_session_of_ones_own(read, tmp_path):
    assert read(OWN, jars=ops.jars("kafka").setting) == "rows [1, 2]"


def test_a_session_of_ours(read):
    assert read(OURS) == "rows [1, 2]"

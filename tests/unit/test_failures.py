"""What is made of Spark's reports: the line that says most, and what to do."""

from __future__ import annotations

import sys

import pytest

import holdfast as hf
from holdfast.spark.errors.failures import first_cause, is_worker_trouble, query_failure

CALLBACK = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/env/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
py4j.protocol.Py4JJavaError: An error occurred while calling o420.count.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
	at org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3000)
Caused by: {cause}
	at org.apache.spark.sql.Something.scala:12)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            CALLBACK.format(cause="org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] It is gone."),
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] It is gone.",
        ),
        (CALLBACK.format(cause="java.io.IOException: Mkdirs failed to create x"), "IOException: Mkdirs failed to create x"),
        (CALLBACK.format(cause="java.lang.NullPointerException: "), "NullPointerException"),
        ("Traceback\nModuleNotFoundError: No module named 'shop'\n", "ModuleNotFoundError: No module named 'shop'"),
        (
            "Traceback\nKeyError: 'a'\n\nDuring handling of it:\nshop.errors.CartError: no cart\n",
            "CartError: no cart",
        ),
        (
            "[PATH_NOT_FOUND] Path does not exist: /x. SQLSTATE: 42K03",
            "[PATH_NOT_FOUND] Path does not exist: /x. SQLSTATE: 42K03",
        ),
        ("something unheard of\nand more", "something unheard of"),
        ("", "no reason was given"),
    ],
)
def test_the_line_that_says_most(text, cause):
    assert first_cause(text) == cause


@pytest.mark.parametrize(
    ("reason", "what", "todo"),
    [
        ("java.io.IOException: No space left on device", "a disk is full", "free some space"),
        ("x: ModuleNotFoundError: No module named 'holdfast'", "runs a different Python", "PYSPARK_PYTHON"),
        ("org.apache.spark.SparkException: Python worker failed to connect back.", "could not be started", "less busy"),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", "killed or crashed", "memory"),
        (
            "org.apache.spark.SparkException: [CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] gone",
            "CANNOT_LOAD_STATE_STORE",
            "holdfast checkpoint verify /data/c",
        ),
    ],
)
def test_what_is_known_says_what_to_do(reason, what, todo):
    error = query_failure(CALLBACK.format(cause=reason), "/data/c", "alerts")
    assert isinstance(error, hf.JobFailed)
    assert error.what.startswith("The job 'alerts' failed: ")
    assert what in error.what
    assert todo in error.todo


@pytest.mark.parametrize(("python", "told"), [("/usr/bin/another-python", True), (sys.executable, False)])
def test_workers_of_another_python(monkeypatch, python, told):
    monkeypatch.setenv("PYSPARK_PYTHON", python)
    error = query_failure("Python worker exited unexpectedly (crashed)", "/data/c")
    assert (python in error.todo and "PYSPARK_PYTHON" in error.todo) is told


def test_only_workers_are_workers():
    assert is_worker_trouble(CALLBACK.format(cause="x.SparkException: Python worker failed to connect back."))
    assert is_worker_trouble("TransformWithStateInPySpark driver worker exited unexpectedly (crashed)")
    assert not is_worker_trouble(CALLBACK.format(cause="java.io.IOException: No space left on device"))
    assert not is_worker_trouble("ValueError: bad")

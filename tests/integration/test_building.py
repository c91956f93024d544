"""What is told when a step is built on Spark, and not by a worker some time later."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

import pytest
from pyspark.sql import functions as F

import holdfast as hf
from integration.functions import Count, Priced

EVENTS = "k string, v int, at timestamp"
LOCK = "is a _thread.lock, which cannot be sent to a worker: cannot pickle '_thread.lock' object"


class Locked(hf.CombineFn):
    def __init__(self):
        self.lock = threading.Lock()

    def create_accumulator(self):
        return 0


@pytest.fixture
def stream(feed):
    return hf.keyed(feed(EVENTS).df, key="k", value="v", timestamp="at", watermark="1 minute")


@pytest.fixture
def batch(spark):
    return hf.keyed(spark.createDataFrame([("a", 1)], "k string, v int"), key="k", value="v")


class TestWhatCannotBeSent:
    @pytest.mark.parametrize("kind", ["stream", "batch"])
    def test_is_told_with_the_step_and_the_attribute(self, request, kind):
        class Holding(Count):
            def __init__(self):
                self.client = {"lock": threading.Lock()}

        with pytest.raises(hf.InvalidStep) as raised:
            request.getfixturevalue(kind).par_do(Holding(), output="k string, n int", name="hold")
        assert "The step 'hold' cannot be built" in str(raised.value)
        assert f"Holding.client['lock'] {LOCK}. Make it in setup()" in str(raised.value)

    def test_of_an_aggregation(self, stream):
        windowed = stream.window_into(hf.FixedWindows(60))
        for lift in (True, False):
            with pytest.raises(hf.InvalidStep) as raised:
                windowed.combine_per_key(Locked(), output="n int", lift=lift)
            assert f"Locked.lock {LOCK}. Make it in setup()" in str(raised.value)

    def test_of_a_function_over_groups(self, stream, spark):
        def count(key, values, state):
            return [(key, spark.version)]

        with pytest.raises(hf.InvalidStep) as raised:
            stream.flat_map_groups_with_state(count, "k string, n int")
        told = str(raised.value)
        assert "spark (a variable around count) is a pyspark." in told
        assert "exists only on the driver" in told

    def test_of_a_side_input(self, stream):
        with pytest.raises(hf.InvalidStep) as raised:
            stream.par_do(Priced(), output="k string, v int", side_inputs={"prices": hf.AsDict({"a": threading.Lock()})})
        assert f"The side input 'prices'['a'] {LOCK}. Give plain values" in str(raised.value)


SCRIPT = """
    import holdfast as hf

    class Model:
        pass

    def fit(coder):
        class Fit(hf.DoFn):
            MODEL = hf.ValueStateSpec("model", coder)

            def process(self, element, model=hf.DoFn.StateParam(MODEL)):
                yield element[0], model.read() is not None and isinstance(model.read(), Model)
                model.write(Model())

        return Fit()

    if __name__ == "__main__":
        rows = hf.session("script", cores=1).createDataFrame([("a", 1), ("a", 2)], "k string, v int")
        for coder in (hf.PickleCoder(), hf.CloudpickleCoder()):
            try:
                keyed = hf.keyed(rows, key="k", value="v")
                found = keyed.par_do(fit(coder), output="k string, known boolean", key_groups=1)
                print(sorted(tuple(row) for row in found.collect()))
            except Exception as error:
                print(error)
            print("---")
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the script says with each of the two coders."""
    script = tmp_path_factory.mktemp("script") / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.split("---\n")


class TestPicklesOfTheScript:
    @pytest.mark.night
    def test_are_refused_by_the_worker_in_our_words(self, told):
        assert "the class Model is defined in the script itself, which no worker can import" in told[0]
        assert "Use CloudpickleCoder()" in told[0]

    @pytest.mark.night
    def test_cloudpickle_needs_no_package_and_knows_the_class_again(self, told):
        assert told[1] == "[('a', False), ('a', True)]\n"


class TestMistakes:
    def test_sparks_functions_combine_nothing(self, stream):
        with pytest.raises(hf.InvalidStep, match=r"sum is Spark's function .* give hf.Sum\(\) or builtins.sum"):
            stream.window_into(hf.FixedWindows(60)).combine_per_key(F.sum)
        with pytest.raises(hf.InvalidStep, match="it is a Column of Spark's"):
            stream.window_into(hf.FixedWindows(60)).combine_per_key({"n": F.sum("v")})

    @pytest.mark.parametrize("kind", [hf.AsList, hf.AsSingleton])
    def test_a_stream_is_no_side_input(self, stream, kind):
        with pytest.raises(hf.InvalidStep, match=rf"{kind.__name__} is given a streaming DataFrame.*\.join\(") as raised:
            kind(stream.df)
        assert "AnalysisException" not in str(raised.value)
        with pytest.raises(hf.InvalidStep, match="The side input 'prices' is given a streaming DataFrame"):
            stream.par_do(Priced(), output="k string, v int", side_inputs={"prices": kind(lambda: stream.df)})

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"key": lambda: F.col("k")}, "key is a Column; give the name of one"),
            ({"key": lambda: ["k", F.col("v")]}, "key is a Column"),
            ({"key": None}, "key is None; give the name of a column, or several."),
            ({"key": "k", "value": lambda: F.col("v")}, "value is a Column"),
            ({"key": "k", "timestamp": lambda: F.col("at")}, "timestamp is a Column"),
            ({"key": "k", "timestamp": ["at"]}, r"timestamp is \['at'\]; give the name of a column\."),
            ({"key": "k", "timestamp": "at", "watermark": "soon"}, "watermark is not a duration"),
            ({"key": "k", "timestamp": "at", "watermark": -5}, "watermark is -5; it cannot be negative"),
        ],
    )
    def test_columns_and_watermarks(self, feed, options, says):
        with pytest.raises(hf.InvalidStep, match=says):
            # A Column can only be made while Spark is there.
            hf.keyed(feed(EVENTS).df, **{name: given() if callable(given) else given for name, given in options.items()})

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            ({"window_fn": "1 minute"}, "The windowing is '1 minute'"),
            (
                {"accumulation_mode": "accumulate"},
                "'accumulate'; it can be 'discarding' or 'accumulating'",
            ),
            ({"trigger": "early"}, "The trigger is 'early'"),
            ({"allowed_lateness": "soon"}, "allowed_lateness is not a duration"),
        ],
    )
    def test_windows(self, stream, options, says):
        with pytest.raises(hf.InvalidStep, match=says):
            stream.window_into(**{"window_fn": hf.FixedWindows(60), **options})

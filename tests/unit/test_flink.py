"""Flink's words: what each gives, and what is refused."""

from __future__ import annotations

import pickle
from datetime import timedelta
from decimal import Decimal

import pytest

import holdfast as hf
from holdfast.errors import CoderError, InvalidStep
from holdfast.flink import (
    AggregatingStateDescriptor,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    StreamExecutionEnvironment,
    Time,
    Types,
    ValueStateDescriptor,
)
from holdfast.testing import TestStream, run

A_DAY = hf.Duration.of_hours(24)


def test_the_articles_own_lines():
    """Only the package in the import lines differs."""
    written = """
from pyflink.datastream.state import StateTtlConfig, ValueStateDescriptor
from pyflink.common import Duration, Types

ttl_config = StateTtlConfig \\
    .new_builder(Duration.of_hours(24)) \\
    .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite) \\
    .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired) \\
    .build()

# Apply TTL to a value state descriptor
state_descriptor = ValueStateDescriptor("session_state", Types.STRING())
state_descriptor.enable_time_to_live(ttl_config)
"""
    names: dict[str, object] = {}
    exec(written.replace("pyflink", "holdfast.flink"), names)
    assert names["ttl_config"] == hf.Ttl(A_DAY)
    wanted = hf.ValueStateSpec("session_state", hf.StrUtf8Coder(), ttl="24 hours")
    assert names["state_descriptor"].describe() == wanted.describe()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("made", "seconds"),
    [
        (hf.Duration.of_days(2), 172_800),
        (hf.Duration.of_hours(24), 86_400),
        (hf.Duration.of_minutes(5), 300),
        (hf.Duration.of_seconds(7), 7),
        (hf.Duration.of_millis(1_500), 1.5),
        (hf.Duration.of_hours(0.1), 360),
        (Time.days(2), 172_800),
        (Time.hours(24), 86_400),
        (Time.minutes(5), 300),
        (Time.seconds(7), 7),
        (Time.milliseconds(60_000), 60),
    ],
)
def test_durations_by_their_units(made, seconds):
    assert type(made) is hf.Duration
    assert made == seconds


class TestTtl:
    def builder(self):
        return StateTtlConfig.new_builder(A_DAY)

    def test_without_more_it_is_flinks_default(self):
        assert self.builder().build() == hf.Ttl(A_DAY, refresh="write", expired="never", time="processing")

    def test_the_choices(self):
        read = self.builder().set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
        late = read.set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)
        wanted = hf.Ttl(A_DAY, refresh="read", expired="until_cleaned")
        assert late.build() == wanted
        assert self.builder().update_ttl_on_read_and_write().return_expired_if_not_cleaned_up().build() == wanted
        assert late.update_ttl_on_create_and_write().never_return_expired().use_processing_time().build() == hf.Ttl(A_DAY)
        assert self.builder().set_ttl(Time.minutes(1)).build() == hf.Ttl(Time.minutes(1))

    def test_strategies_of_cleaning_up_are_taken(self):
        built = self.builder().cleanup_full_snapshot().cleanup_incrementally(10, True)
        assert built.cleanup_in_rocksdb_compact_filter(1000).cleanup_in_rocksdb_compact_filter().build() == hf.Ttl(A_DAY)

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda b: b.set_update_type(StateTtlConfig.UpdateType.Disabled), "leave out enable_time_to_live"),
            (lambda b: b.set_update_type("OnReadAndWrite"), "it can be StateTtlConfig.UpdateType.OnCreateAndWrite or "),
            (lambda b: b.set_state_visibility(True), "StateTtlConfig.StateVisibility.NeverReturnExpired"),
            (lambda b: b.set_ttl_time_characteristic("EventTime"), "StateTtlConfig.TtlTimeCharacteristic.ProcessingTime"),
            (lambda b: b.set_ttl(A_DAY * 0), "it must be longer than zero"),
            (lambda b: b.set_ttl(None), "its time to live is not a duration"),
            (lambda b: b.disable_cleanup_in_background(), "expired cells are always swept"),
        ],
    )
    def test_what_is_refused(self, change, said):
        builder = change(self.builder())
        with pytest.raises(InvalidStep) as refused:
            builder.build()
        assert said in str(refused.value)

    def test_all_problems_are_told_together(self):
        with pytest.raises(InvalidStep) as refused:
            self.builder().set_update_type(1).set_state_visibility(2).build()
        assert len(refused.value.problems) == 2


class TestTypes:
    @pytest.mark.parametrize(
        ("coder", "value"),
        [
            (Types.STRING(), "é"),
            (Types.BOOLEAN(), True),
            (Types.BYTE(), -128),
            (Types.SHORT(), 7),
            (Types.INT(), 2**40),
            (Types.LONG(), -(2**63)),
            (Types.BIG_INT(), 2**200),
            (Types.FLOAT(), 0.1),
            (Types.DOUBLE(), -0.0),
            (Types.BIG_DEC(), Decimal("1.10")),
            (Types.INSTANT(), hf.Timestamp(micros=1)),
            (Types.TUPLE([Types.STRING(), Types.INT()]), ("a", 1)),
            (Types.ROW([Types.STRING(), Types.DOUBLE()]), ("a", 1.5)),
            (Types.LIST(Types.INT()), [1, 2]),
            (Types.MAP(Types.STRING(), Types.LIST(Types.INT())), {"a": [1]}),
            (Types.PICKLED_BYTE_ARRAY(), timedelta(1)),
        ],
    )
    def test_a_value_comes_back_as_it_was(self, coder, value):
        back = coder.decode(coder.encode(value))
        assert (back, type(back), repr(back)) == (value, type(value), repr(value))

    def test_another_value_is_refused(self):
        with pytest.raises(CoderError):
            Types.STRING().freeze(5)

    def test_all_have_been_tried(self):
        assert len([name for name in vars(Types) if name.isupper()]) == 16


@pytest.mark.parametrize(
    ("descriptor", "method", "said"),
    [
        (ValueStateDescriptor("c", Types.STRING()), "value", "Flink's value is read here."),
        (ValueStateDescriptor("c", Types.STRING()), "update", "Flink's update is write here."),
        (ListStateDescriptor("c", Types.STRING()), "get", "Flink's get is read here."),
        (ListStateDescriptor("c", Types.STRING()), "update", "which has add, clear, read."),
        (MapStateDescriptor("c", Types.STRING(), Types.INT()), "is_empty", "put, read, remove, values."),
    ],
)
def test_flinks_method_of_a_cell(descriptor, method, said):
    namespace = {"hf": hf, "CELL": descriptor}
    exec(f"def process(self, element, cell=hf.DoFn.StateParam(CELL)):\n    cell.{method}()\n", namespace)
    with pytest.raises(InvalidStep) as refused:
        run(type("Fn", (hf.DoFn,), {"process": namespace["process"]})(), TestStream())
    assert str(refused.value).endswith(said)


class TestEnvironment:
    def test_each_setting_is_an_option_of_a_job(self):
        env = StreamExecutionEnvironment.get_execution_environment()
        assert env.job_options() == {}
        env.enable_checkpointing(1).get_checkpoint_config().set_checkpoint_interval(60_000).set_checkpoint_storage_dir("/c")
        env.get_checkpoint_config().set_min_pause_between_checkpoints(500).set_tolerable_checkpoint_failure_number(3)
        backend = EmbeddedRocksDBStateBackend(True)
        backend.set_db_storage_path("/tmp/flink-state")
        assert env.set_state_backend(backend).job_options() == {
            "checkpoint_interval": hf.Duration(60),
            "checkpoint": "/c",
            "min_pause": hf.Duration(0.5),
            "tolerable_failures": 3,
            "backend": "rocksdb",
            "state_dir": "/tmp/flink-state",
        }
        assert StreamExecutionEnvironment().set_state_backend(HashMapStateBackend()).job_options() == {"backend": "hashmap"}

    def test_all_that_is_refused_is_told_together(self):
        env = StreamExecutionEnvironment()
        env.enable_checkpointing("60 s").set_state_backend("rocksdb").get_checkpoint_config().set_checkpoint_timeout(1)
        with pytest.raises(InvalidStep) as refused:
            env.job_options()
        assert [problem.split()[0] for problem in refused.value.problems] == [
            "enable_checkpointing",
            "set_state_backend",
            "set_checkpoint_timeout",
        ]


class Average:
    """Flink's example of an AggregateFunction."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Larger:
    """Flink's ReduceFunction."""

    def reduce(self, value1, value2):
        return max(value1, value2)


PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class TestDescriptors:
    @pytest.mark.parametrize(
        ("descriptor", "spec"),
        [
            (ValueStateDescriptor("c", Types.LONG()), hf.ValueStateSpec("c", hf.VarIntCoder())),
            (ListStateDescriptor("c", Types.STRING()), hf.BagStateSpec("c", hf.StrUtf8Coder())),
            (
                MapStateDescriptor("c", Types.STRING(), Types.DOUBLE()),
                hf.MapStateSpec("c", hf.StrUtf8Coder(), hf.FloatCoder()),
            ),
        ],
        ids=["value", "list", "map"],
    )
    def test_it_is_stored_like_the_spec(self, descriptor, spec):
        """So a function may go from one to the other with its state."""
        assert descriptor.describe() == spec.describe()
        assert (descriptor.kind, descriptor.live) == (spec.kind, spec.live)
        assert [*descriptor.problems()] == []

    def test_what_cannot_be_a_cell_is_told_when_the_step_is_built(self):
        class Wrong(hf.DoFn):
            VALUE = ValueStateDescriptor("value", str)
            VALUE.enable_time_to_live("24 hours")
            REDUCED = ReducingStateDescriptor("reduced", "max", Types.INT())
            AVERAGE = AggregatingStateDescriptor("average", Larger(), PAIR)

            def process(
                self,
                element,
                value=hf.DoFn.StateParam(VALUE),
                reduced=hf.DoFn.StateParam(REDUCED),
                average=hf.DoFn.StateParam(AVERAGE),
            ):
                yield element

        with pytest.raises(InvalidStep) as refused:
            run(Wrong(), TestStream())
        said = str(refused.value)
        assert "enable_time_to_live was given '24 hours'; give a Ttl" in said
        assert "The cell 'value' has <class 'str'> as its coder" in said
        assert "The function of the cell 'reduced' lacks reduce(value1, value2)." in said
        assert "The function of the cell 'average' lacks create_accumulator and add and get_result and merge." in said

    @pytest.mark.parametrize(
        ("descriptor", "whole"),
        [(ReducingStateDescriptor("c", max, Types.INT()), 7), (AggregatingStateDescriptor("c", Average(), PAIR), 4.0)],
        ids=["reducing", "aggregating"],
    )
    def test_accumulators_are_merged(self, descriptor, whole):
        fn = descriptor.combine_fn
        empty, one, two = fn.create_accumulator(), fn.add_inputs(fn.create_accumulator(), [7]), None
        two = fn.add_inputs(fn.create_accumulator(), [3, 2])
        assert fn.extract_output(fn.merge_accumulators([empty, one, empty, two])) == whole
        assert fn.extract_output(fn.merge_accumulators([])) is None

    def test_a_descriptor_travels(self):
        copied = pickle.loads(pickle.dumps(AggregatingStateDescriptor("c", Average(), PAIR)))
        assert copied.combine_fn.apply([1, 2]) == 1.5

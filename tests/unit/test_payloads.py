"""Payloads: rows as bytes of bounded size, whose order survives however they arrive."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from holdfast.checkpoint.labels import labels  # noqa: E402
from holdfast.spark.stages import pack  # noqa: E402
from holdfast.spark.stages.pack import pack_function, source_by_content  # noqa: E402
from holdfast.spark.stages.payload import PAYLOAD_BYTES_MAX, from_payload, to_payloads  # noqa: E402

KEY_GROUPS = 4


def rows_of(payloads):
    return [row for payload in payloads for batch in from_payload(payload) for row in batch.to_pylist()]


class TestPayloads:
    @pytest.mark.parametrize(
        "text", ["", "x" * 100, "x" * (3 * PAYLOAD_BYTES_MAX)], ids=["small", "many", "larger than a payload"]
    )
    def test_all_rows_in_order_and_of_bounded_size(self, text):
        batch = pa.record_batch(
            {"n": range(20_000 if len(text) < 1000 else 5), "text": [text] * (20_000 if len(text) < 1000 else 5)}
        )
        payloads = to_payloads(batch)
        assert rows_of(payloads) == batch.to_pylist()
        assert all(len(payload) < 2 * PAYLOAD_BYTES_MAX + len(text) for payload in payloads)

    def test_a_part_of_a_batch_has_only_its_own_rows(self):
        batch = pa.record_batch({"n": range(100_000)})
        (payload,) = to_payloads(batch.slice(50_000, 10))
        assert rows_of([payload]) == [{"n": n} for n in range(50_000, 50_010)]
        assert len(payload) < 2_000

    def test_nothing_is_no_payload(self):
        assert to_payloads(pa.record_batch({"n": []})) == []


class TestPack:
    def test_where_tasks_have_other_numbers_in_a_replay_their_rows_say_which_is_which(self, monkeypatch):
        tasks = [
            pa.record_batch([pa.array([0] * 3, pa.int32()), pa.array([n, n + 1, n + 2])], names=["group", "v0"])
            for n in (7, 5)
        ]

        def order(numbers):
            rows = []
            for number, batch in zip(numbers, tasks, strict=True):
                monkeypatch.setattr(
                    pack.TaskContext, "get", lambda number=number: SimpleNamespace(partitionId=lambda: number)
                )
                made = pack_function(1, "test", by_content=True)(iter([batch]))
                rows += [row for rows in made for row in rows.to_pylist() if row["payload"] is not None]
            rows.sort(key=lambda row: (row["source"], row["part"]))
            return [row["v0"] for row in rows_of([row["payload"] for row in rows])]

        assert order([0, 1]) == order([1, 0])

    def test_times_that_python_has_not_can_be_told_apart(self):
        times = pa.array([-(2**62), 2**62], pa.timestamp("us"))
        first, second = (pa.record_batch([times.slice(n, 1)], names=["at"]) for n in (0, 1))
        assert source_by_content(first) < 0
        assert source_by_content(first) != source_by_content(second)

    def test_rows_of_a_group_can_be_put_in_order_again(self):
        """Whatever the shuffle does with them: source and part say it, also where a group has several payloads."""
        count = 200_000
        batches = [
            pa.record_batch([pa.array([n % KEY_GROUPS for n in part], pa.int32()), pa.array(part)], names=["group", "v0"])
            for part in (range(count // 2), range(count // 2, count))
        ]
        packed = [row for batch in pack_function(KEY_GROUPS, "test")(iter(batches)) for row in batch.to_pylist()]
        assert packed.pop(0) == {"label": 0, "source": 0, "part": -1, "payload": None}
        assert len(packed) > 2 * KEY_GROUPS
        random.Random(1).shuffle(packed)
        for group, label in enumerate(labels(KEY_GROUPS)):
            rows = sorted((row["source"], row["part"], row["payload"]) for row in packed if row["label"] == label)
            assert len({part for _, part, _ in rows}) == len(rows)
            assert [row["v0"] for row in rows_of([payload for *_, payload in rows])] == list(range(group, count, KEY_GROUPS))

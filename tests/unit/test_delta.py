"""The sink Delta, without Spark: micro-batches that come again, at the same time, or anew after a rollback."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

import deltalake

import holdfast as hf
from delta_rows import BY_K, SCHEMA, SPARK_SCHEMA, Rows, delta, read, read_log, table_of
from holdfast.spark.sinks import BatchInfo
from holdfast.spark.sinks.delta_history import NoWayBack, version_before


@pytest.fixture(params=["append", "upsert"])
def key(request):
    return BY_K if request.param == "upsert" else None


def versions(folder):
    return table_of(folder).version()


class TestExactlyOnce:
    def test_a_replay_changes_nothing(self, tmp_path, key):
        for info in (BatchInfo("q", 0, "p0"), BatchInfo("q", 1, "p1"), BatchInfo("q", 1, "p1")):
            before = versions(tmp_path) if info.batch_id else -1
            delta(tmp_path, key).write_batch(Rows((f"k{info.batch_id}", info.batch_id)), info)
        assert read(tmp_path) == read_log(tmp_path) == [("k0", 0), ("k1", 1)]
        assert versions(tmp_path) == before, "the second time must commit nothing"

    def test_rows_and_transaction_ids_are_one_commit(self, tmp_path):
        delta(tmp_path).write_batch(Rows(("a", 1)), BatchInfo("q", 7, "plan"))
        [path] = (tmp_path / "rows" / "_delta_log").glob("*1.json")
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        assert sum("add" in action for action in actions) == 1
        ids = {action["txn"]["appId"]: action["txn"] for action in actions if "txn" in action}
        assert ids["holdfast/q/micro-batch"]["version"] == 7
        assert 0 < ids["holdfast/q/plan"]["version"] < 2**63
        assert not any(txn.get("lastUpdated") for txn in ids.values()), "ids with a time may expire"
        [commit] = [action["commitInfo"] for action in actions if "commitInfo" in action]
        assert json.loads(commit["holdfast"]) == {"query": "q", "micro_batch": 7}

    def test_a_micro_batch_without_rows_commits_nothing_and_hides_nothing(self, tmp_path, key):
        sink = delta(tmp_path, key)
        sink.open(None, SPARK_SCHEMA, None)
        assert read(tmp_path) == []
        sink.write_batch(Rows(), BatchInfo("q", 0, "p"))
        before = versions(tmp_path)
        for number in (1, 2, 2):
            sink.write_batch(Rows(), BatchInfo("q", number, f"p{number}"))
        assert versions(tmp_path) == before
        # It was empty, and after a rollback of the checkpoint it no longer is.
        sink.write_batch(Rows(("a", 1)), BatchInfo("q", 2, "anew"))
        assert read(tmp_path) == [("a", 1)]
        # And the other way round: what it had must not stay.
        with pytest.raises(hf.SinkError, match="micro-batches up to 2 of this query, but another 2"):
            sink.write_batch(Rows(), BatchInfo("q", 2, "p2"))

    def test_an_unknown_plan_counts_as_the_same(self, tmp_path):
        for plan in ("", "p", ""):
            delta(tmp_path).write_batch(Rows(("a", 1)), BatchInfo("q", 0, plan))
        assert read(tmp_path) == [("a", 1)]

    def test_what_was_written_is_known_when_the_log_was_cleaned_up(self, tmp_path):
        """Checkpoints of the log keep the transaction ids; the commits with our notes are gone."""
        settings = {"delta.checkpointInterval": "3", "delta.logRetentionDuration": "interval 0 seconds"}
        deltalake.DeltaTable.create(tmp_path / "rows", SCHEMA, configuration=settings)
        for number in range(10):
            delta(tmp_path).write_batch(Rows(("a", number)), BatchInfo("q", number, f"p{number}"))
        table_of(tmp_path).cleanup_metadata()
        assert min(commit["version"] for commit in table_of(tmp_path).history()) > 3
        delta(tmp_path).write_batch(Rows(("a", 9)), BatchInfo("q", 9, "p9"))
        assert read(tmp_path) == [("a", number) for number in range(10)]
        with pytest.raises(hf.SinkError, match="micro-batches up to 9"):
            delta(tmp_path).write_batch(Rows(("b", 9)), BatchInfo("q", 9, "another"))
        with pytest.raises(hf.SinkError, match="the table cannot go back: version 7 is no longer there"):
            delta(tmp_path, take_over=True).write_batch(Rows(("b", 1)), BatchInfo("q", 1, "another"))
        assert len(read(tmp_path)) == 10

    def test_queries_append_beside_each_other(self, tmp_path):
        for query in ("first", "second"):
            delta(tmp_path).write_batch(Rows((query, 1)), BatchInfo(query, 0, "p"))
        assert read(tmp_path) == [("first", 1), ("second", 1)]

    def test_a_table_that_was_removed_is_a_new_one(self, tmp_path):
        delta(tmp_path, BY_K).write_batch(Rows(("a", 1)), BatchInfo("q", 0, "p"))
        shutil.rmtree(tmp_path / "rows")
        delta(tmp_path).write_batch(Rows(("a", 1), ("a", 2)), BatchInfo("q", 0, "p"))
        assert read(tmp_path) == [("a", 1), ("a", 2)]


class Late(hf.sinks.Delta):
    """Lets something happen to the table after it was looked at, and before it is written."""

    def __init__(self, path, meanwhile, **options):
        super().__init__(path, **options)
        self.meanwhile = [meanwhile]

    def _put(self, *arguments):
        while self.meanwhile:
            self.meanwhile.pop()()
        super()._put(*arguments)


def late(folder, key, meanwhile, **options):
    sink = Late(folder / "rows", meanwhile, **options)
    return sink if key is None else sink.upserting(key)


class TestOthersAtTheSameTime:
    def test_a_process_that_was_taken_for_dead_writes_the_same(self, tmp_path, key):
        delta(tmp_path, key).write_batch(Rows(("z", 0)), BatchInfo("q", 0, "p0"))
        info, rows = BatchInfo("q", 1, "p1"), Rows(("a", 1), ("b", 1))
        late(tmp_path, key, lambda: delta(tmp_path, key).write_batch(rows, info)).write_batch(rows, info)
        assert read(tmp_path) == [("a", 1), ("b", 1), ("z", 0)]

    def test_its_successor_has_gone_on(self, tmp_path, key):
        delta(tmp_path, key).write_batch(Rows(("z", 0)), BatchInfo("q", 0, "p0"))

        def successor():
            for number in (1, 2):
                delta(tmp_path, key).write_batch(Rows(("a", number)), BatchInfo("q", number, f"p{number}"))

        with pytest.raises(hf.SinkError, match="micro-batches up to 2 of this query, but another 1"):
            late(tmp_path, key, successor).write_batch(Rows(("a", 1)), BatchInfo("q", 1, "p1"))
        assert read(tmp_path) == ([("a", 1), ("a", 2), ("z", 0)] if key is None else [("a", 2), ("z", 0)])

    def test_it_had_leave_to_take_over(self, tmp_path, key):
        """That was for its first micro-batch: it must not undo what its successor has written."""
        zombie = delta(tmp_path, key, take_over=True)
        zombie.write_batch(Rows(("z", 0)), BatchInfo("q", 0, "p0"))
        for number in (1, 2):
            delta(tmp_path, key).write_batch(Rows(("a", number)), BatchInfo("q", number, f"p{number}"))
        with pytest.raises(hf.SinkError, match="micro-batches up to 2"):
            zombie.write_batch(Rows(("a", 10)), BatchInfo("q", 1, "another"))
        assert ("a", 2) in read(tmp_path)

    def test_another_query_appends(self, tmp_path):
        delta(tmp_path).write_batch(Rows(("z", 0)), BatchInfo("q", 0, "p0"))
        other = lambda: delta(tmp_path).write_batch(Rows(("b", 1)), BatchInfo("other", 1, "p1"))  # noqa: E731
        late(tmp_path, None, other).write_batch(Rows(("a", 1)), BatchInfo("q", 1, "p1"))
        assert read(tmp_path) == [("a", 1), ("b", 1), ("z", 0)]

    def test_another_query_takes_the_table_while_it_is_upserted(self, tmp_path):
        delta(tmp_path, BY_K).write_batch(Rows(("a", 0)), BatchInfo("q", 0, "p0"))
        take = lambda: delta(tmp_path, BY_K, take_over=True).write_batch(Rows(("b", 1)), BatchInfo("o", 0))  # noqa: E731
        with pytest.raises(hf.SinkError, match="has the rows of the query o,"):
            late(tmp_path, BY_K, take).write_batch(Rows(("a", 1)), BatchInfo("q", 1, "p1"))
        assert read(tmp_path) == [("b", 1)]

    def test_files_are_put_together_while_a_table_is_upserted(self, tmp_path):
        for number in range(4):
            delta(tmp_path, BY_K).write_batch(Rows((f"k{number}", 0)), BatchInfo("q", number, f"p{number}"))
        compact = lambda: table_of(tmp_path).optimize.compact()  # noqa: E731
        late(tmp_path, BY_K, compact).write_batch(Rows(("k1", 1), ("x", 1)), BatchInfo("q", 4, "p4"))
        assert read(tmp_path) == [("k0", 0), ("k1", 1), ("k2", 0), ("k3", 0), ("x", 1)]

    def test_a_column_is_added_meanwhile(self, tmp_path):
        delta(tmp_path).write_batch(Rows(("a", 0)), BatchInfo("q", 0, "p0"))
        more = [deltalake.Field("more", "string")]
        with pytest.raises(hf.SinkError, match="does not fit the rows") as refused:
            late(tmp_path, None, lambda: table_of(tmp_path).alter.add_columns(more)).write_batch(
                Rows(("a", 1)), BatchInfo("q", 1, "p1")
            )
        assert refused.value.detail == "The rows have no column 'more'."
        assert len(read(tmp_path)) == 1

    def test_others_never_stop(self, tmp_path):
        class Crowded(hf.sinks.Delta):
            def _put(self, *arguments):
                table_of(tmp_path).alter.set_table_properties({"delta.appendOnly": "false"})
                super()._put(*arguments)

        delta(tmp_path, BY_K).write_batch(Rows(("a", 0)), BatchInfo("q", 0))
        with pytest.raises(hf.SinkError, match="others keep committing to it"):
            Crowded(tmp_path / "rows").upserting(BY_K).write_batch(Rows(("a", 1)), BatchInfo("q", 1))
        assert read(tmp_path) == [("a", 0)]


RIVAL = """
import sys, time
import pyarrow as pa
import holdfast as hf
from holdfast.spark.sinks import BatchInfo, Upsert

path, mode, query, batches = sys.argv[1:]


class Rows:
    def __init__(self, number):
        self.number = number

    def toArrow(self):
        return pa.table({"k": [f"k{n}" for n in range(5)], "n": pa.array([self.number] * 5, pa.int64())})


sink = hf.sinks.Delta(path)
sink = sink if mode == "append" else sink.upserting(Upsert(("k",)))
for number in range(int(batches)):
    print("ready", flush=True)
    sys.stdin.readline()
    sink.write_batch(Rows(number), BatchInfo(query, number, f"plan {number}"))
print("done", flush=True)
"""


def race(folder, mode, queries, batches):
    """Processes, one for each query that is named, write the same micro-batches, all at the same moment."""
    rivals = [
        subprocess.Popen(
            [sys.executable, "-c", RIVAL, str(folder / "rows"), mode, query, str(batches)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for query in queries
    ]
    try:
        for _ in range(batches):
            assert [rival.stdout.readline() for rival in rivals] == ["ready\n"] * len(rivals)
            for rival in rivals:
                rival.stdin.write("go\n")
                rival.stdin.flush()
        ends = [rival.communicate(timeout=120) for rival in rivals]
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()
    assert [out for out, _ in ends] == ["done\n"] * len(rivals), ends


@pytest.mark.slow
class TestProcesses:
    BATCHES = 12

    @pytest.mark.parametrize("key", [pytest.param("append", marks=pytest.mark.night), "upsert"], indirect=True)
    def test_two_with_the_same_micro_batches(self, tmp_path, key):
        race(tmp_path, "append" if key is None else "upsert", ["q", "q"], self.BATCHES)
        newest = range(self.BATCHES) if key is None else [self.BATCHES - 1]
        assert read(tmp_path) == sorted((f"k{n}", number) for number in newest for n in range(5))
        assert read_log(tmp_path) == read(tmp_path)

    def test_two_queries_append(self, tmp_path):
        race(tmp_path, "append", ["q", "other"], self.BATCHES)
        assert read(tmp_path) == sorted((f"k{n}", number) for number in range(self.BATCHES) for n in range(5) for _ in "ab")


def write_three(folder, key):
    for number in range(3):
        delta(folder, key).write_batch(Rows(("a", number), (f"only {number}", number)), BatchInfo("q", number, f"p{number}"))


class TestRollback:
    def test_it_is_noticed_and_taken_over_exactly(self, tmp_path, key):
        write_three(tmp_path, key)
        before = read(tmp_path)
        again = BatchInfo("q", 1, "another")
        with pytest.raises(hf.SinkError, match="micro-batches up to 2 of this query, but another 1") as refused:
            delta(tmp_path, key).write_batch(Rows(("a", 10)), again)
        assert "take_over=True" in refused.value.todo
        assert read(tmp_path) == before
        taking = delta(tmp_path, key, take_over=True)
        taking.write_batch(Rows(("a", 10)), again)
        wanted = [("a", 0), ("a", 10), ("only 0", 0)] if key is None else [("a", 10), ("only 0", 0)]
        assert read(tmp_path) == read_log(tmp_path) == wanted, "values that had been replaced return"
        for _ in range(2):
            taking.write_batch(Rows(("x", 11)), BatchInfo("q", 2, "p2 anew"))
        delta(tmp_path, key).write_batch(Rows(("y", 12)), BatchInfo("q", 3, "p3"))
        assert read(tmp_path) == [*wanted, ("x", 11), ("y", 12)]

    def test_again_and_further_back(self, tmp_path, key):
        write_three(tmp_path, key)
        delta(tmp_path, key, take_over=True).write_batch(Rows(("a", 20)), BatchInfo("q", 2, "second"))
        delta(tmp_path, key).write_batch(Rows(("b", 30)), BatchInfo("q", 3, "p3"))
        delta(tmp_path, key, take_over=True).write_batch(Rows(("c", 10)), BatchInfo("q", 1, "third"))
        assert read(tmp_path) == [("a", 0), ("c", 10), ("only 0", 0)]
        delta(tmp_path, key, take_over=True).write_batch(Rows(("d", 1)), BatchInfo("q", 0, "fourth"))
        assert read(tmp_path) == [("d", 1)]

    def test_the_last_one_comes_with_another_plan(self, tmp_path, key):
        write_three(tmp_path, key)
        with pytest.raises(hf.SinkError, match="up to 2 of this query, but another 2"):
            delta(tmp_path, key).write_batch(Rows(("new", 2)), BatchInfo("q", 2, "another"))

    def test_it_is_killed_between_going_back_and_writing(self, tmp_path, key):
        """What was restored says which micro-batch it has: without leave to take over, the job goes on."""

        class Killed(hf.sinks.Delta):
            def _put(self, *arguments):
                raise KeyboardInterrupt

        write_three(tmp_path, key)
        killed = Killed(tmp_path / "rows", take_over=True)
        with pytest.raises(KeyboardInterrupt):
            (killed if key is None else killed.upserting(key)).write_batch(Rows(("a", 9)), BatchInfo("q", 1, "another"))
        assert read(tmp_path) == [("a", 0), ("only 0", 0)]
        # Micro-batch 0 is there, with its plan: the same is skipped, and another is not taken for it.
        delta(tmp_path, key).write_batch(Rows(("a", 0), ("only 0", 0)), BatchInfo("q", 0, "p0"))
        with pytest.raises(hf.SinkError, match="up to 0 of this query, but another 0"):
            delta(tmp_path, key).write_batch(Rows(("a", 5)), BatchInfo("q", 0, "another"))
        delta(tmp_path, key).write_batch(Rows(("b", 9)), BatchInfo("q", 1, "another"))
        assert read(tmp_path) == [("a", 0), ("b", 9), ("only 0", 0)]

    def test_a_micro_batch_without_rows_goes_back_too(self, tmp_path, key):
        write_three(tmp_path, key)
        delta(tmp_path, key, take_over=True).write_batch(Rows(), BatchInfo("q", 1, "another"))
        assert read(tmp_path) == [("a", 0), ("only 0", 0)]
        delta(tmp_path, key).write_batch(Rows(("b", 2)), BatchInfo("q", 2, "p2 anew"))
        assert read(tmp_path) == [("a", 0), ("b", 2), ("only 0", 0)]

    def test_others_have_appended_since(self, tmp_path):
        write_three(tmp_path, None)
        delta(tmp_path).write_batch(Rows(("other", 0)), BatchInfo("other", 0, "p"))
        before = read(tmp_path)
        again = BatchInfo("q", 1, "another")
        with pytest.raises(hf.SinkError, match=r"others have changed the table since \(WRITE in version 4\)") as refused:
            delta(tmp_path, take_over=True).write_batch(Rows(("a", 9)), again)
        assert read(tmp_path) == before
        # What the message says does help.
        version = int(re.search(r"restore\((\d+)\)", refused.value.todo)[1])
        table_of(tmp_path).restore(version)
        delta(tmp_path, take_over=True).write_batch(Rows(("a", 9)), again)
        assert read(tmp_path) == [("a", 0), ("a", 9), ("only 0", 0)]

    def test_what_others_did_before_stays(self, tmp_path, key):
        write_three(tmp_path, key)
        table_of(tmp_path).delete("k = 'only 0'")
        delta(tmp_path, key).write_batch(Rows(("b", 3)), BatchInfo("q", 3, "p3"))
        before = read(tmp_path)
        delta(tmp_path, key, take_over=True).write_batch(Rows(("c", 3)), BatchInfo("q", 3, "another"))
        assert read(tmp_path) == sorted({*before, ("c", 3)} - {("b", 3)})
        assert ("only 0", 0) not in read(tmp_path)
        with pytest.raises(hf.SinkError, match=r"others have changed the table since \(DELETE"):
            delta(tmp_path, key, take_over=True).write_batch(Rows(("c", 3)), BatchInfo("q", 1, "another"))

    def test_maintenance_is_no_change(self, tmp_path, key):
        write_three(tmp_path, key)
        table_of(tmp_path).optimize.compact()
        table_of(tmp_path).vacuum(dry_run=False)
        delta(tmp_path, key, take_over=True).write_batch(Rows(("c", 3)), BatchInfo("q", 1, "another"))
        assert read(tmp_path) == [("a", 0), ("c", 3), ("only 0", 0)]

    def test_files_that_are_gone(self, tmp_path):
        write_three(tmp_path, BY_K)
        table_of(tmp_path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        before = read(tmp_path)
        with pytest.raises(hf.SinkError, match="the table cannot go back: version 2 is no longer there"):
            delta(tmp_path, BY_K, take_over=True).write_batch(Rows(("c", 3)), BatchInfo("q", 1, "another"))
        assert read(tmp_path) == before

    def test_a_history_that_somebody_has_made_strange(self):
        def commit(version, operation="WRITE", query=None, batch=None, **more):
            note = {} if query is None else {"holdfast": json.dumps({"query": query, "micro_batch": batch})}
            return {"version": version, "operation": operation, **note, **more}

        ours = [commit(n, query="q", batch=n) for n in (1, 2, 3)]
        assert version_before(ours, 3, "q", 2) == 1
        strange = [commit(4, "RESTORE", operationParameters={"timestamp": "x"}), commit(4, holdfast=7), commit(4, None)]
        for stranger in strange:
            with pytest.raises(NoWayBack, match="in version 4"):
                version_before([*ours, stranger], 4, "q", 2)
        # What lies between a restore and the version that it restored is no longer in the table.
        undone = commit(5, "RESTORE", operationParameters={"version": "2"})
        assert version_before([*ours, commit(4), undone], 5, "q", 3) == 2
        assert version_before([*ours, commit(4), undone], 5, "q", 2) == 1


class TestTwoJobsOfOneQuery:
    """A savepoint was restored with its query id, and has taken over the table, while the job that it is of goes on."""

    @pytest.fixture
    def sinks(self, tmp_path, key):
        old, new = delta(tmp_path, key), delta(tmp_path, key, take_over=True)
        old.open(None, SPARK_SCHEMA, "q")
        for number in range(4):
            old.write_batch(Rows(("old", number)), BatchInfo("q", number, f"p{number}"))
        new.open(None, SPARK_SCHEMA, "q")
        new.write_batch(Rows(("new", 1)), BatchInfo("q", 1, "anew 1"))
        return old, new

    def test_the_old_one_is_told(self, tmp_path, sinks):
        old, new = sinks
        with pytest.raises(hf.SinkError, match="has micro-batch 1 of another job with the same query id; 4 of this one"):
            old.write_batch(Rows(("old", 4)), BatchInfo("q", 4, "p4"))
        # One without rows leaves no trace in the table.
        new.write_batch(Rows(), BatchInfo("q", 2, "anew 2"))
        new.write_batch(Rows(("new", 3)), BatchInfo("q", 3, "anew 3"))
        with pytest.raises(hf.SinkError, match="has micro-batch 3 of another job"):
            old.write_batch(Rows(("old", 4)), BatchInfo("q", 4, "p4"))
        assert ("old", 4) not in read(tmp_path)
        assert ("new", 3) in read(tmp_path)

    def test_and_when_it_is_started_again(self, tmp_path, key, sinks):
        """Then it remembers nothing, but its checkpoint does."""
        old, new = sinks
        before = read(tmp_path)
        for again in (old, delta(tmp_path, key)):
            again.open(None, SPARK_SCHEMA, "q")
            with pytest.raises(hf.SinkError, match="has micro-batch 1 of another job"):
                again.write_batch(Rows(("old", 4)), BatchInfo("q", 4, "p4", lambda number: f"p{number}"))
        assert read(tmp_path) == before
        new.open(None, SPARK_SCHEMA, "q")
        new.write_batch(Rows(("new", 2)), BatchInfo("q", 2, "anew 2", lambda number: f"anew {number}"))
        assert ("new", 2) in read(tmp_path)

    def test_one_whose_rows_are_gone_although_the_last_one_is_its_own(self, tmp_path, key):
        """The savepoint had micro-batch 1 as planned: the restored job writes it as the old one did, and no more."""
        plans = {number: f"p{number}" for number in range(5)}

        def old(number, **options):
            info = BatchInfo("q", number, f"p{number}", lambda n: plans.get(n, ""))
            delta(tmp_path, key, **options).write_batch(Rows(("old", number)), info)

        for number in range(4):
            old(number)
        restored = {0: "p0", 1: "p1"}
        taking = delta(tmp_path, key, take_over=True)
        taking.write_batch(Rows(("old", 1)), BatchInfo("q", 1, "p1", lambda n: restored.get(n, "")))
        before = read(tmp_path)
        for number, options in ((4, {}), (4, {"take_over": True}), (3, {})):
            with pytest.raises(hf.SinkError, match="has micro-batch 1 of another job with the same query id"):
                old(number, **options)
        assert read(tmp_path) == before
        restored |= {2: "rescaled", 3: "anew 3"}
        info = BatchInfo("q", 3, "anew 3", lambda n: restored.get(n, ""))
        delta(tmp_path, key).write_batch(Rows(("new", 3)), info)
        assert ("new", 3) in read(tmp_path)

    def test_one_below_whose_next_micro_batch_are_rows_of_another(self, tmp_path, key):
        """Its checkpoint was restored after micro-batch 0, and rescaled, which took the number 1."""
        for number in range(4):
            delta(tmp_path, key).write_batch(Rows(("old", number)), BatchInfo("q", number, f"p{number}"))
        before, taking = read(tmp_path), delta(tmp_path, key, take_over=True)
        taking.open(None, SPARK_SCHEMA, "q")
        plans = {0: "p0", 1: "rescaled", 2: "anew 2"}
        with pytest.raises(hf.SinkError, match="has micro-batch 1 of another job with the same query id; 2 of this"):
            taking.write_batch(Rows(("new", 2)), BatchInfo("q", 2, "anew 2", plans.__getitem__))
        assert read(tmp_path) == before

    def test_one_that_is_started_again_does_not_take_over_again(self, tmp_path, key):
        """After a failure a job starts with the same sink."""
        old, new = (delta(tmp_path, key, take_over=True) for _ in range(2))
        old.open(None, SPARK_SCHEMA, "q")
        for number in range(2):
            old.write_batch(Rows(("old", number)), BatchInfo("q", number, f"p{number}"))
        new.open(None, SPARK_SCHEMA, "q")
        for number in (1, 2):
            new.write_batch(Rows(("new", number)), BatchInfo("q", number, f"anew {number}"))
        before = read(tmp_path)
        old.open(None, SPARK_SCHEMA, "q")
        with pytest.raises(hf.SinkError, match="micro-batches up to 2") as refused:
            old.write_batch(Rows(("old", 2)), BatchInfo("q", 2, "p2"))
        assert "make a new sink" in refused.value.todo
        assert read(tmp_path) == before

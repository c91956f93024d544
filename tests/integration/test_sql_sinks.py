"""Sinks for SQL databases: whose micro-batch it is, what is there already, and that nothing is lost, doubled or altered. One
suite for all of them, on real databases."""

from __future__ import annotations

import threading
import uuid

import pyarrow as pa
import pytest
from pyspark.sql import types as t

import holdfast as hf
from holdfast.spark.sinks import BatchInfo, Upsert
from integration.sql_places import DuckDBPlace, Rows, rows

BY_K = Upsert(("k",))
SCHEMA = t.StructType([t.StructField("k", t.StringType()), t.StructField("n", t.LongType())])


@pytest.fixture(params=["duckdb", "postgres"])
def place(request, tmp_path):
    return request.getfixturevalue("postgres") if request.param == "postgres" else DuckDBPlace(tmp_path)


def write(sink, batch, *values, query="q", plan="plan"):
    sink.write_batch(rows(*values), BatchInfo(query, batch, plan))


class TestAppend:
    def test_a_replay_changes_nothing(self, place):
        for batch in (0, 1, 1):
            write(place.sink(), batch, ("a", batch), ("a", batch))
        assert place.rows() == [("a", 0), ("a", 0), ("a", 1), ("a", 1)]
        noted = place.execute("SELECT sink, query_id, batch_id, plan, row_count FROM holdfast_batches")
        assert noted == [("counts", "q", 1, "plan", 2)]

    def test_a_micro_batch_without_rows_is_noted(self, place):
        write(place.sink(), 0)
        write(place.sink(), 0, ("a", 1))
        assert place.rows() == []

    def test_queries_have_their_own_micro_batches_in_one_table(self, place):
        for query in ("first", "second"):
            write(place.sink(), 0, (query, 1), query=query)
        write(place.sink("others"), 0, ("x", 1), query="first")
        assert place.rows() == [("first", 1), ("second", 1)]
        assert place.rows("others") == [("x", 1)]

    def test_a_checkpoint_that_was_rolled_back_is_refused(self, place):
        for batch in range(3):
            write(place.sink(), batch, ("old", batch), plan=f"p{batch}")
        for plan in ("p1", "another"):
            with pytest.raises(hf.SinkError, match="micro-batches up to 2 of this query, but another 1") as refused:
                write(place.sink(), 1, ("new", 1), plan=plan)
            assert "by hand; or give another table" in refused.value.todo
        with pytest.raises(hf.SinkError, match="written without batch_column") as refused:
            write(place.sink(take_over=True), 1, ("new", 1), plan="another")
        assert "batch_column=" in refused.value.todo
        assert place.rows() == [("old", 0), ("old", 1), ("old", 2)]

    def test_with_a_column_for_the_micro_batch_its_rows_are_taken_back(self, place):
        for query in ("q", "other"):
            for batch in range(3):
                write(place.sink(batch_column="batch"), batch, (query, batch), query=query, plan=f"p{batch}")
        with pytest.raises(hf.SinkError, match="micro-batches up to 2") as refused:
            write(place.sink(batch_column="batch"), 1, ("q", 10), plan="another")
        assert "batch_column='batch', take_over=True" in refused.value.todo
        taking = place.sink(batch_column="batch", take_over=True)
        for _ in range(2):
            write(taking, 1, ("q", 10), ("q", 11), plan="another")
        write(taking, 2, ("q", 20), plan="p2 anew")
        assert place.rows(columns="k, n") == sorted(
            [*[("other", n) for n in range(3)], *[("q", n) for n in (0, 10, 11, 20)]]
        )
        [(marked, _)] = place.execute(
            "SELECT b.id, b.batch_id FROM holdfast_batches b JOIN counts c ON c.batch = b.id WHERE n = 20"
        )
        assert isinstance(marked, uuid.UUID)

    def test_only_the_first_micro_batch_takes_over(self, place):
        """A driver that is long replaced, and comes back, must not take away what its successor wrote."""
        late, successor = place.sink(batch_column="b", take_over=True), place.sink(batch_column="b")
        write(late, 0, ("a", 0), plan="p0")
        for batch in (1, 2):
            write(successor, batch, ("a", batch), plan=f"p{batch}")
        with pytest.raises(hf.SinkError, match="micro-batches up to 2"):
            write(late, 1, ("a", 1), plan="p1")
        assert place.rows(columns="k, n") == [("a", 0), ("a", 1), ("a", 2)]

    def test_what_others_have_written_since_it_was_opened_is_not_taken_over(self, place):
        for batch in range(3):
            write(place.sink(batch_column="b"), batch, ("a", batch), plan=f"p{batch}")
        late, successor = (place.sink(batch_column="b", take_over=True) for _ in range(2))
        for sink in (late, successor):
            sink.open(None, SCHEMA, "q")
        for batch in (1, 2):
            write(successor, batch, ("a", 10 * batch), plan=f"p{batch} anew")
        with pytest.raises(hf.SinkError, match="micro-batches up to 2"):
            write(late, 1, ("a", 10), plan="p1 anew")
        assert place.rows(columns="k, n") == [("a", 0), ("a", 10), ("a", 20)]

    def test_rows_that_another_column_marks(self, place):
        write(place.sink(batch_column="x"), 0, ("a", 1), plan="p")
        place.execute("ALTER TABLE counts ADD COLUMN y uuid", "ALTER TABLE counts ALTER COLUMN x DROP NOT NULL")
        place.execute("ALTER TABLE counts ALTER COLUMN x SET DEFAULT NULL")
        with pytest.raises(hf.SinkError, match=r"with batch_column='x'|has other columns"):
            write(place.sink(batch_column="y", take_over=True), 0, ("a", 2), plan="another")
        assert place.rows(columns="k, n") == [("a", 1)]

    def test_a_plan_that_is_not_known_counts_as_the_same(self, place):
        write(place.sink(), 0, ("a", 0), plan="")
        write(place.sink(), 0, ("a", 0), plan="p")
        assert place.rows() == [("a", 0)]


def noted(place, query="q"):
    """The numbers of the micro-batches that have a note, but for one that was taken back."""
    found = place.execute(
        f"SELECT batch_id FROM holdfast_batches WHERE query_id = '{query}' AND row_count >= 0 ORDER BY batch_id"
    )
    return [number for [number] in found]


class TestNotes:
    """They do not grow without bound, and whatever may still be asked of them is there."""

    def test_of_rows_that_are_not_marked_two_are_enough(self, place):
        for batch, values in enumerate([[("a", 0)], [("a", 1)], [], [], [("a", 4)], [], []]):
            write(place.sink(), batch, *values, plan=f"p{batch}")
            write(place.sink(), batch, *values, query="other", plan=f"p{batch}")
        assert noted(place) == noted(place, "other") == [4, 6]
        with pytest.raises(hf.SinkError, match="written without batch_column"):
            write(place.sink(take_over=True), 4, ("a", 40), plan="anew")
        # Since 4 there are no rows that would have to go.
        write(place.sink(take_over=True), 5, ("a", 50), plan="anew")
        assert place.rows() == sorted([("a", 0), ("a", 1), ("a", 4)] * 2 + [("a", 50)])
        assert noted(place) == [5]

    def test_of_upserted_rows_the_last_is_enough(self, place):
        for batch in range(4):
            write(place.sink().upserting(BY_K), batch, ("a", batch), plan=f"p{batch}")
        assert noted(place) == [3]
        with pytest.raises(hf.SinkError, match="micro-batches up to 3"):
            write(place.sink().upserting(BY_K), 1, ("a", 10), plan="anew")
        write(place.sink(take_over=True).upserting(BY_K), 1, ("a", 10), plan="anew")
        assert (place.rows(), noted(place)) == ([("a", 10)], [1])

    def test_of_marked_rows_all_are_kept(self, place):
        for batch, values in enumerate([[("a", 0)], [("a", 1)], [], [("a", 3)], [], []]):
            write(place.sink(batch_column="b"), batch, *values, plan=f"p{batch}")
        assert noted(place) == [0, 1, 3, 5]
        write(place.sink(batch_column="b", take_over=True), 1, ("a", 10), plan="anew")
        assert (place.rows(columns="k, n"), noted(place)) == ([("a", 0), ("a", 10)], [0, 1])

    def test_rows_from_before_they_were_marked(self, place):
        write(place.sink(), 0, ("a", 0), plan="p0")
        place.execute("ALTER TABLE counts ADD COLUMN b uuid")
        for batch in (1, 2, 3):
            write(place.sink(batch_column="b"), batch, ("a", batch), plan=f"p{batch}")
        assert noted(place) == [0, 1, 2, 3]
        with pytest.raises(hf.SinkError, match="written without batch_column"):
            write(place.sink(batch_column="b", take_over=True), 0, ("a", 10), plan="anew")
        write(place.sink(batch_column="b", take_over=True), 2, ("a", 20), plan="anew")
        assert place.rows(columns="k, n") == [("a", 0), ("a", 1), ("a", 20)]


class TestTwoJobsOfOneQuery:
    """A savepoint was restored with its query id, and taken over the table, while the job that it is of goes on."""

    @pytest.fixture
    def sinks(self, place):
        """The one of the job that goes on, and the one of the restored job, which has taken over from micro-batch 1 on."""
        old = place.sink(batch_column="b")
        old.open(None, SCHEMA, "q")
        for batch in range(4):
            write(old, batch, ("old", batch), plan=f"p{batch}")
        new = place.sink(batch_column="b", take_over=True)
        new.open(None, SCHEMA, "q")
        write(new, 1, ("new", 1), plan="anew 1")
        return old, new

    def test_the_old_one_is_told(self, place, sinks):
        old, new = sinks
        with pytest.raises(hf.SinkError, match="has micro-batch 1 of another job with the same query id; 4 of this one"):
            write(old, 4, ("old", 4), plan="p4")
        for batch in (2, 3, 4):
            write(new, batch, ("new", batch), plan=f"anew {batch}")
        with pytest.raises(hf.SinkError, match="has micro-batch 4 of another job"):
            write(old, 5, ("old", 5), plan="p5")
        assert place.rows(columns="k, n") == [("new", n) for n in (1, 2, 3, 4)] + [("old", 0)]

    def test_and_when_it_is_started_again(self, place, sinks):
        """Then it remembers nothing, but its checkpoint does."""
        old, new = sinks
        plans = BatchInfo("q", 4, "p4", lambda number: f"p{number}")
        for again in (old, place.sink(batch_column="b")):
            again.open(None, SCHEMA, "q")
            with pytest.raises(hf.SinkError, match="has micro-batch 1 of another job"):
                again.write_batch(rows(("old", 4)), plans)
        new.open(None, SCHEMA, "q")
        new.write_batch(rows(("new", 2)), BatchInfo("q", 2, "anew 2", lambda number: f"anew {number}"))
        assert place.rows(columns="k, n") == [("new", 1), ("new", 2), ("old", 0)]

    def test_one_that_is_started_again_does_not_take_over_again(self, place):
        """After a failure a job starts with the same sink."""
        old = place.sink(batch_column="b", take_over=True)
        old.open(None, SCHEMA, "q")
        for batch in range(2):
            write(old, batch, ("old", batch), plan=f"p{batch}")
        new = place.sink(batch_column="b", take_over=True)
        new.open(None, SCHEMA, "q")
        for batch in (1, 2):
            write(new, batch, ("new", batch), plan=f"anew {batch}")
        old.open(None, SCHEMA, "q")
        with pytest.raises(hf.SinkError, match="micro-batches up to 2") as refused:
            write(old, 2, ("old", 2), plan="p2")
        assert "make a new sink" in refused.value.todo
        assert place.rows(columns="k, n") == [("new", 1), ("new", 2), ("old", 0)]

    def test_one_whose_rows_are_gone_although_the_last_one_is_its_own(self, place):
        """The savepoint had micro-batch 1 as planned: the restored job writes it as the old one did, and no more."""
        plans = {number: f"p{number}" for number in range(5)}

        def old(number, **options):
            sink = place.sink(batch_column="b", **options)
            sink.write_batch(rows(("old", number)), BatchInfo("q", number, f"p{number}", lambda n: plans.get(n, "")))

        for number in range(4):
            old(number)
        restored = {0: "p0", 1: "p1"}
        taking = place.sink(batch_column="b", take_over=True)
        taking.write_batch(rows(("old", 1)), BatchInfo("q", 1, "p1", lambda n: restored.get(n, "")))
        assert place.rows(columns="k, n") == [("old", 0), ("old", 1)]
        for number, options in ((4, {}), (4, {"take_over": True}), (3, {})):
            with pytest.raises(hf.SinkError, match="has micro-batch 1 of another job with the same query id"):
                old(number, **options)
        # Rescaled, which took the number 2.
        restored |= {2: "rescaled", 3: "anew 3"}
        again = place.sink(batch_column="b")
        again.write_batch(rows(("new", 3)), BatchInfo("q", 3, "anew 3", lambda n: restored.get(n, "")))
        assert place.rows(columns="k, n") == [("new", 3), ("old", 0), ("old", 1)]
        assert place.execute("SELECT count(*) FROM holdfast_batches WHERE row_count < 0") == [(0,)]

    def test_one_below_whose_next_micro_batch_are_rows_of_another(self, place):
        """Its checkpoint was restored after micro-batch 0, and rescaled, which took the number 1. What comes from 2 on
        may be taken over, but the old job's 1 would stay."""
        for batch in range(4):
            write(place.sink(batch_column="b"), batch, ("old", batch), plan=f"p{batch}")
        taking = place.sink(batch_column="b", take_over=True)
        taking.open(None, SCHEMA, "q")
        plans = {0: "p0", 1: "rescaled", 2: "anew 2"}
        with pytest.raises(
            hf.SinkError, match="has micro-batch 1 of another job with the same query id; 2 of this"
        ) as refused:
            taking.write_batch(rows(("new", 2)), BatchInfo("q", 2, "anew 2", plans.__getitem__))
        assert "restore it with --partitions instead" in refused.value.todo
        assert place.rows(columns="k, n") == [("old", n) for n in range(4)]

    def test_who_goes_on_with_the_same_checkpoint_is_no_other(self, place):
        """Also if it is another process, and this one comes again after it."""
        first, second = place.sink(), place.sink()
        for batch, sink in ((0, first), (1, second), (3, first)):
            sink.open(None, SCHEMA, "q")
            sink.write_batch(rows(("a", batch)), BatchInfo("q", batch, f"p{batch}", lambda number: f"p{number}"))
        second.open(None, SCHEMA, "q")
        # Of 3 nothing is known any more.
        second.write_batch(rows(("a", 9)), BatchInfo("q", 9, "p9", lambda number: ""))
        assert place.rows() == [("a", 0), ("a", 1), ("a", 3), ("a", 9)]


class TestUpsert:
    def test_the_last_row_of_a_key_wins_and_a_replay_changes_nothing(self, place):
        write(place.sink().upserting(BY_K), 0, ("a", 1), ("b", 2), ("a", 3))
        assert place.rows() == [("a", 3), ("b", 2)]
        for n in (4, 5):
            write(place.sink().upserting(BY_K), 1, ("a", n))
        assert place.rows() == [("a", 4), ("b", 2)]
        write(place.sink().upserting(BY_K), 2, ("a", None))
        assert place.rows() == [("a", None), ("b", 2)]

    def test_rows_that_are_all_key(self, place):
        for batch in range(2):
            write(place.sink().upserting(Upsert(("n", "k"))), batch, ("a", 1), ("a", 1), ("a", 2))
        assert place.rows() == [("a", 1), ("a", 2)]

    def test_a_row_without_a_key_leaves_all_as_it_was(self, place):
        write(place.sink().upserting(BY_K), 0, ("a", 1))
        with pytest.raises(hf.SinkError, match="no value in the key column 'k'"):
            write(place.sink().upserting(BY_K), 1, ("a", 2), (None, 3))
        assert place.rows() == [("a", 1)]
        assert len(place.rows("holdfast_batches")) == 1

    def test_appending_and_upserting_do_not_mix(self, place):
        write(place.sink().upserting(BY_K), 0, ("a", 1))
        for query in ("q", "another"):
            with pytest.raises(hf.SinkError, match="is upserted by the key k; rows cannot be appended"):
                write(place.sink(), 1, ("b", 1), query=query)
        with pytest.raises(hf.SinkError, match="is upserted by the key k, not by k, n"):
            write(place.sink().upserting(Upsert(("k", "n"))), 1, ("b", 1))
        with pytest.raises(hf.SinkError, match="rows cannot be appended"):
            place.sink().open(None, SCHEMA, "q")
        write(place.sink("others"), 0, ("a", 1))
        place.execute("CREATE UNIQUE INDEX i ON others (k)")
        with pytest.raises(hf.SinkError, match="has rows that were appended"):
            write(place.sink("others").upserting(BY_K), 1, ("a", 2))
        assert place.rows() == place.rows("others") == [("a", 1)]

    def test_a_table_that_was_dropped_is_a_new_one(self, place):
        write(place.sink(), 0, ("a", 1))
        place.execute("DROP TABLE counts")
        write(place.sink().upserting(BY_K), 0, ("a", 2), ("a", 3))
        assert place.rows() == [("a", 3)]
        place.execute("DROP TABLE counts")
        write(place.sink(), 1, ("a", 4), ("a", 5))
        assert place.rows() == [("a", 4), ("a", 5)]

    def test_a_stranger_is_refused_or_begins_with_nothing(self, place):
        write(place.sink().upserting(BY_K), 0, ("a", 1), ("b", 2), query="first")
        for query in (None, "second"):
            with pytest.raises(hf.SinkError, match="has the rows of the query first"):
                place.sink().upserting(BY_K).open(None, SCHEMA, query)
        with pytest.raises(hf.SinkError, match="has the rows of the query first") as refused:
            write(place.sink().upserting(BY_K), 0, ("a", 0), query="second")
        assert "all rows of the table may be deleted" in refused.value.todo
        assert place.rows() == [("a", 1), ("b", 2)]
        taking = place.sink(take_over=True).upserting(BY_K)
        taking.open(None, SCHEMA, None)
        assert place.rows() == [("a", 1), ("b", 2)], "not before there is something in its place"
        for batch, n in enumerate((0, 5)):
            write(taking, batch, ("a", n), query="second")
        assert place.rows() == [("a", 5)]
        with pytest.raises(hf.SinkError, match="has the rows of the query second"):
            write(place.sink().upserting(BY_K), 1, ("a", 1), query="first")

    def test_a_checkpoint_that_was_rolled_back(self, place):
        for batch in range(3):
            write(place.sink().upserting(BY_K), batch, ("a", batch), (f"only {batch}", batch), plan=f"p{batch}")
        before = place.rows()
        with pytest.raises(hf.SinkError, match="micro-batches up to 2 of this query, but another 1") as refused:
            write(place.sink().upserting(BY_K), 1, ("a", 10), plan="another")
        assert "goes on with the rows as they are" in refused.value.todo
        assert place.rows() == before
        for _ in range(2):
            write(place.sink(take_over=True).upserting(BY_K), 1, ("a", 10), plan="another")
        assert place.rows() == [("a", 10), ("only 0", 0), ("only 1", 1), ("only 2", 2)]

    def test_a_column_for_the_micro_batch_is_for_appending(self, place):
        with pytest.raises(hf.InvalidStep, match="batch_column is for rows that are appended"):
            place.sink(batch_column="b").upserting(BY_K)

    def test_another_constraint_of_the_table_stays_one(self, place):
        """Upserting removes no row of another key."""
        place.execute("CREATE TABLE counts (k text PRIMARY KEY, n bigint CHECK (n < 5))")
        write(place.sink().upserting(BY_K), 0, ("a", 1))
        with pytest.raises(hf.SinkError, match="cannot be written"):
            write(place.sink().upserting(BY_K), 1, ("a", 2), ("b", 7))
        assert place.rows() == [("a", 1)]


@pytest.mark.parametrize("place", [pytest.param("duckdb", marks=pytest.mark.night), "postgres"], indirect=True)
class TestTablesThatAreThere:
    @pytest.mark.parametrize(
        "declared",
        [
            "(k text PRIMARY KEY, n bigint)",
            "(n bigint, k text UNIQUE)",
            "(n decimal(19,0), more int DEFAULT 7, k varchar NOT NULL, UNIQUE (k))",
        ],
    )
    def test_one_that_keeps_the_key_unique(self, place, declared):
        place.execute(f"CREATE TABLE counts {declared}", "INSERT INTO counts (k, n) VALUES ('a', 1), ('z', 26)")
        place.sink().upserting(BY_K).open(None, SCHEMA, None)
        write(place.sink().upserting(BY_K), 0, ("a", 2), ("b", 3))
        assert place.rows(columns="k, CAST(n AS bigint)") == [("a", 2), ("b", 3), ("z", 26)]

    @pytest.mark.parametrize(
        "statements",
        [
            ["CREATE TABLE counts (k text, n bigint)"],
            ["CREATE TABLE counts (k text, n bigint PRIMARY KEY)"],
            ["CREATE TABLE counts (k text, n bigint, PRIMARY KEY (k, n))"],
            ["CREATE TABLE counts (k text, n bigint)", "CREATE INDEX i ON counts (k)"],
            ["CREATE TABLE counts (k text, n bigint)", "CREATE UNIQUE INDEX i ON counts (lower(k))"],
        ],
    )
    def test_one_in_which_a_key_could_be_twice(self, place, statements):
        place.execute(*statements)
        for call in (
            lambda sink: sink.open(None, SCHEMA, None),
            lambda sink: write(sink, 0, ("a", 2)),
        ):
            with pytest.raises(hf.SinkError, match="does not keep the key k unique") as refused:
                call(place.sink().upserting(BY_K))
        place.execute(refused.value.todo.removeprefix("create one: ").partition(";")[0])
        write(place.sink().upserting(BY_K), 0, ("a", 2))

    @pytest.mark.parametrize(
        ("declared", "said"),
        [
            ("(k text, m bigint)", "has other columns than the rows"),
            ("(k text)", "has other columns than the rows"),
            ("(k text, n bigint, o text)", "has other columns than the rows"),
            ("(k text, n integer)", "n is integer"),
            ("(k text, n decimal(18,0))", r"n is (numeric|decimal)\(18,0\)"),
            ("(k text, n double precision)", "n is double"),
            ("(k bigint, n bigint)", "k is bigint; the rows have string, which needs"),
            ("(k text, n text)", "n is (text|varchar); the rows have bigint, which needs bigint"),
        ],
    )
    def test_columns_that_do_not_fit(self, place, declared, said):
        place.execute(f"CREATE TABLE counts {declared}")
        with pytest.raises(hf.SinkError, match=f"(?i){said}"):
            place.sink().open(None, SCHEMA, None)
        with pytest.raises(hf.SinkError, match=f"(?i){said}"):
            write(place.sink(), 0, ("a", 1))

    def test_a_view(self, place):
        place.execute("CREATE TABLE other (k text, n bigint)", "CREATE VIEW counts AS SELECT * FROM other")
        with pytest.raises(hf.SinkError, match="is a view, not a table"):
            place.sink().open(None, SCHEMA, None)

    def test_a_column_for_the_micro_batch_of_another_type(self, place):
        place.execute("CREATE TABLE counts (k text, n bigint, b text)")
        with pytest.raises(hf.SinkError, match=r"(?i)b is (text|varchar); a column for the micro-batch needs uuid"):
            place.sink(batch_column="b").open(None, SCHEMA, None)

    def test_a_schema_that_is_there_and_one_that_is_not(self, place):
        elsewhere = f"else where {place.schema}"
        place.execute(f'CREATE SCHEMA "{elsewhere}"')
        sink = place.sink(schema=elsewhere)
        sink.open(None, SCHEMA, None)
        write(sink, 0, ("a", 1))
        assert place.execute(f'SELECT k, n FROM "{elsewhere}".counts') == [("a", 1)]
        with pytest.raises(hf.SinkError, match="there is no schema 'nowhere'") as refused:
            place.sink(schema="nowhere").open(None, SCHEMA, None)
        assert 'CREATE SCHEMA "nowhere"' in refused.value.todo

    def test_opening_writes_nothing(self, place):
        place.sink(batch_column="b").open(None, SCHEMA, None)
        assert place.rows() == place.rows("holdfast_batches") == []
        assert place.rows(columns="k, n, b") == []


HOSTILE = ['a"b', "drop table counts; --", "ünï cödé", "select", "%s %d", "$1", "{}", "'", "a.b", "A", "\\x", " ", "\u202eß"]


@pytest.mark.parametrize("place", [pytest.param("duckdb", marks=pytest.mark.night), "postgres"], indirect=True)
class TestNames:
    @pytest.mark.parametrize("upsert", [False, True])
    @pytest.mark.parametrize(
        "table",
        [
            'a"b',
            *(pytest.param(name, marks=pytest.mark.night) for name in ("select", "excluded")),
            "; drop table %s $1 {} '",
        ],
    )
    def test_names_are_names(self, place, table, upsert):
        sink = place.sink(table, **({} if upsert else {"batch_column": '"%s'}))
        sink = sink.upserting(Upsert(tuple(HOSTILE[:-1]))) if upsert else sink
        fields = [t.StructField(name, t.StringType()) for name in HOSTILE]
        sink.open(None, t.StructType([*fields, t.StructField("n", t.LongType())]), "q")
        names, kinds = (*HOSTILE, "n"), (*(pa.string() for _ in HOSTILE), pa.int64())
        for batch in (0, 1, 1):
            sink.write_batch(rows((*HOSTILE, batch), names=names, kinds=kinds), BatchInfo("q", batch, "p"))
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in HOSTILE)
        quoted = table.replace('"', '""')
        found = place.execute(f'SELECT {columns}, n FROM "{place.schema}"."{quoted}" ORDER BY n')
        assert found == [(*HOSTILE, batch) for batch in ((1,) if upsert else (0, 1))]

    @pytest.mark.parametrize(
        "name", ["", "a\0b", "\ud800", None, 7, "holdfast_batches", "holdfast_upserts", "holdfast_staged"]
    )
    def test_names_that_no_table_can_have(self, place, name):
        with pytest.raises(hf.InvalidStep):
            place.sink(name)

    def test_columns_that_do_not_differ(self, place):
        twice = t.StructType([t.StructField("k", t.StringType()), t.StructField("k", t.LongType())])
        with pytest.raises(hf.InvalidStep, match="Two columns have the name 'k'"):
            place.sink().open(None, twice, None)
        with pytest.raises(hf.InvalidStep, match="The rows have a column 'k'"):
            place.sink(batch_column="k").open(None, SCHEMA, None)
        with pytest.raises(hf.InvalidStep, match="no columns"):
            place.sink().open(None, t.StructType([]), None)


@pytest.mark.parametrize("place", [pytest.param("duckdb", marks=pytest.mark.night), "postgres"], indirect=True)
class TestConcurrency:
    def test_many_write_to_one_table_at_once(self, place):
        """Three queries, each micro-batch twice at once: as two drivers of which one is presumed dead."""
        failed, barrier = [], threading.Barrier(6)

        def run(query):
            try:
                for batch in range(5):
                    barrier.wait(60)
                    write(place.sink(), batch, (query, batch), query=query)
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=run, args=(f"q{number}",)) for number in range(3) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert failed == []
        assert place.rows() == [(f"q{number}", batch) for number in range(3) for batch in range(5)]

    def test_of_two_that_upsert_a_new_table_one_gets_it(self, place):
        came, barrier = [], threading.Barrier(2)

        def run(query):
            barrier.wait(60)
            try:
                write(place.sink().upserting(BY_K), 0, ("a", int(query == "x")), query=query)
            except hf.SinkError as error:
                came.append(str(error))

        threads = [threading.Thread(target=run, args=(query,)) for query in ("x", "y")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert len(came) == 1
        assert "has the rows of the query" in came[0]
        assert len(place.rows()) == 1


def test_a_struct_with_two_fields_of_one_name(place):
    kind = pa.struct([("x", pa.int64()), ("x", pa.int64())])
    column = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], fields=list(kind))
    with pytest.raises(hf.SinkError):
        place.sink().upserting(BY_K).write_batch(Rows(pa.table({"k": ["a"], "v": column})), BatchInfo("q", 0))


def test_times_that_no_database_writes_as_they_are(place):
    for kind, value in ((pa.timestamp("us", tz="UTC"), 2**62), (pa.date32(), 2_932_897), (pa.timestamp("us"), -(2**62))):
        column = pa.array([value], pa.int64() if pa.types.is_timestamp(kind) else pa.int32()).cast(kind)
        with pytest.raises(hf.SinkError, match="not within the years 1 to 9999"):
            place.sink().write_batch(Rows(pa.table({"at": column})), BatchInfo("q", 0))


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32()], ids=str)
def test_keys_with_times_that_python_has_not(place, kind):
    far = pa.array([3_000_000 if kind == pa.date32() else 2**62], pa.int32() if kind == pa.date32() else pa.int64()).cast(
        kind
    )
    sink = place.sink().upserting(BY_K)
    with pytest.raises(hf.SinkError, match="A time in the column 'k' is not within the years 1 to 9999"):
        sink.write_batch(Rows(pa.table({"k": far, "n": [1]})), BatchInfo("q", 0, "p"))

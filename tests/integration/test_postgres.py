"""PostgreSQL as a sink: what a server can do to it, and what it needs there. On a real server."""

from __future__ import annotations

import threading
import time
import traceback
from contextlib import closing

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import types as t

import holdfast as hf
from holdfast.spark.sinks import BatchInfo, Upsert
from holdfast.spark.sinks.sql import postgres_database
from integration.sql_places import rows
from services import leave_out
from services.broken_wire import broken_wire
from services.postgres import free_port

BY_K = Upsert(("k",))
SCHEMA = t.StructType([t.StructField("k", t.StringType()), t.StructField("n", t.LongType())])


def write(sink, batch, *values, query="q", plan="plan"):
    sink.write_batch(rows(*values), BatchInfo(query, batch, plan))


def through(postgres, wire, table="counts", **options):
    return hf.sinks.Postgres(
        postgres.server.conninfo.replace(f"port={postgres.server.port}", f"port={wire.port}"),
        table,
        schema=postgres.schema,
        **options,
    )


def whole_text(error):
    """All that a tool may show of an error: its causes, and the variables in every frame but the test's own."""
    if error is None:
        return ""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename != __file__]
    shown = [repr(error), str(error), repr(vars(error)), *(repr(frame.f_locals) for frame in frames)]
    return "\n".join([*shown, whole_text(error.__cause__), whole_text(error.__context__)])


class TestSecrets:
    def test_a_wrong_password_is_told_at_once_and_never_shown(self, postgres, monkeypatch):
        monkeypatch.setenv("SECRET", "hunter2hunter2")
        started = time.monotonic()
        with pytest.raises(hf.SinkError, match=r"cannot be written: .*password authentication failed") as refused:
            write(postgres.sink(password_env="SECRET", retry_for="10 minutes"), 0, ("a", 1))
        assert time.monotonic() - started < 60
        assert "password_env" in refused.value.todo
        assert "hunter2" not in whole_text(refused.value)

    def test_no_password(self, postgres, monkeypatch):
        monkeypatch.delenv("PGPASSWORD")
        monkeypatch.setenv("PGPASSFILE", "/nowhere")
        with pytest.raises(hf.SinkError, match="no password supplied") as refused:
            postgres.sink().open(None, SCHEMA, None)
        assert "PGPASSWORD" in refused.value.todo

    def test_where_it_may_come_from(self, postgres, monkeypatch, tmp_path):
        monkeypatch.delenv("PGPASSWORD")
        monkeypatch.setenv("SECRET", postgres.server.password)
        (tmp_path / "secret").write_text(f"{postgres.server.password}\n")
        (tmp_path / "pgpass").write_text(f"127.0.0.1:*:*:*:{postgres.server.password}\n")
        (tmp_path / "pgpass").chmod(0o600)
        write(postgres.sink(password_env="SECRET"), 0, ("a", 1))
        write(postgres.sink(password_file=str(tmp_path / "secret")), 1, ("a", 2))
        monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))
        write(postgres.sink(), 2, ("a", 3))
        (tmp_path / "services").write_text(
            f"[rows]\nhost=127.0.0.1\nport={postgres.server.port}\nuser=holdfast\ndbname=postgres\n"
            f"password={postgres.server.password}\n"
        )
        monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
        monkeypatch.setenv("PGPASSFILE", "/nowhere")
        write(hf.sinks.Postgres("service=rows", "counts", schema=postgres.schema), 3, ("a", 4))
        assert postgres.rows() == [("a", n) for n in (1, 2, 3, 4)]

    def test_it_is_in_no_variable_of_an_error_that_comes_later(self, postgres, monkeypatch):
        monkeypatch.setenv("SECRET", postgres.server.password)
        monkeypatch.delenv("PGPASSWORD")
        postgres.execute("CREATE TABLE counts (k text, n bigint CHECK (n < 5))")
        sink = postgres.sink(password_env="SECRET")
        with pytest.raises(hf.SinkError, match="violates check constraint") as refused:
            write(sink, 0, ("a", 7))
        assert postgres.server.password not in whole_text(refused.value)
        assert postgres.server.password not in repr(vars(sink))


class TestTrouble:
    def test_nobody_there(self, postgres):
        port = free_port()
        sink = hf.sinks.Postgres(f"host=127.0.0.1 port={port} user=x", "t", retry_for=0.3)
        with pytest.raises(hf.SinkError, match=r"could not be written: .*Connection refused") as refused:
            sink.open(None, SCHEMA, None)
        assert "see that the server runs" in refused.value.todo

    def test_the_answer_to_a_commit_is_lost(self, postgres):
        """The rows are there, the driver does not know it, and writes again."""
        postgres.sink().open(None, SCHEMA, None)
        with broken_wire(postgres.server.port, word=b"COMMIT", answered=True) as wire:
            write(through(postgres, wire), 0, ("a", 1), ("a", 1))
            assert wire.breaks == 1
        assert postgres.rows() == [("a", 1), ("a", 1)]

    def test_and_the_driver_gives_up(self, postgres):
        postgres.sink().open(None, SCHEMA, None)
        with (
            broken_wire(postgres.server.port, word=b"COMMIT", answered=True) as wire,
            pytest.raises(hf.SinkError, match="could not be written") as failed,
        ):
            write(through(postgres, wire, retry_for=0), 0, ("a", 1))
        assert "will not be written twice" in failed.value.detail
        write(postgres.sink(), 0, ("a", 1))
        assert postgres.rows() == [("a", 1)]

    def test_the_commit_itself_is_lost(self, postgres):
        postgres.sink().open(None, SCHEMA, None)
        with broken_wire(postgres.server.port, word=b"COMMIT") as wire:
            write(through(postgres, wire), 0, ("a", 1), ("b", 2))
            assert wire.breaks == 1
        assert postgres.rows() == [("a", 1), ("b", 2)]

    def test_the_wire_breaks_anywhere(self, postgres):
        """After as many bytes as a step of the transaction takes, from the first greeting to the last answer."""
        cuts = [1, 100, 600, *range(1000, 9000, 400)]
        broken = 0
        for batch, cut in enumerate(cuts):
            with broken_wire(postgres.server.port, after_bytes=cut, answered=bool(batch % 2)) as wire:
                write(through(postgres, wire, batch_column="b"), batch, *(("x" * 50, batch) for _ in range(20)))
                broken += wire.breaks
        assert broken > len(cuts) // 2
        counted = postgres.execute("SELECT n, count(*) FROM counts GROUP BY n ORDER BY n")
        assert counted == [(batch, 20) for batch in range(len(cuts))]

    @pytest.mark.parametrize("mode", [pytest.param("append", marks=pytest.mark.night), "upsert"])
    def test_the_server_is_killed_and_restarted_while_rows_come(self, postgres, mode):
        failed, number = [], 40
        sink = postgres.sink() if mode == "append" else postgres.sink().upserting(Upsert(("n",)))
        sink.open(None, SCHEMA, None)
        written = threading.Semaphore(0)

        def run():
            try:
                for batch in range(number):
                    write(sink, batch, *((f"{batch}", 100 * batch + n) for n in range(50)))
                    written.release()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        for how in ("QUIT", "INT", "QUIT"):
            for _ in range(4):
                assert written.acquire(timeout=60)
            postgres.server.restart(how)
        thread.join(timeout=120)
        assert failed == []
        found = postgres.execute("SELECT count(*), count(DISTINCT n) FROM counts")
        assert found == [(number * 50, number * 50)]

    @pytest.mark.night
    def test_a_lock_that_another_keeps(self, postgres):
        sink = postgres.sink(retry_for=1)
        sink.open(None, SCHEMA, None)
        with closing(postgres.server.connect()) as other:
            other.execute("BEGIN")
            other.execute(f"LOCK TABLE {postgres.schema}.counts IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(hf.SinkError, match=r"could not be written: .*lock timeout"):
                write(sink, 0, ("a", 1))
            other.execute("ROLLBACK")
        write(sink, 0, ("a", 1))
        assert postgres.rows() == [("a", 1)]

    def test_a_connection_that_an_administrator_ends(self, postgres):
        """While the rows are there, and the note is not."""
        killed = []

        class Killed(hf.sinks.Postgres):
            def _written(self, database, notes, info):
                answer = super()._written(database, notes, info)
                if not killed:
                    killed.append(database.rows("SELECT pg_backend_pid()")[0][0])
                    with closing(postgres.server.connect()) as other:
                        other.execute("SELECT pg_terminate_backend(%s)", killed)
                return answer

        write(Killed(postgres.server.conninfo, "counts", schema=postgres.schema), 0, ("a", 1))
        assert killed
        assert postgres.rows() == [("a", 1)]


class Stalled(hf.sinks.Postgres):
    """Stands still once, with the table locked, before it writes: as a driver does whose machine is frozen."""

    def __init__(self, postgres, **options):
        super().__init__(postgres.server.conninfo, "counts", schema=postgres.schema, **options)
        self.stands, self.go_on, self.attempts = threading.Event(), threading.Event(), 0

    def _written(self, database, notes, info):
        answer = super()._written(database, notes, info)
        self.attempts += 1
        if self.attempts == 1:
            self.stands.set()
            assert self.go_on.wait(60)
        return answer


class TestZombies:
    def test_two_drivers_with_the_same_micro_batch(self, postgres):
        """The second waits for the first, and then leaves out what is there."""
        first, second = Stalled(postgres), threading.Thread(target=lambda: write(postgres.sink(), 0, ("a", 1), ("b", 2)))
        first.open(None, SCHEMA, None)
        thread = threading.Thread(target=lambda: write(first, 0, ("a", 1), ("b", 2)))
        thread.start()
        assert first.stands.wait(60)
        second.start()
        wait_for(lambda: waiting_for_locks(postgres) == 1)
        first.go_on.set()
        for each in (thread, second):
            each.join(60)
        assert postgres.rows() == [("a", 1), ("b", 2)]

    def test_one_that_stands_still_loses_its_turn(self, postgres, monkeypatch):
        """The server ends its transaction, and so others need not wait for it forever. When it wakes, all is there."""
        monkeypatch.setattr(postgres_database, "_IDLE_SECONDS", 1)
        zombie = Stalled(postgres)
        zombie.open(None, SCHEMA, None)
        thread = threading.Thread(target=lambda: write(zombie, 0, ("a", 1), plan="p"))
        thread.start()
        assert zombie.stands.wait(60)
        write(postgres.sink(), 0, ("a", 1), plan="p")
        zombie.go_on.set()
        thread.join(60)
        assert zombie.attempts == 2
        assert postgres.rows() == [("a", 1)]

    def test_one_that_wakes_after_its_successor_has_gone_on(self, postgres, monkeypatch):
        monkeypatch.setattr(postgres_database, "_IDLE_SECONDS", 1)
        zombie, failed = Stalled(postgres), []

        def run():
            try:
                write(zombie, 0, ("a", 0), plan="p0")
            except hf.SinkError as error:
                failed.append(error)

        zombie.open(None, SCHEMA, None)
        thread = threading.Thread(target=run)
        thread.start()
        assert zombie.stands.wait(60)
        for batch in range(3):
            write(postgres.sink(), batch, ("a", batch), plan=f"p{batch}")
        zombie.go_on.set()
        thread.join(60)
        assert "micro-batches up to 2 of this query" in str(failed[0])
        assert postgres.rows() == [("a", 0), ("a", 1), ("a", 2)]


def waiting_for_locks(postgres):
    [(number,)] = postgres.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    return number


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class TestTables:
    @pytest.mark.parametrize(
        ("statements", "said"),
        [
            (["CREATE UNLOGGED TABLE counts (k text, n bigint)"], "is unlogged"),
            (["CREATE MATERIALIZED VIEW counts AS SELECT '' AS k, 1 AS n"], "is a materialized view"),
            (["CREATE SEQUENCE counts"], "is a sequence"),
            (
                [
                    "CREATE TABLE counts (k text, n bigint) PARTITION BY RANGE (n)",
                    "CREATE UNLOGGED TABLE low PARTITION OF counts FOR VALUES FROM (0) TO (9)",
                ],
                "has a partition that is unlogged",
            ),
            (["CREATE TABLE counts (k char(9), n bigint)"], r"k is character\(9\)"),
            (["CREATE TABLE counts (k text, n bigint GENERATED ALWAYS AS IDENTITY)"], "n is generated"),
            (["CREATE TABLE counts (k text, n bigint GENERATED ALWAYS AS (1) STORED)"], "n is generated"),
        ],
    )
    def test_tables_that_would_not_keep_rows_as_they_are(self, postgres, statements, said):
        postgres.execute(*statements)
        with pytest.raises(hf.SinkError, match=said):
            postgres.sink().open(None, SCHEMA, None)

    @pytest.mark.parametrize(
        "statements",
        [
            ["CREATE TABLE counts (k text, n bigint, UNIQUE (k) DEFERRABLE)"],
            ["CREATE TABLE counts (k text, n bigint)", "CREATE UNIQUE INDEX i ON counts (k) WHERE n > 0"],
            [
                "CREATE COLLATION same (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
                "CREATE TABLE counts (k text COLLATE same PRIMARY KEY, n bigint)",
            ],
            [
                "CREATE COLLATION same (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
                "CREATE TABLE counts (k text PRIMARY KEY, n bigint)",
                "CREATE UNIQUE INDEX i ON counts (k COLLATE same)",
            ],
        ],
    )
    def test_tables_that_could_take_two_keys_for_one(self, postgres, statements):
        """The last one has an index that would do, and one that would not: ON CONFLICT goes by both."""
        try:
            postgres.execute(*statements)
        except psycopg.errors.FeatureNotSupported as error:
            leave_out("PostgreSQL with ICU", str(error))
        with pytest.raises(hf.SinkError, match="does not keep the key k unique"):
            postgres.sink().upserting(BY_K).open(None, SCHEMA, None)

    def test_columns_that_fill_themselves_and_partitions(self, postgres):
        postgres.execute(
            "CREATE TABLE counts (id bigint GENERATED ALWAYS AS IDENTITY, k text, n bigint, at timestamptz DEFAULT now(),"
            " twice bigint GENERATED ALWAYS AS (2 * n) STORED, PRIMARY KEY (n)) PARTITION BY RANGE (n)",
            "CREATE TABLE low PARTITION OF counts FOR VALUES FROM (0) TO (9)",
            "CREATE TABLE high PARTITION OF counts FOR VALUES FROM (9) TO (99)",
        )
        for batch in range(2):
            write(postgres.sink().upserting(Upsert(("n",))), batch, (f"{batch}", 1), (f"{batch}", 50))
        assert postgres.rows(columns="k, n, twice") == [("1", 1, 2), ("1", 50, 100)]
        with pytest.raises(hf.SinkError, match="no partition of relation"):
            write(postgres.sink().upserting(Upsert(("n",))), 2, ("x", 2), ("x", 500))
        assert postgres.rows(columns="k, n") == [("1", 1), ("1", 50)]

    def test_json_and_jsonb(self, postgres):
        postgres.execute("CREATE TABLE counts (k json, n bigint)")
        made = rows((["a"], 1), kinds=(pa.list_(pa.string()), pa.int64()))
        postgres.sink().write_batch(made, BatchInfo("q", 0))
        assert postgres.rows() == [(["a"], 1)]
        postgres.execute("CREATE TABLE others (k json, n bigint PRIMARY KEY)")
        with pytest.raises(hf.SinkError, match="k is json; the rows have array<string>, which needs jsonb"):
            postgres.sink("others").upserting(Upsert(("k", "n"))).write_batch(made, BatchInfo("q", 0))

    def test_a_trigger_that_takes_rows_away(self, postgres):
        postgres.execute(
            "CREATE TABLE counts (k text, n bigint)",
            "CREATE FUNCTION drop_even() RETURNS trigger LANGUAGE plpgsql AS"
            " $$BEGIN IF NEW.n % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW; END$$",
            "CREATE TRIGGER t BEFORE INSERT ON counts FOR EACH ROW EXECUTE FUNCTION drop_even()",
        )
        with pytest.raises(hf.SinkError, match="took 1 rows of 2: a trigger or rule"):
            write(postgres.sink(), 0, ("a", 1), ("a", 2))
        assert postgres.rows() == []

    def test_a_commit_waits_for_the_disk_whatever_the_user_has_set(self, postgres):
        """What a crash of the server takes away again would be lost, since the job has gone on."""
        postgres.execute(
            "CREATE TABLE counts (k text, n bigint, waits text DEFAULT current_setting('synchronous_commit'))",
            "ALTER ROLE holdfast SET synchronous_commit = off",
        )
        try:
            write(postgres.sink(), 0, ("a", 1))
        finally:
            postgres.execute("ALTER ROLE holdfast RESET synchronous_commit")
        assert postgres.rows() == [("a", 1, "on")]

    @pytest.mark.parametrize("name", ["t" * 64, "ü" * 32])
    def test_names_that_postgres_would_cut_off(self, postgres, name):
        with pytest.raises(hf.InvalidStep, match="longer than 63 bytes"):
            postgres.sink(name)
        with pytest.raises(hf.InvalidStep, match="longer than 63 bytes"):
            postgres.sink().open(None, t.StructType([t.StructField(name, t.LongType())]), None)


class TestPermissions:
    @pytest.fixture
    def guest(self, postgres, monkeypatch):
        name = f"guest_{postgres.schema}"
        postgres.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'guests own'")
        monkeypatch.setenv("GUEST", "guests own")
        conninfo = postgres.server.conninfo.replace("user=holdfast", f"user={name}")
        yield name, lambda: hf.sinks.Postgres(conninfo, "counts", schema=postgres.schema, password_env="GUEST")
        postgres.execute(f"DROP OWNED BY {name}", f"DROP ROLE {name}")

    def test_what_is_missing_is_told_when_the_job_starts(self, postgres, guest):
        name, sink = guest
        with pytest.raises(hf.SinkError, match="cannot be written: permission denied for schema") as refused:
            sink().open(None, SCHEMA, None)
        assert "grant what is missing" in refused.value.todo
        postgres.sink().open(None, SCHEMA, None)
        postgres.execute(f"GRANT USAGE ON SCHEMA {postgres.schema} TO {name}")
        with pytest.raises(hf.SinkError, match="permission denied for table"):
            sink().open(None, SCHEMA, None)
        postgres.execute(f"GRANT SELECT, INSERT, DELETE ON holdfast_batches, holdfast_upserts TO {name}")
        postgres.execute(f"GRANT DELETE ON counts TO {name}")
        with pytest.raises(hf.SinkError, match="permission denied for table counts"):
            sink().open(None, SCHEMA, None)

    def test_what_is_enough(self, postgres, guest):
        """As the todo says: no right to create anything if the tables are there."""
        name, sink = guest
        postgres.sink().open(None, SCHEMA, None)
        postgres.execute(f"GRANT USAGE ON SCHEMA {postgres.schema} TO {name}")
        granted = "SELECT, INSERT, UPDATE, DELETE"
        postgres.execute(f"GRANT {granted} ON counts, holdfast_batches, holdfast_upserts TO {name}")
        sink().open(None, SCHEMA, None)
        write(sink(), 0, ("a", 1))
        assert postgres.rows() == [("a", 1)]


def test_two_names_of_one_server_are_one_place(postgres):
    """Two outputs of a job with the same micro-batch: the second would be taken for the first that comes again."""
    here = postgres.sink()
    there = hf.sinks.Postgres(
        postgres.server.conninfo.replace("host=127.0.0.1", "host=localhost hostaddr=127.0.0.1"),
        "counts",
        schema=postgres.schema,
    )
    assert here.place != there.place
    for sink in (here, there):
        sink.open(None, SCHEMA, None)
    assert here.place == there.place
    other = postgres.sink("others")
    other.open(None, SCHEMA, None)
    assert other.place != here.place

"""Files, sockets and a steady rate as sources: rows, and dead letters of what is malformed."""

from __future__ import annotations

import datetime
import re
import socket
import threading
from decimal import Decimal

import pytest

import holdfast as hf
from integration.functions import Count
from integration.waiting import until


def letters_of(outputs):
    return {bytes(letter.value): letter.reason for letter in outputs.dead_letter.collect()}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


class TestJson:
    @staticmethod
    def source(folder, **options):
        return hf.sources.Files(folder, hf.sources.Json("card string not null, n int"), **options)

    def test_malformed_lines_are_dead_letters(self, spark, folder):
        lines = [b'{"card":"a","n":1}', b"", b"  ", b'{"card":"b"} {"card":"c"}', b'{"card":"\xff"}', b'{"n":1}']
        (folder / "one.json").write_bytes(b"\n".join(lines))
        outputs = self.source(folder, columns={"file": "file"}).read_batch(spark)
        [row] = outputs.main.collect()
        assert (row.card, row.n, row.file.rpartition("/")[2]) == ("a", 1, "one.json")
        assert {value: reason.split(":")[0] for value, reason in letters_of(outputs).items()} == {
            lines[3]: "not JSON",
            lines[4]: "not UTF-8",
            lines[5]: "Object missing required field `card`",
        }
        assert [letter.file.rpartition("/")[2] for letter in outputs.dead_letter.collect()] == ["one.json"] * 3

    def test_a_step_over_files_as_they_come(self, spark, folder, run_job):
        def counted():
            rows = self.source(folder, max_files_per_trigger=1).read(spark).main
            counts = hf.keyed(rows, key="card", value="n").par_do(Count(), output="k string, n int")
            return sorted(tuple(row) for row in run_job(counts)[0])

        (folder / "1.json").write_text('{"card":"a"}\npoison\n')
        (folder / "2.json").write_text('{"card":"a"}\n{"card":"b"}\n')
        assert counted() == [("a", 1), ("a", 2), ("b", 1)]
        (folder / "3.json").write_text('{"card":"b"}\n')
        assert counted() == [("b", 2)]

    def test_it_fails_if_that_was_asked_for(self, spark, folder, run_job):
        (folder / "1.json").write_text("poison\n")
        with pytest.raises(hf.InputError, match=r"A record of '.*/in' is malformed: not JSON") as raised:
            run_job(self.source(folder, on_malformed="fail").read(spark).main)
        assert re.fullmatch(r"file file:/.*/in/1\.json", raised.value.detail)


class TestCsv:
    SCHEMA = "card string not null, n int, amount decimal(6,2), at timestamp"

    def read(self, spark, folder, **options):
        return hf.sources.Files(folder, hf.sources.Csv(self.SCHEMA, **options)).read_batch(spark)

    def test_lines(self, spark, folder):
        lines = [
            b"card,n,amount,at",
            b'"a,1",5,1.50,2026-03-01T00:00:00Z',
            b"b,,,",
            b"c,5",
            b"d,5,1.5,,more",
            b"e,five,,",
            b"f,,1.555,",
            b"g,,,12:30",
            b",1,,",
            b"h\xff,1,,",
        ]
        (folder / "one.csv").write_bytes(b"\n".join(lines) + b"\n")
        outputs = self.read(spark, folder, header=True)
        at = datetime.datetime(2026, 3, 1)
        assert sorted(map(tuple, outputs.main.collect())) == [("a,1", 5, Decimal("1.50"), at), ("b", None, None, None)]
        letters = letters_of(outputs)
        assert sorted(letters) == sorted(lines[3:])
        assert letters[lines[3]] == "2 values in place of 4"
        assert letters[lines[6]] == "Number does not fit decimal(6,2) - at `$.amount`"

    def test_a_file_in_several_pieces_has_one_header(self, spark, folder):
        lines = [f"card-{number},{number},," for number in range(2000)]
        (folder / "one.csv").write_text("\n".join(["card,n,amount,at", *lines]))
        before = spark.conf.get("spark.sql.files.maxPartitionBytes")
        spark.conf.set("spark.sql.files.maxPartitionBytes", "5000")
        try:
            main = self.read(spark, folder, header=True).main
            assert main.rdd.getNumPartitions() > 3
            assert sorted(row.n for row in main.collect()) == list(range(2000))
        finally:
            spark.conf.set("spark.sql.files.maxPartitionBytes", before)

    def test_which_columns_are_used_does_not_matter(self, spark, folder):
        (folder / "one.csv").write_text("a,x,,\nb,1,,\n")
        outputs = self.read(spark, folder)
        assert [row.card for row in outputs.main.select("card").collect()] == ["b"]
        assert outputs.main.count() == 1
        assert outputs.dead_letter.count() == 1
        assert [row.reason[-7:] for row in outputs.dead_letter.select("reason").collect()] == ["at `$.n`"[-7:]]

    def test_another_header_fails(self, spark, folder):
        (folder / "one.csv").write_text("card,amount,n,at\na,1,1,\n")
        with pytest.raises(Exception, match="does not have the names of the columns"):
            self.read(spark, folder, header=True).main.collect()


def test_texts_and_parquet(spark, folder, tmp_path):
    (folder / "one.txt").write_bytes(b"a\n\n\xff\n")
    outputs = hf.sources.Files(folder, hf.sources.Text("line")).read_batch(spark)
    assert sorted(row.line for row in outputs.main.collect()) == ["", "a"]
    assert list(letters_of(outputs)) == [b"\xff"]
    spark.range(3).write.parquet(str(tmp_path / "parquet"))
    source = hf.sources.Files(tmp_path / "parquet", hf.sources.Parquet("id long"), columns={"file": "file"})
    outputs = source.read_batch(spark)
    assert list(outputs) == ["main"]
    assert sorted(row.id for row in outputs.main.collect()) == [0, 1, 2]
    assert source.read(spark).main.isStreaming


def test_lines_of_a_socket(spark, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        sent = threading.Event()

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.sendall(b'{"n":1}\npoison\n')
                sent.wait(90)

        threading.Thread(target=serve, daemon=True).start()
        source = hf.sources.Socket("127.0.0.1", server.getsockname()[1], hf.sources.Json("n int"))
        outputs = source.read(spark)
        assert list(outputs) == ["main", "dead_letter"]
        sink = hf.sinks.Collect()
        with hf.Job("socket", checkpoint=str(tmp_path / "c"), progress=False).write(outputs.main, sink).start():
            until(lambda: sink.rows)
        sent.set()
    assert [row.n for row in sink.rows] == [1]


def test_rows_at_a_rate(spark, tmp_path):
    sink = hf.sinks.Collect()
    rows = hf.sources.Rate(100).read(spark).main
    with hf.Job("rate", checkpoint=str(tmp_path / "c"), progress=False).write(rows, sink).start():
        until(lambda: len(sink.rows) >= 100)
    assert [row.value for row in sorted(sink.rows, key=lambda row: row.value)][:100] == list(range(100))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: hf.sources.Files("p", "json"), "The format is 'json'; give hf.sources.Json"),
        (lambda: hf.sources.Files("p", hf.sources.Raw()), "The format is Raw"),
        (lambda: hf.sources.Files("p", hf.sources.Text(), columns={"path": "x"}), "the only one is the file's path"),
        (lambda: hf.sources.Files("p", hf.sources.Text(), max_files_per_trigger=0), "max_files_per_trigger is 0"),
        (lambda: hf.sources.Files("p", hf.sources.Text(), on_malformed="drop"), "on_malformed is 'drop'"),
        (lambda: hf.sources.Files("p", hf.sources.Text(), event_time="at"), "give hf.sources.EventTime"),
        (lambda: hf.sources.Rate(0), "rows_per_second is 0"),
        (lambda: hf.sources.Socket("h", 0), "The port is 0"),
        (lambda: hf.sources.Socket("h", 1, hf.sources.Raw()), "The format is Raw"),
    ],
)
def test_what_cannot_be_made(make, problem):
    with pytest.raises(hf.InvalidStep, match=problem):
        make()

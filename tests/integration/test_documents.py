"""The blocks of the documents that need Spark, and their shell commands, against checkpoints of the README's own job.

Paths below `/data/` are in a temporary directory, and the database shop at db.example is on a server of the tests' own. A
page that has such blocks runs as a whole, in order.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import types
from datetime import datetime, timezone
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.spark.graph.picture.explanation import Explanation

sys.path.insert(0, str(Path(__file__).parents[1]))

from documents import MARKERS_ON_SPARK, ROOT, WHILE_RUNNING, WITH_EXAMPLES, WITH_KAFKA, WITH_POSTGRES, Block, blocks, name_of

SHOP = "postgresql://job@db.example/shop"
PAYMENT = "card string, amount double, paid_at timestamp"
ARRIVALS = [(0, 20, 40, 80), (75,), (200,), (400,), (420,), (430,)]
"""Seconds of the payments of a card, by micro-batch; the fifth comes out of order."""


def needs_spark(block: Block) -> bool:
    return block.marker in MARKERS_ON_SPARK or (
        block.language == "sh" and "holdfast " in block.text and "pip " not in block.text
    )


PAGES = [page for page in WITH_EXAMPLES if any(map(needs_spark, blocks(page)))]
SHELL = [block for page in WITH_EXAMPLES for block in blocks(page) if block.language == "sh" and not needs_spark(block)]


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(1_800_000_000 + seconds, tz=timezone.utc).isoformat()


def write_rows(folder: Path, *files: list[dict]) -> None:
    """A file, and so a micro-batch, for each list of rows."""
    folder.mkdir(parents=True)
    for number, rows in enumerate(files):
        file = folder / f"{number:03d}.json"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        # Spark takes files in the order of their times.
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))


def write_input(data: Path) -> None:
    payments = [
        [{"card": card, "amount": 9.5, "paid_at": moment(s)} for card in ("card-1", "card-17") for s in seconds]
        for seconds in ARRIVALS
    ]
    write_rows(data / "payments", *payments)
    write_rows(data / "old-payments", payments[0])
    write_rows(data / "trips", [{"zone": "Midtown", "total": 12.0, "pickup": moment(0)}])
    write_rows(data / "rides", [{"zone": 1, "amount": 12.0}])
    write_rows(data / "orders", [{"order": "o-1", "card": "card-1", "amount": 9.5}] * 2)
    write_rows(data / "rates", [{"currency": "eur", "rate": 2.0}])
    write_rows(data / "actions", [{"user": "ann", "action": "login"}])
    write_rows(data / "impressions", [{"ad": "a", "page": "home", "shown_at": moment(0)}])
    write_rows(data / "clicks", [{"ad_id": "a", "user": "ann", "clicked_at": moment(5)}])


class Page:
    """A page at work: the names that its blocks share, and where `/data` is."""

    def __init__(self, spark, data: Path, page: Path) -> None:
        self.data = data
        self.database = SHOP
        # A module that nobody can import: so its functions are sent to the workers whole, as those of a notebook are.
        self.names = types.ModuleType(f"docs_on_spark_{page.stem.replace('-', '_')}").__dict__
        self.servers = ""
        # One file is one micro-batch, as if payments came one after the other.
        payments = spark.readStream.schema(PAYMENT).option("maxFilesPerTrigger", 1).json(str(data / "payments"))
        self.names.update(hf=hf, spark=spark, payments=payments)

    def run(self, block: Block) -> None:
        text = block.text.replace("/data/", f"{self.data}/").replace(SHOP, self.database)
        text = text.replace("localhost:9092", self.servers)
        exec(compile(text, name_of(block.page), "exec"), self.names)

    def load_rule(self) -> None:
        """What other pages take from the README: its rule, and its alerts."""
        self.run(readme_block("class Velocity"))
        self.run(
            Block(ROOT / "README.md", "python", "", readme_block("alerts = hf.keyed").text.partition("job = hf.Job")[0])
        )

    def command(self, line: str) -> None:
        from holdfast.cli.main import main

        arguments = shlex.split(line.replace("/data/", f"{self.data}/"), comments=True)
        assert arguments.pop(0) == "holdfast"
        assert main(arguments) == 0, line

    def commands(self, block: Block) -> None:
        for line in block.text.strip().splitlines():
            if block.marker == WHILE_RUNNING:
                with self.alerts_running():
                    self.command(line)
            else:
                self.command(line)

    def alerts_running(self) -> hf.Job:
        checkpoint, rows = str(self.data / "alerts/checkpoint"), str(self.data / "alerts/rows")
        job = hf.Job("alerts", checkpoint=checkpoint, progress=False)
        return job.write(self.names["alerts"], hf.sinks.Parquet(rows)).start()


def readme_block(text: str) -> Block:
    return next(block for block in blocks(ROOT / "README.md") if text in block.text)


@pytest.fixture(scope="module")
def history(spark, tmp_path_factory) -> Path:
    """What the README's job left, as `/data`. Nothing in it may be altered."""
    data = tmp_path_factory.mktemp("data")
    write_input(data)
    page = Page(spark, data, ROOT / "README.md")
    page.run(readme_block("class Velocity"))
    page.run(readme_block("alerts = hf.keyed"))
    return data


@pytest.fixture
def data(history, tmp_path, monkeypatch) -> Path:
    """A `/data` of one's own: the input, and a copy of the checkpoint that can be used at its new path."""
    from ops.checkpoints import moved_copy

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data"
    shutil.copytree(history, folder, ignore=lambda path, names: ["checkpoint"] if path.endswith("alerts") else [])
    moved_copy(history / "alerts" / "checkpoint", folder / "alerts" / "checkpoint")
    for log in (folder / "alerts" / "checkpoint" / "sources").rglob("*"):
        if log.is_file() and not log.name.startswith("."):
            log.write_text(log.read_text().replace(str(history), str(folder)))
            log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
    (tmp_path / "job.py").write_text("import sys\nassert sys.argv[1:] == ['--day', '2026-03-01']\n")
    return folder


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "README.md"], ids=name_of)
def test_a_page_runs(spark, data, page, request, monkeypatch) -> None:
    at_work = Page(spark, data, page)
    if any(block.marker == WITH_POSTGRES for block in blocks(page)):
        server = request.getfixturevalue("postgres").server
        at_work.database = f"postgresql://holdfast@127.0.0.1:{server.port}/postgres"
        monkeypatch.setenv("SHOP_PASSWORD", server.password)
    at_work.load_rule()
    kafka = request.getfixturevalue("kafka") if any(block.marker == WITH_KAFKA for block in blocks(page)) else None
    if kafka is not None:
        at_work.servers = topics_of_the_page(kafka)
    for block in blocks(page):
        if block.language == "python":
            at_work.run(block)
        elif block.language == "sh":
            at_work.commands(block)
    if kafka is not None:
        check_topics_of_the_page(kafka)


def topics_of_the_page(kafka) -> str:
    """Payments, one of them malformed, and topics for what is made of them."""
    for name in ("payments", "payments-dead", "totals"):
        kafka.new_topic(name=name)
    payment = json.dumps({"card": "card-1", "amount": 2.5, "at": "2024-03-01T10:00:00Z"})
    kafka.put("payments", payment, payment, "poison")
    return kafka.servers


def check_topics_of_the_page(kafka) -> None:
    dead = kafka.records("payments-dead")
    assert [(record.value, dict(record.headers)["why"][:8]) for record in dead] == [(b"poison", b"not JSON")]
    assert [json.loads(record.value)["total"] for record in kafka.records("totals")] == [2.5, 5.0]


def test_the_readme_gives_the_alert_of_payments_out_of_order(spark, history) -> None:
    rows = spark.read.parquet(str(history / "alerts" / "rows")).collect()
    assert sorted((row.card, row.total) for row in rows) == [("card-1", 47.5), ("card-17", 47.5)]


@pytest.mark.night
def test_steps_of_the_pages_give_rows(spark, data, run_job) -> None:
    """Building a step starts nothing: what the pages build is run here."""
    wanted = {
        "groups-and-joins.md": ("counts", [("ann", "login", 1)]),
        "looking-inside.md": ("counts", [("card-1", 5), ("card-1", 6)]),
        "spark.md": ("converted", [("card-1", 19.0), ("card-1", 19.0)]),
    }
    for name, (frame, first) in wanted.items():
        page = ROOT / "docs" / name
        at_work = Page(spark, data, page)
        at_work.load_rule()
        for block in blocks(page):
            if block.language == "python" and "Job(" not in block.text:
                at_work.run(block)
        (rows,) = run_job(at_work.names[frame], name=page.stem, checkpoint=page.stem)
        assert sorted(map(tuple, rows))[: len(first)] == first


def test_the_graph_of_the_page_is_what_the_job_says(spark, data, tmp_path) -> None:
    """The text on the page and the picture beside it, with `/data` where the page has it."""
    page = ROOT / "docs" / "graphs.md"
    at_work = Page(spark, data, page)
    for block in blocks(page):
        if block.language == "python" and ".run()" not in block.text:
            at_work.run(block)
    made = Explanation(moved(at_work.names["job"].explain().graph, str(data), "/data"))
    made.save(tmp_path / "graph.svg")
    picture = (ROOT / "docs" / "graph.svg").read_text(encoding="utf-8")
    assert picture == made.svg, f"the picture has changed: copy {tmp_path / 'graph.svg'} to docs/graph.svg"
    [told] = [block.text for block in blocks(page) if block.language == "text"]
    assert told.strip() == str(made)


def moved(thing, old: str, new: str):
    """A description, with another path in all its texts."""
    if isinstance(thing, str):
        return thing.replace(old, new)
    if isinstance(thing, tuple):
        return tuple(moved(item, old, new) for item in thing)
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return thing
    parts = {field.name: moved(getattr(thing, field.name), old, new) for field in dataclasses.fields(thing)}
    return dataclasses.replace(thing, **parts)


@pytest.mark.parametrize("block", SHELL, ids=lambda block: f"{name_of(block.page)}:{block.line}")
def test_a_command_for_a_newcomer_is_right(block) -> None:
    """What is installed and made is not installed and made here; but the extras and the targets must be there."""
    for line in block.text.strip().splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "make":
            subprocess.run(["make", "--dry-run", *words[1:]], cwd=ROOT, check=True, capture_output=True)
        else:
            assert words[:2] == ["pip", "install"], line
            name, _, extra = words[2].rstrip("]").partition("[")
            project = (ROOT / "pyproject.toml").read_text()
            assert f'name = "{name}"' in project
            assert re.search(rf"^{extra} = \[", project, re.MULTILINE)


def test_no_shell_block_is_left_out() -> None:
    assert SHELL
    assert {name_of(page) for page in PAGES} >= {"docs/looking-inside.md", "docs/operations.md", "docs/running-jobs.md"}

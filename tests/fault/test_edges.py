"""From Kafka through a step into PostgreSQL: the driver is killed, the database and the broker are restarted under load, and
the tables have what they must."""

from __future__ import annotations

import json
import random
import time
from collections import Counter

import pytest

from .payments import Tables, expected_tables, make_payments
from .running import Place

PHASES = {"active": 3.0, "begun": 1.0, "state": 0.1, "committed": 0.1}
RECORDS_AT_ONCE = 2000
TABLES = {"alerts": "card, id, n", "last_alerts": "card, id, n", "letters": "value"}


@pytest.fixture
def edges(kafka, postgres, start, tmp_path):
    return Edges(kafka, postgres, start, Place(tmp_path, "edges"))


class Edges:
    """A topic with payments, and the program that judges them."""

    def __init__(self, broker, database, start, place):
        self.broker = broker
        self.database = database
        self.place = place
        self._start = start
        self._topic = broker.new_topic(partitions=3)

    def fill(self, payments):
        self.broker.put_all(self._topic, [(payment.card, payment.value) for payment in payments])

    def start(self, *arguments):
        given = {
            "--servers": self.broker.servers,
            "--topic": self._topic,
            "--conninfo": self.database.server.conninfo,
            "--schema": self.database.schema,
            "--records-at-once": str(RECORDS_AT_ONCE),
        }
        return self._start(self.place, *(word for pair in given.items() for word in pair), *arguments)

    def tables(self):
        rows = {table: self.database.rows(table, columns) for table, columns in TABLES.items()}
        return Tables(**{table: Counter(tuple(map(_plain, row)) for row in found) for table, found in rows.items()})


def _plain(value):
    return bytes(value) if isinstance(value, memoryview) else value


def check(found, expected):
    for table, have, want in zip(TABLES, found, expected, strict=True):
        lost, more = (want - have).total(), have - want
        doubled = sum(count for row, count in more.items() if row in want)
        assert have == want, (
            f"{table}: {want.total()} rows, {lost} lost, {doubled} doubled, {more.total() - doubled} invented"
        )


def moments(seed, kills):
    draw = random.Random(f"edges {seed}")
    phases = [list(PHASES)[number % len(PHASES)] for number in range(1, kills + 1)]
    draw.shuffle(phases)
    return [(phase, draw.randrange(1, 3), draw.uniform(0, PHASES[phase])) for phase in phases]


# By day it is killed between a topic and a table: at a moment that is known.
@pytest.mark.night
@pytest.mark.parametrize(("kills", "count"), [(2, 20_000), (10, 200_000)])
def test_the_driver_is_killed(edges, seed, kills, count):
    payments = make_payments(seed, count)
    edges.fill(payments)
    at_once = str(count // (4 * kills))
    killed = []
    for phase, times, delay in moments(seed, kills):
        program = edges.start("--records-at-once", at_once)
        assert program.until_phase(phase, times), f"The program ended too early, after {killed}.{program.log()}"
        time.sleep(delay)
        program.kill()
        killed.append((phase, edges.place.begun(), edges.place.committed()))
    edges.start("--records-at-once", at_once).finish()
    check(edges.tables(), expected_tables(payments))
    assert any(begun > committed for _, begun, committed in killed), killed


def test_the_driver_is_killed_between_a_topic_and_a_table(edges, seed):
    """One output, two sinks: in the table each alert is once, in the topic at least once; its id says which come again."""
    payments = make_payments(seed, 6000)
    edges.fill(payments)
    topic = edges.broker.new_topic(partitions=2)
    program = edges.start("--alerts-topic", topic, "--hold-written", "1", "--hold-passes", "1")
    assert program.until(lambda: any(line.startswith("held") for line in program.said), "the hold"), program.log()
    program.kill()
    held = edges.broker.records(topic)
    assert len(held) > edges.tables().alerts.total() > 0
    edges.start("--alerts-topic", topic).finish()
    expected = expected_tables(payments)
    check(edges.tables(), expected)
    records = edges.broker.records(topic)
    alerts = {dict(record.headers)["holdfast-id"]: json.loads(record.value) for record in records}
    assert Counter((alert["card"], alert["id"], alert["n"]) for alert in alerts.values()) == expected.alerts
    times = Counter(dict(record.headers)["holdfast-id"] for record in records)
    assert set(times.values()) == {1, 2}
    # What came twice is what had been written without its commit.
    assert sum(count - 1 for count in times.values()) == len(records) - expected.alerts.total() < len(held)


@pytest.mark.night
def test_the_services_are_restarted(edges, seed):
    """PostgreSQL is ended as if it had crashed, and the broker is killed; both come back while the job waits for them."""
    payments = make_payments(seed, 24_000)
    edges.fill(payments)
    program = edges.start()
    assert program.until_phase("committed", 2)
    edges.database.server.restart("QUIT")
    assert program.until_phase("committed", 2)
    edges.broker.kill()
    edges.broker.start()
    assert program.until_phase("committed", 2)
    program.finish()
    check(edges.tables(), expected_tables(payments))


def test_the_payments_have_some_of_everything(seed):
    payments = make_payments(seed, 20_000)
    tables = expected_tables(payments)
    assert len(payments) / 2 > tables.alerts.total() > 100
    assert tables.alerts.total() > tables.last_alerts.total() > 20
    assert 100 > tables.letters.total() > 10

"""A Kafka broker of one node, and what tests do with it through a client that is not Spark's.

It listens on loopback, keeps its data in a folder that it is given, and can be stopped, killed and started again with the
same ports and data. Topics are never made by themselves.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from holdfast import ops
from holdfast.errors import HoldfastError
from services import leave_out
from services.kafka_jars import Unavailable, broker_jars

__all__ = ["PASSWORD", "USER", "Broker", "Record", "running_broker"]

USER, PASSWORD = "holdfast", "only-for-tests"
"""What the listener with a password takes."""

_START_SECONDS_MAX = 120
_WAIT_SECONDS_MAX = 60
_RECORD_BYTES_MAX = 20 << 20
_DIE_WITH_PARENT = 1
_names = itertools.count()


class Record(NamedTuple):
    """A record as it is in a topic."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int
    offset: int
    timestamp_ms: int


class Broker:
    """One node that is broker and controller."""

    def __init__(self, jars: Path, folder: Path) -> None:
        self._jars = jars
        self._folder = folder
        self._ports = _free_ports(3)
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "broker.log"
        (folder / "server.properties").write_text(self._properties())
        self._run(
            "kafka.tools.StorageTool", "format", "--standalone", "-t", "aG9sZGZhc3QtdGVzdHMtMDE", "-c", "server.properties"
        )

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    @property
    def servers_with_password(self) -> str:
        """The listener that takes USER and PASSWORD alone, by SASL/PLAIN."""
        return f"127.0.0.1:{self._ports[2]}"

    def start(self) -> None:
        """Returns when the broker answers."""
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", "server.properties"),
                cwd=self._folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                preexec_fn=_die_with_parent,
                # Ctrl-C at a terminal reaches all processes of a group; this one is ended by who has started it.
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_SECONDS_MAX
        while True:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the broker does not start:\n{self._log.read_text()[-2000:]}")
            with contextlib.suppress(KafkaException):
                self._admin().list_topics(timeout=2)
                return

    def stop(self) -> None:
        """In good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def new_topic(self, partitions: int = 1, name: str | None = None, **config: Any) -> str:
        """Makes a topic, by default with a name of its own; returns when it can be used."""
        name = name or f"topic-{next(_names)}"
        settings = {option.replace("_", "."): str(value) for option, value in config.items()}
        admin = self._admin()
        admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(_WAIT_SECONDS_MAX)
        deadline = time.monotonic() + _WAIT_SECONDS_MAX
        while True:
            topic = admin.list_topics(name, timeout=5).topics[name]
            if topic.error is None and len(topic.partitions) == partitions:
                return name
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def put_all(self, topic: str, records: Iterable[tuple[str, bytes]]) -> None:
        """Puts records with keys into a topic, in order; returns when all are there."""
        # What fails is asked for below; lines of the client's own on standard error say nothing more.
        producer = Producer({"bootstrap.servers": self.servers, "acks": "all", "enable.idempotence": True, "log_level": 0})
        failures: list[Any] = []
        for key, value in records:
            while True:
                with contextlib.suppress(BufferError):
                    producer.produce(topic, value, key, on_delivery=lambda error, _: failures.append(error))
                    break
                producer.poll(0.1)
        assert producer.flush(_WAIT_SECONDS_MAX) == 0
        assert [error for error in failures if error is not None] == []

    def put(self, topic: str, *values: bytes | str | None, key: bytes | str | None = None, **more: Any) -> None:
        """Puts records into a topic; returns when all are there. `more`: partition, timestamp (in ms), headers."""
        producer = Producer(
            {"bootstrap.servers": self.servers, "message.max.bytes": _RECORD_BYTES_MAX, "linger.ms": 0, "acks": "all"}
        )
        failures: list[Any] = []
        for value in values:
            producer.produce(topic, value, key, on_delivery=lambda error, _: failures.append(error), **more)
            producer.poll(0)
        assert producer.flush(_WAIT_SECONDS_MAX) == 0
        assert [error for error in failures if error is not None] == []

    def put_and_take_back(self, topic: str, *values: str) -> None:
        """Puts records into a topic in a transaction that is aborted."""
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": f"tests-{next(_names)}"})
        producer.init_transactions(_WAIT_SECONDS_MAX)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        assert producer.flush(_WAIT_SECONDS_MAX) == 0
        producer.abort_transaction(_WAIT_SECONDS_MAX)

    def delete_before(self, topic: str, offset: int) -> None:
        """Deletes records of a topic with one partition, as Kafka does with old ones."""
        admin = self._admin()
        [deleted] = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
        deleted.result(_WAIT_SECONDS_MAX)

    def records(self, topic: str) -> list[Record]:
        """All that is in a topic now, by partition and offset."""
        settings = {"bootstrap.servers": self.servers, "group.id": "tests", "enable.auto.commit": False}
        consumer = Consumer(settings)
        try:
            numbers = consumer.list_topics(topic, timeout=_WAIT_SECONDS_MAX).topics[topic].partitions
            ends = {}
            for number in numbers:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_WAIT_SECONDS_MAX)
                if high > low:
                    ends[number] = high
            consumer.assign([TopicPartition(topic, number, 0) for number in ends])
            return sorted(_read(consumer, ends), key=lambda record: (record.partition, record.offset))
        finally:
            consumer.close()

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    def _end(self, how: int) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_WAIT_SECONDS_MAX)
            self._process = None

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            self._command(*arguments),
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=_WAIT_SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _command(self, *arguments: str) -> list[str]:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin" / "java") if home else "java"
        lean = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [java, *lean, "-Djava.net.preferIPv4Stack=true", "-cp", f"{self._jars}/*", *arguments]

    def _properties(self) -> str:
        plain, controller, secure = self._ports
        listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{secure}"
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
            "log.dirs": self._folder / "data",
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
            # One that was killed is let in again after this.
            "broker.session.timeout.ms": 2000,
            "broker.heartbeat.interval.ms": 500,
            "message.max.bytes": _RECORD_BYTES_MAX,
            # Records of long ago stay, and those of years to come are taken.
            "log.retention.ms": -1,
            "log.message.timestamp.after.max.ms": (1 << 63) - 1,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())


@contextlib.contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    """A broker for as long as the block runs; leaves out the test if there cannot be one."""
    if shutil.which("java") is None:
        leave_out("Kafka", "no java on the path")
    try:
        jars = broker_jars()
    except Unavailable as error:
        leave_out("Kafka", str(error))
    _have_connector()
    broker = Broker(jars, folder)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def _have_connector() -> None:
    """Fetches the jars with which Spark reads Kafka. A session that runs already cannot be given them."""
    try:
        found = ops.jars("kafka")
    except HoldfastError as error:
        leave_out("Kafka", error.what)
    if SparkSession.getActiveSession() is not None and any(file.status == "fetched" for file in found.files):
        leave_out("Kafka", "Spark was started before its jars were there: run the tests again")


def _read(consumer: Consumer, ends: dict[int, int]) -> Iterable[Record]:
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while ends:
        assert time.monotonic() < deadline
        for message in consumer.consume(500, timeout=0.2):
            assert message.error() is None, message.error()
            headers = tuple(map(tuple, message.headers() or ()))
            yield Record(
                message.key(), message.value(), headers, message.partition(), message.offset(), message.timestamp()[1]
            )
            if message.offset() + 1 >= ends[message.partition()]:
                del ends[message.partition()]


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _die_with_parent() -> None:
    """A broker does not outlive tests that were killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)

"""Ways out of a job: a real scrape, a real webhook, OpenTelemetry's own reader; and that none of them can hurt the job."""

from __future__ import annotations

import http.server
import json
import logging
import math
import queue
import socket
import sys
import threading
import urllib.error
import urllib.request

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

import holdfast as hf
from histories import T0, Story, failed, started
from holdfast.watch import Health, Level, OpenTelemetry, Prometheus, Webhook, judge, prometheus_text
from holdfast.watch.history import History
from holdfast.watch.outlets import dispatch as dispatch_module
from holdfast.watch.outlets import webhook as webhook_module
from holdfast.watch.outlets.callback import HealthCallback, Outlets
from holdfast.watch.outlets.dispatch import Dispatch
from holdfast.watch.outlets.names import METRICS
from holdfast.watch.outlets.readings import Readings
from holdfast.watch.records import BatchRecord, StepRecord

WELL = judge(Story(batches=20).history(), running=True)
BAD = judge(Story(commit_ms=20).history(), running=True)
WORSE = judge(Story(commit_ms=200, hot_share=0.7).history(), running=True)
BATCHES = Story(batches=20).history().batches


def scraped(outlet):
    # Never through a proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(outlet.url, timeout=30) as answer:
        text = answer.read().decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


def only(family):
    [sample] = family.samples
    return sample.value


class TestNames:
    def test_they_follow_the_conventions(self):
        for name, metric in METRICS.items():
            assert name.startswith("holdfast_")
            assert not name.endswith(("_total", "_ms", "_micros"))
            assert metric.help.endswith(".")
            assert set(metric.labels) <= {"job", "step", "source", "phase", "symptom", "name"}
            if metric.otel_unit == "s":
                assert name.endswith("_seconds")
            if metric.otel_unit == "By":
                assert name.endswith("_bytes")
        assert len({metric.otel_name for metric in METRICS.values()}) == len(METRICS)

    def test_labels_are_bounded(self):
        readings = Readings()
        for number in range(300):
            step = StepRecord(counters={"elements": 1}, user={f"own {number}": 1})
            readings.batch(
                BatchRecord(number, T0, phases_ms={f"p{n}": 1 for n in range(500)}, steps={f"s{number}": step}), WELL
            )
        counts = {}
        for reading in readings.latest:
            counts[reading.metric] = counts.get(reading.metric, 0) + 1
        assert max(counts.values()) <= 100
        assert all(len(label) <= 80 for reading in readings.latest for label in reading.labels)

    def test_long_names_stay_different(self):
        """A scrape in which a label comes twice is refused."""
        readings = Readings()
        names = [f"{'long' * 25} {number}" for number in range(3)]
        step = StepRecord(counters={"elements": 1}, keys=1, user=dict.fromkeys(names, 1))
        readings.batch(BatchRecord(1, T0, phases_ms=dict.fromkeys(names, 1), steps=dict.fromkeys(names, step)), WELL)
        labels = [(reading.metric, reading.labels) for reading in readings.latest]
        assert len(labels) == len(set(labels))
        assert sum(metric == "holdfast_state_keys" for metric, _ in labels) == 3
        assert all(len(label) <= 80 for _, found in labels for label in found)

    def test_a_counter_never_goes_down_and_nothing_is_infinite(self):
        readings = Readings()
        odd = {"x": math.inf, "y": math.nan, "z": -3, "w": 10**400}
        record = BatchRecord(1, T0, rows=-5, duration_ms=-7, steps={"s": StepRecord(user=odd)})
        readings.batch(record, WELL)
        totals = [reading for reading in readings.latest if METRICS[reading.metric].kind == "counter"]
        assert totals
        assert all(reading.value >= 0 for reading in totals)
        assert all(math.isfinite(reading.value) for reading in readings.latest)

    def test_no_key_is_a_label(self):
        readings = Readings()
        readings.batch(Story(hot_share=0.7).history().batches[5], WORSE)
        assert not [
            reading for reading in readings.latest if any("card" in label and "[" not in label for label in reading.labels)
        ]


class TestPrometheus:
    def test_a_scrape(self):
        outlet = Prometheus(0)
        try:
            outlet.event(started(T0))
            for record in BATCHES:
                outlet.batch(record, BAD)
            outlet.event(failed(T0))
            found = scraped(outlet)
        finally:
            outlet.close()
        assert only(found["holdfast_batch_id"]) == 19
        assert only(found["holdfast_batches"]) == 20
        assert only(found["holdfast_rows"]) == sum(batch.rows for batch in BATCHES)
        assert only(found["holdfast_starts"]) == only(found["holdfast_failures"]) == 1
        assert only(found["holdfast_health_level"]) == 2
        assert only(found["holdfast_batch_duration_seconds"]) == BATCHES[-1].duration_ms / 1000
        [symptom] = found["holdfast_symptom_level"].samples
        assert symptom.labels == {"job": "payments", "step": "totals", "symptom": "slow_state_access"}
        [state] = found["holdfast_state_bytes"].samples
        assert (state.labels, state.value) == (
            {"job": "payments", "step": "totals"},
            BATCHES[-1].steps["totals"].state_bytes,
        )
        assert {sample.labels["source"] for sample in found["holdfast_source_lag_records"].samples} == {
            "Kafka[payments]",
            "Kafka[cards]",
        }
        assert found["holdfast_rows"].type == "counter"
        # A registry of its own has nothing of others.
        assert [name for name in found if not name.startswith("holdfast_")] == []

    def test_it_listens_on_loopback_alone(self):
        outlet = Prometheus(0)
        try:
            assert outlet._server.server_address[0] == "127.0.0.1"
        finally:
            outlet.close()

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(hf.HoldfastError, match=rf"Prometheus\({port}\): could not listen on 127.0.0.1"):
                Prometheus(port)

    @pytest.mark.parametrize("port", [-1, 65536, True, "9464"])
    def test_what_is_no_port(self, port):
        with pytest.raises(hf.InputError, match="a port is a whole number"):
            Prometheus(port)

    def test_closed_and_used_again(self):
        outlet = Prometheus(0)
        outlet.close()
        outlet.close()
        with pytest.raises(urllib.error.URLError):
            scraped(outlet)
        outlet.batch(BATCHES[-1], WELL)
        try:
            assert only(scraped(outlet)["holdfast_batch_id"]) == 19
        finally:
            outlet.close()

    def test_two_jobs_have_two_registries(self):
        first, second = Prometheus(0), Prometheus(0)
        try:
            first.batch(BATCHES[3], WELL)
            assert scraped(second) == {}
        finally:
            first.close()
            second.close()

    def test_odd_names_are_quoted(self):
        step = {'a"b\\c\nd': StepRecord(keys=3)}
        history = hf.watch.History([BatchRecord(0, T0, steps=step)])
        text = prometheus_text(history, judge(history, job="x"))
        found = {family.name: family for family in text_string_to_metric_families(text)}
        assert found["holdfast_state_keys"].samples[0].labels["step"] == 'a"b\\c\\nd'

    def test_without_the_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "prometheus_client", None)
        with pytest.raises(hf.MissingExtra, match=r"hf.watch.Prometheus needs prometheus_client.*holdfast\[prometheus\]"):
            Prometheus(0)


class TestOpenTelemetry:
    def test_what_is_observed(self):
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader

        reader = InMemoryMetricReader()
        provider = MeterProvider([reader])
        outlet = OpenTelemetry(provider)

        def seen():
            data = reader.get_metrics_data()
            scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
            return {metric.name: metric for scope in scopes for metric in scope.metrics if metric.data.data_points}

        try:
            assert seen() == {}
            outlet.event(started(T0))
            for record in BATCHES:
                outlet.batch(record, BAD)
            found = seen()
            [point] = found["holdfast.state.size"].data.data_points
            assert (point.value, dict(point.attributes)) == (
                BATCHES[-1].steps["totals"].state_bytes,
                {"job": "payments", "step": "totals"},
            )
            assert found["holdfast.state.size"].unit == "By"
            assert found["holdfast.batches"].data.data_points[0].value == 20
            assert found["holdfast.batches"].data.is_monotonic
            outlet.close()
            assert seen() == {}
        finally:
            provider.shutdown()

    def test_without_a_provider_nothing_happens(self):
        outlet = OpenTelemetry()
        outlet.batch(BATCHES[0], WELL)
        outlet.close()

    def test_without_the_extra(self, monkeypatch):
        for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "opentelemetry", None)
        with pytest.raises(hf.MissingExtra, match=r"hf.watch.OpenTelemetry needs .*holdfast\[otel\]"):
            OpenTelemetry()


class Receiver:
    """A webhook's other end. `answers` are given one after the other, the last for ever."""

    def __init__(self, *answers):
        self.got = queue.Queue()
        self.answers = list(answers) or [204]
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.put((self.path, dict(self.headers), body))
                answer = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
                if callable(answer):
                    answer(self)
                    return
                self.send_response(answer)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/hooks/s3cret"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def next(self):
        path, headers, body = self.got.get(timeout=60)
        return path, headers, json.loads(body)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Tries come one after the other, without a proxy."""
    monkeypatch.setattr(webhook_module, "_BACKOFF_SECONDS", 0.001)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


class TestWebhook:
    def test_an_answer_without_an_end_is_an_answer(self):
        """What it says besides its status is not waited for, nor is the message sent again."""
        until = threading.Event()

        def endless(handler):
            handler.send_response(200)
            handler.send_header("Content-Length", "10")
            handler.end_headers()
            until.wait(60)

        with Receiver(endless, 204) as receiver:
            outlet = Webhook(receiver.url, timeout_seconds=0.2)
            outlet.batch(BATCHES[0], BAD)
            outlet.batch(BATCHES[0], WORSE)
            assert [receiver.next()[2]["health"]["level"] for _ in range(2)] == ["warning", "critical"]
            until.set()
            outlet.close()
        assert outlet.lost == 0

    def test_only_changes_are_posted(self):
        with Receiver() as receiver:
            outlet = Webhook(receiver.url)
            for health in (WELL, BAD, BAD, BAD, WORSE, WORSE, WELL, WELL):
                outlet.batch(BATCHES[0], health)
            outlet.event(started(T0))
            outlet.event(failed(T0, "it broke"))
            told = [receiver.next()[2] for _ in range(4)]
            outlet.close()
            assert receiver.got.empty()
        assert [message["kind"] for message in told] == ["health", "health", "health", "event"]
        assert [message["health"]["level"] for message in told[:3]] == ["warning", "critical", "ok"]
        assert told[0]["job"] == "payments"
        assert told[0]["health"] == msgspec.json.decode(msgspec.json.encode(BAD.as_dict()))
        assert told[3]["event"] == {"event": "failed", "at_ms": T0, "batch": 40, "text": "it broke"}

    def test_the_least_level(self):
        with Receiver() as receiver:
            outlet = Webhook(receiver.url, min_level=Level.CRITICAL)
            for health in (BAD, WORSE, BAD):
                outlet.batch(BATCHES[0], health)
            assert [receiver.next()[2]["health"]["level"] for _ in range(2)] == ["critical", "warning"]
            outlet.close()
            assert receiver.got.empty()

    def test_headers_come_from_the_environment(self, monkeypatch):
        monkeypatch.setenv("HOOK_TOKEN", "Bearer t0p")
        with Receiver() as receiver:
            outlet = Webhook(receiver.url, headers={"Authorization": "HOOK_TOKEN"})
            outlet.batch(BATCHES[0], BAD)
            path, headers, _ = receiver.next()
            outlet.close()
        assert path == "/hooks/s3cret"
        assert headers["Authorization"] == "Bearer t0p"
        assert headers["Content-Type"] == "application/json"

    def test_it_tries_again(self):
        with Receiver(503, 429, 204) as receiver:
            outlet = Webhook(receiver.url)
            outlet.batch(BATCHES[0], BAD)
            assert [receiver.next()[2]["kind"] for _ in range(3)] == ["health"] * 3
            outlet.close()
            assert outlet.lost == 0

    def test_not_where_that_cannot_help(self, caplog):
        with Receiver(404) as receiver:
            outlet = Webhook(receiver.url)
            outlet.batch(BATCHES[0], BAD)
            receiver.next()
            outlet.close()
            assert (receiver.got.empty(), outlet.lost) == (True, 1)
        assert "it answered 404" in caplog.text

    def test_redirects_are_not_followed(self, monkeypatch):
        monkeypatch.setenv("HOOK_TOKEN", "t0p")
        with Receiver() as other:

            def elsewhere(handler):
                handler.send_response(302)
                handler.send_header("Location", other.url)
                handler.send_header("Content-Length", "0")
                handler.end_headers()

            with Receiver(elsewhere) as receiver:
                outlet = Webhook(receiver.url, headers={"Authorization": "HOOK_TOKEN"})
                outlet.batch(BATCHES[0], BAD)
                receiver.next()
                outlet.close()
                assert outlet.lost == 1
            assert other.got.empty()

    def test_nobody_is_there_and_nothing_secret_is_told(self, monkeypatch, caplog):
        monkeypatch.setenv("HOOK_TOKEN", "t0p")
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        outlet = Webhook(
            f"http://127.0.0.1:{port}/hooks/s3cret?key=pr1vate", headers={"Authorization": "HOOK_TOKEN"}, tries=2
        )
        with caplog.at_level(logging.DEBUG):
            outlet.batch(BATCHES[0], BAD)
            outlet.close()
        assert outlet.lost == 1
        told = caplog.text + repr(outlet)
        assert "was lost: ConnectionRefusedError" in told
        assert not [secret for secret in ("t0p", "s3cret", "pr1vate") if secret in told]

    def test_a_receiver_that_never_answers_holds_nobody_up(self):
        hold = threading.Event()
        with Receiver(lambda handler: hold.wait(60)) as receiver:
            outlet = Webhook(receiver.url, queue_max=2, timeout_seconds=0.2, tries=1)
            outlet.batch(BATCHES[0], BAD)
            receiver.next()
            # It is being sent, and not answered. Those that come now do not wait.
            for _ in range(20):
                outlet.event(failed(T0))
            assert outlet._waiting.qsize() <= 2
            assert outlet.lost >= 18
            outlet.close()
            hold.set()

    def test_used_again_after_the_end(self):
        with Receiver() as receiver:
            outlet = Webhook(receiver.url)
            for _ in range(2):
                outlet.batch(BATCHES[0], BAD)
                assert receiver.next()[2]["health"]["level"] == "warning"
                outlet.close()
                outlet.close()

    @pytest.mark.parametrize(
        "url",
        ["", "ftp://x/s3cret", "file:///etc/s3cret", "http://", "//s3cret", "http://a b/s3cret", "http://x:p/s3cret", None],
    )
    def test_what_is_no_url(self, url):
        with pytest.raises(hf.InputError, match=r"Webhook\(url\)") as raised:
            Webhook(url)
        assert "s3cret" not in str(raised.value)

    def test_a_password_in_the_url(self):
        with pytest.raises(hf.InputError, match="there is a password in it") as raised:
            Webhook("http://me:s3cret@x/y")
        assert "s3cret" not in str(raised.value)

    def test_headers_that_cannot_be_used(self, monkeypatch):
        with pytest.raises(hf.InputError, match="HOOK_TOKEN is not set"):
            Webhook("http://x", headers={"Authorization": "HOOK_TOKEN"})
        monkeypatch.setenv("HOOK_TOKEN", "s3cret\r\nX: y")
        with pytest.raises(hf.InputError, match="characters that a header cannot have") as raised:
            Webhook("http://x", headers={"Authorization": "HOOK_TOKEN"})
        assert "s3cret" not in str(raised.value)


class Noting:
    """An outlet that notes what it is told, and waits in `event` until it may go on."""

    def __init__(self):
        self.calls = []
        self.is_in = threading.Semaphore(0)
        self.may_go = threading.Event()

    def batch(self, record, health):
        self.calls.append(record.batch)

    def event(self, record):
        self.calls.append(record.event)
        self.is_in.release()
        assert self.may_go.wait(60)

    def close(self):
        self.calls.append("close")


class TestTogether:
    def test_one_that_ends_its_thread_does_not(self, caplog):
        seen: list[Health] = []
        together = Outlets([HealthCallback(lambda health: sys.exit(3)), HealthCallback(seen.append)])
        together.batch(BATCHES[0], BAD)
        assert seen == [BAD]
        assert "The outlet HealthCallback raised SystemExit" in caplog.text

    def test_a_function_is_told_of_health(self):
        seen: list[Health] = []
        outlet = HealthCallback(seen.append)
        outlet.event(started(T0))
        outlet.batch(BATCHES[0], BAD)
        outlet.close()
        assert seen == [BAD]

    def test_one_that_raises_does_not_stop_the_others(self, caplog):
        class Broken:
            def batch(self, record, health):
                raise ValueError("s3cret")

            def event(self, record):
                raise ZeroDivisionError

            def close(self):
                raise ZeroDivisionError

        seen: list[Health] = []
        together = Outlets([Broken(), HealthCallback(seen.append)])
        together.event(started(T0))
        together.batch(BATCHES[0], BAD)
        together.batch(BATCHES[1], WELL)
        together.close()
        assert seen == [BAD, WELL]
        assert caplog.text.count("The outlet Broken raised") == 1
        assert "s3cret" not in caplog.text

    def test_several_may_notice_the_end_and_the_next_run_is_told(self):
        """A query's end is noticed by Spark's listener and by whoever waits for the job, at the same time."""
        told = Noting()
        dispatch = Dispatch([told], None, "j")
        for _ in range(2):
            told.may_go.clear()
            dispatch.begin(History())
            dispatch.put(started(0))
            assert told.is_in.acquire(timeout=60)
            ending = [threading.Thread(target=dispatch.end) for _ in range(2)]
            for thread in ending:
                thread.start()
            told.may_go.set()
            for thread in ending:
                thread.join()
        assert told.calls == ["started", "close"] * 2

    def test_an_outlet_that_hangs_is_waited_for_once_and_never_called_by_two(self, monkeypatch):
        monkeypatch.setattr(dispatch_module, "_CLOSING_SECONDS", 0.2)
        told = Noting()
        dispatch = Dispatch([told], None, "j")
        dispatch.begin(History())
        dispatch.put(started(0))
        assert told.is_in.acquire(timeout=60)
        dispatch.end()
        dispatch.begin(History())
        dispatch.put(started(0))
        assert not told.is_in.acquire(timeout=0.2)
        told.may_go.set()
        dispatch.end()
        assert told.calls == ["started", "close"] * 2

    def test_a_history_that_cannot_be_judged_does_not_silence_a_job(self, monkeypatch, caplog):
        healths = iter([RuntimeError("odd"), WELL])

        def judged(*_, **__):
            found = next(healths)
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(dispatch_module, "judge", judged)
        told = Noting()
        told.may_go.set()
        dispatch = Dispatch([told], None, "j")
        dispatch.begin(History())
        dispatch.put(BATCHES[0])
        dispatch.put(BATCHES[1])
        dispatch.end()
        assert told.calls == [BATCHES[1].batch, "close"]
        assert "could not be judged" in caplog.text

    def test_public_names(self):
        assert list(hf.watch._HOMES) == hf.watch.__all__
        assert [name for name in hf.watch.__all__ if getattr(hf.watch, name).__module__ != hf.watch._HOMES[name]] == []
        assert set(dir(hf.watch)) >= set(hf.watch.__all__)
        assert not hasattr(hf.watch, "nothing")

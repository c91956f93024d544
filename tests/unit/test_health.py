"""Health, case by case: levels, evidence, what the command shows and how it ends."""

from __future__ import annotations

import json
import sys
import types

import msgspec
import pytest

import holdfast.checkpoint.registry as registry
from histories import T0, Story, failed, started
from holdfast import ops
from holdfast.checkpoint.lock import holding
from holdfast.checkpoint.registry import RegisteredJob, register
from holdfast.cli.main import main
from holdfast.errors import CheckpointError
from holdfast.watch import Health, History, Level, Limit, Symptom, Thresholds, judge
from holdfast.watch.records import BatchRecord, EventRecord, StepRecord


def written(folder, history):
    """A folder that has nothing of a checkpoint but this history."""
    place = folder / "holdfast" / "history"
    place.mkdir(parents=True, exist_ok=True)
    lines = [msgspec.json.encode(record) for record in (*history.events, *history.batches)]
    (place / "now.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return str(folder)


def stopped(story):
    end = EventRecord("stopped", T0 + 600_000, run=story.run, batch=story.batches - 1, job="payments")
    history = story.history()
    return History(history.batches, [*history.events, end])


@pytest.fixture
def home(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))


class TestJudge:
    def test_nothing_is_known(self):
        found = judge(History(), now_ms=5)
        assert (found.level, found.batch, found.symptoms, found.at_ms) == (Level.UNKNOWN, None, [], 5)
        assert found.notes == ["There is no history of micro-batches yet."]

    def test_a_few_micro_batches_are_not_judged_by_medians(self):
        found = judge(Story(batches=4, commit_ms=500, checkpoint_ms=90_000).history())
        assert found.level == Level.OK
        assert found.measure("update_ms").level == Level.UNKNOWN
        assert "not counting the first of each run: 2 so far" in found.notes[0]

    def test_but_by_what_they_hold(self):
        found = judge(Story(batches=4, memory_bytes=5 << 30).history())
        assert found.level == Level.CRITICAL
        assert found.measure("memory_bytes").todo

    @pytest.mark.parametrize(("size", "level"), [((1 << 30) - 1, 0), (1 << 30, 2), (5 << 30, 2), ((5 << 30) + 1, 3)])
    def test_bounds(self, size, level):
        history = History([BatchRecord(0, T0, steps={"s": StepRecord(keys=1, state_bytes=size)})])
        assert judge(history).measure("state_bytes").level == level

    def test_the_worst_comes_first(self):
        found = judge(Story(commit_ms=20, events=[failed(T0 + n) for n in range(6)]).history(), running=True)
        assert [symptom.level for symptom in found.symptoms] == [Level.CRITICAL, Level.WARNING]
        assert found.level == Level.CRITICAL

    def test_a_job_that_failed(self):
        story = Story(events=[failed(T0 + 590_000, "ValueError: amount\nis missing", batch=299)])
        found = judge(story.history(), running=False)
        assert found.symptoms[0].name == "failed"
        assert "after micro-batch 299" in found.symptoms[0].evidence
        assert "ValueError: amount · is missing" in found.symptoms[0].evidence
        assert judge(story.history(), running=True).symptom("failed") is None

    def test_a_job_that_was_killed(self):
        assert judge(Story().history(), running=False).symptom("gone").level == Level.CRITICAL
        assert judge(Story().history(), running=None).symptoms == []
        assert judge(stopped(Story()), running=False).symptoms == []

    def test_a_job_that_cannot_get_past_a_micro_batch(self):
        events = [failed(T0 + 1_000 * n, batch=19) for n in range(3)]
        found = judge(Story(batches=20, events=events).history(), running=True).symptom("reprocessing")
        assert found.level == Level.CRITICAL
        assert "has not come past micro-batch 20" in found.evidence
        assert "dead_letter" in found.todo

    def test_failures_are_forgotten(self):
        story = Story(batches=100, interval_ms=60_000, events=[failed(T0 + 1_000), started(T0 + 2_000)])
        assert judge(story.history(), running=True).symptoms == []

    def test_failures_are_forgotten_although_the_clock_was_set_back(self):
        events = [failed(T0 + 300_000, batch=40), started(T0 + 301_000)]
        whole = Story(batches=3_000, events=events).history()
        back = [msgspec.structs.replace(b, at_ms=b.at_ms - 86_400_000) if b.batch > 200 else b for b in whole.batches]
        assert judge(History(whole.batches, whole.events)).measure("failures").value == 0
        assert judge(History(back, whole.events)).measure("failures").value == 0
        assert judge(History(back[:300], whole.events)).measure("failures").value == 1

    def test_micro_batches_that_were_done_again(self):
        history = Story(batches=60).history()
        found = judge(History(history.batches, history.events, again={50: 1, 51: 2}), running=True).symptom("reprocessing")
        assert found.figures == {"failures": 0, "micro_batches_again": 3}
        assert "done again 3 times (50, 51)" in found.evidence

    def test_a_time_in_the_future_moves_the_watermark_ahead(self):
        batches = Story().history().batches
        ahead = T0 + 10**9
        stuck = [
            msgspec.structs.replace(batch, watermark_ms=ahead - 10_000 if batch.batch > 20 else batch.watermark_ms)
            for batch in batches
        ]
        stuck[20] = msgspec.structs.replace(stuck[20], event_ms_max=ahead)
        found = judge(History(stuck), running=True).symptom("idle_watermark")
        assert "An event of 2025-10-20 22:40:00 UTC moved it ahead" in found.evidence

    def test_a_watermark_that_never_moved(self):
        """Spark's begins at 1970, which is told as none."""
        batches = Story(idle_source=True).history().batches
        never = [msgspec.structs.replace(batch, watermark_ms=None) for batch in batches]
        found = judge(History(never), running=True).symptom("idle_watermark")
        assert found.evidence.startswith("It stands at its beginning for 10 min")
        assert "No rows came from Kafka[cards] (source 1)" in found.evidence
        without = [msgspec.structs.replace(batch, event_ms_max=None) for batch in never]
        assert judge(History(without), running=True).symptoms == []

    def test_data_of_one_time_leaves_the_watermark_where_it_is(self):
        batches = [msgspec.structs.replace(b, watermark_ms=T0, event_ms_max=T0) for b in Story().history().batches]
        assert judge(History(batches)).symptom("idle_watermark") is None

    def test_few_keys_are_no_skew(self):
        batches = Story(hot_share=0.9).history().batches
        replace = msgspec.structs.replace
        few = [replace(b, steps={"s": replace(b.steps["totals"], keys=3, hot=b.steps["totals"].hot[:1])}) for b in batches]
        assert judge(History(few)).symptoms == []

    def test_what_is_seen_of_a_state_is_not_growth(self):
        """A job that went on without its history sees one key group after the other."""
        batches = [
            msgspec.structs.replace(
                batch, steps={name: msgspec.structs.replace(step, partial=True) for name, step in batch.steps.items()}
            )
            for batch in Story(growth=3).history().batches
        ]
        found = judge(History(batches))
        assert found.symptoms == []
        assert any("more state is stored" in note for note in found.notes)

    def test_state_that_goes_up_and_down_does_not_explode(self):
        """Windows that end every ten minutes, seen for an hour."""
        batches = [
            msgspec.structs.replace(
                batch,
                steps={
                    "s": StepRecord(
                        counters={"elements": 10}, keys=(batch.batch % 300) * 10_000, state_bytes=batch.batch % 300 << 24
                    )
                },
            )
            for batch in Story(batches=1799).history().batches
        ]
        assert judge(History(batches), Thresholds(state_bytes=Limit(None, 5 << 30))).symptoms == []

    def test_long_silence_is_noted(self):
        notes = judge(Story().history(), running=True, now_ms=T0 + 600_000 + 3_600_000).notes
        assert notes == ["No micro-batch for 60 min: nothing came, or one takes that long."]

    def test_a_busy_machine_is_not_slow_state(self):
        """Everything takes ten times as long."""
        story = Story(duration_ms=12_000, checkpoint_ms=600, open_ms=20, commit_ms=30, interval_ms=60_000)
        found = judge(story.history(), running=True)
        assert (found.measure("update_ms").value > 40, found.symptoms, found.level) == (True, [], Level.OK)


class TestHtml:
    def test_what_comes_from_users_is_escaped(self):
        symptom = Symptom("skew", "<b>", Level.WARNING, "<script>alert(1)</script>", "a & b", key="<i>")
        shown = Health(Level.WARNING, "<img src=x>", 3, T0, [], [symptom], ["<u>"])._repr_html_()
        assert "<script>" not in shown
        assert "<img" not in shown
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
        assert "a &amp; b" in shown

    def test_a_table_of_measures(self):
        shown = judge(Story().history())._repr_html_()
        assert shown.count("<tr>") == 14
        assert "State size" in shown


class TestFunction:
    def test_by_path_and_by_name(self, tmp_path, home):
        path = written(tmp_path / "ckpt", Story().history())
        with holding(None, path, "job payments") as lock:
            register(RegisteredJob("alerts", path, lock._token))
            assert ops.health(path).job == "payments"
            found = ops.health("alerts")
        assert (found.level, found.running, found.job) == (Level.OK, True, "alerts")
        assert ops.health(path).symptom("gone") is not None

    def test_thresholds_as_a_mapping(self, tmp_path, home):
        path = written(tmp_path / "ckpt", stopped(Story()))
        assert ops.health(path, {"memory_bytes": {"warning": 1, "critical": 2}}).level == Level.CRITICAL

    def test_a_tool_on_the_checkpoint_is_no_job(self, tmp_path, home):
        path = written(tmp_path / "ckpt", stopped(Story()))
        with holding(None, path, "rescale"):
            assert ops.health(path).running is False

    @pytest.mark.parametrize("make", [lambda p: None, lambda p: (p / "x").mkdir()], ids=["nothing", "no checkpoint"])
    def test_what_is_no_checkpoint(self, tmp_path, home, make):
        make(tmp_path)
        with pytest.raises(CheckpointError, match=r"No job|is not a checkpoint"):
            ops.health(str(tmp_path / "x"))

    def test_without_spark(self, tmp_path, home, monkeypatch):
        path = written(tmp_path / "ckpt", stopped(Story()))
        for module in [name for name in sys.modules if name.partition(".")[0] in ("pyspark", "pyarrow", "pandas", "xxhash")]:
            monkeypatch.delitem(sys.modules, module)
        for name in ("pyspark", "pyarrow", "pandas", "xxhash"):
            monkeypatch.setitem(sys.modules, name, None)
        ours = ("holdfast.checkpoint", "holdfast.watch", "holdfast.ops.upkeep", "holdfast.cli.health")
        for module in [name for name in sys.modules if name.startswith(ours)]:
            monkeypatch.delitem(sys.modules, module)
        assert ops.health(path).level == 0


class TestCommand:
    @pytest.mark.parametrize(
        ("story", "code", "word"),
        [(Story(), 0, "ok"), (Story(commit_ms=20), 3, "warning"), (Story(memory_bytes=5 << 30), 4, "critical")],
        ids=["ok", "warning", "critical"],
    )
    def test_exit_codes(self, tmp_path, home, capsys, story, code, word):
        path = written(tmp_path, stopped(story))
        assert main(["health", path]) == code
        assert f"payments: {word}" in capsys.readouterr().out
        assert main(["health", path, "--json"]) == code
        document = json.loads(capsys.readouterr().out)
        assert (document["level"], document["job"], document["running"]) == (word, "payments", False)
        assert {measure["name"]: measure["level"] for measure in document["measures"]}["state_bytes"] == "ok"

    def test_nothing_known_is_no_failure(self, tmp_path, home, capsys):
        (tmp_path / "offsets").mkdir()
        assert main(["health", str(tmp_path)]) == 0
        told = capsys.readouterr().out
        assert "unknown" in told
        assert "note: There is no history" in told

    def test_failure_and_usage(self, tmp_path, home, capsys):
        assert main(["health", str(tmp_path / "none")]) == 1
        assert main(["health", written(tmp_path, stopped(Story())), "--json", "--watch"]) == 2
        assert main(["health", str(tmp_path), "--thresholds", str(tmp_path / "none.toml")]) == 1
        assert "--thresholds: there is no file" in capsys.readouterr().err

    def test_thresholds_from_a_file(self, tmp_path, home):
        file = tmp_path / "t.toml"
        file.write_text("[memory_bytes]\nwarning = 1\n", encoding="utf-8")
        assert main(["health", written(tmp_path, stopped(Story())), "--thresholds", str(file)]) == 3

    def test_evidence_and_what_to_do_are_shown_whole(self, tmp_path, home, capsys):
        assert main(["health", written(tmp_path, stopped(Story(hot_share=0.6)))]) == 3
        told = " ".join(capsys.readouterr().out.split())
        assert "warning: Skew: a hot key card 7 has 60% of the" in told
        assert "what to do: divide the key" in told
        assert "(docs/aggregations.md#before-the-shuffle); parallel_over='key+window' if it has many windows" in told

    def test_watching_ends_with_ctrl_c(self, tmp_path, home, capsys, monkeypatch):
        """Each look reads what is new."""
        story = Story()
        path = written(tmp_path, stopped(Story(batches=100)))
        looks = []

        def sleep(seconds):
            looks.append(seconds)
            if len(looks) == 2:
                raise KeyboardInterrupt
            with open(f"{path}/holdfast/history/now.jsonl", "ab") as file:
                file.writelines(msgspec.json.encode(batch) + b"\n" for batch in story.history().batches[100:])

        monkeypatch.setattr("holdfast.cli.health.time", types.SimpleNamespace(sleep=sleep))
        assert main(["health", path, "--watch", "--every", "7"]) == 0
        assert looks == [7, 7]
        assert "micro-batch 299" in capsys.readouterr().out

    def test_in_the_format_of_prometheus(self, tmp_path, home, capsys):
        from prometheus_client.parser import text_string_to_metric_families

        assert main(["health", written(tmp_path, stopped(Story(commit_ms=20))), "--prometheus"]) == 3
        families = {family.name: family for family in text_string_to_metric_families(capsys.readouterr().out)}
        assert families["holdfast_health_level"].samples[0].value == 2
        assert families["holdfast_state_keys"].samples[0].labels == {"job": "payments", "step": "totals"}
        assert all(family.type == "gauge" for family in families.values())

    def test_what_is_stored_has_no_power_over_the_terminal(self, tmp_path, home, capsys):
        history = stopped(Story(hot_share=0.6))
        hostile = [
            msgspec.structs.replace(batch, steps={"\x1b[2J[red]": batch.steps["totals"]}) for batch in history.batches
        ]
        assert main(["health", written(tmp_path, History(hostile, history.events))]) == 3
        told = capsys.readouterr().out
        assert "\x1b" not in told
        assert "\\x1b[2J[red]" in told


def test_registered_jobs_are_found_without_a_name(tmp_path, home):
    register(RegisteredJob("a", "/x", "t"))
    register(RegisteredJob("b", "/y", "t"))
    assert {job.name for job in registry.registered()} == {"a", "b"}

"""`holdfast top`: what is on the screen, and what the keys do."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree

import msgspec
import pytest

import holdfast as hf
from histories import T0, Story
from holdfast.cli.main import main
from holdfast.cli.top_jobs import JobsLookedAt, Seen
from holdfast.cli.top_texts import JOB_COLUMNS, STEP_COLUMNS, fitting, health_lines, key_lines, spark_line
from holdfast.watch import History, judge

pytest.importorskip("textual")

from textual.app import App
from textual.widgets import DataTable

from holdfast.cli.top_app import HelpScreen, TopApp

CHARACTER = 12.2
"""The width of a character in a picture of the screen."""


def seen(name, history):
    return Seen(f"/data/{name}", history, judge(history, running=True, now_ms=T0 + 600_000, job=name))


def with_steps(story, **steps):
    """A history with other steps beside its own."""
    batches = []
    for batch in story.history().batches:
        more = {name: msgspec.structs.replace(batch.steps["totals"], **change) for name, change in steps.items()}
        batches.append(msgspec.structs.replace(batch, steps={**batch.steps, **more}))
    return History(batches, story.history().events)


class Jobs:
    """What the screen looks at, without files."""

    def __init__(self, *found):
        self.found, self.looks, self.closed = list(found), 0, False

    def look(self):
        self.looks += 1
        return self.found

    def close(self):
        self.closed = True


WELL = seen("payments", Story(batches=60).history())
BAD = seen("alerts", with_steps(Story(hot_share=0.6), sessions={"keys": 12, "timers": 7}))


def lines_of(app: App) -> list[str]:
    """The text on the screen, line by line, from the picture that Textual makes of it."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for element in ElementTree.fromstring(app.export_screenshot()).iter("{http://www.w3.org/2000/svg}text"):
        if "clip-path" in element.attrib:
            rows.setdefault(float(element.attrib["y"]), []).append((float(element.attrib["x"]), element.text or ""))
    lines = []
    for y in sorted(rows):
        line = ""
        for x, part in sorted(rows[y]):
            line = line.ljust(round(x / CHARACTER)) + part.replace("\xa0", " ")
        lines.append(line.rstrip())
    return lines


def awaited(coroutine):
    """What it gives, on a thread of its own: a browser that another test has opened keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def on_screen(jobs, keys=(), size=(80, 24), do=None):
    """What is on the screen after these keys."""

    async def run():
        app = TopApp(jobs, every_seconds=3600)
        async with app.run_test(size=size) as pilot:
            await app.workers.wait_for_complete()
            await pilot.pause()
            for key in keys:
                await pilot.press(key)
                await app.workers.wait_for_complete()
                await pilot.pause()
            found = lines_of(app)
            if do is not None:
                do(app)
        return found

    return awaited(run())


SNAPSHOT = """\
 holdfast top   2 jobs   2025-10-09 09:03:20 UTC
 job       health     batch  rows/s  time    state   wm lag  src lag
 payments  ● ok       59     1,155   663 ms  4.1 MB  9.9 s   0
 alerts    ▲ warning  299    813     881 ms  8.7 MB  10.0 s  0
────────────────────────────────────────────────────────────────────────────────
 payments  micro-batch 59  every 2.0 s  running
 rows/s            1,155  ▄▅▁▃▃▂▄▁▅▂▄▁▁▆▄▇▅▅▅▅▁▁▇▄▄▂▂▄▆▃▄▇▆▆▅▅▆▅█▇▅▃▃▃▇▅▃▄▅▄▅▆▆
 time             663 ms  ▃▂▂▃▃▃▂▃▂█▂▂▂▂▂▂▃▂▃▃▃▂▂▂▂▃▃▃▂▃▃▂▂▃▂▂▂▂▂▂▃▃▃▂▂▃▂▂▂▃▂▂▂
 state            4.1 MB  ▂▂▂▃▃▃▃▄▄▄▅▅▅▆▆▆▇▇▇▇▇▇███████████▄▅▅▅▅▅▅▅▅▅▅▅▆▆▆▆▆▆▆▆
 phases       process 611 ms  log offsets 20 ms  plan 20 ms
 step    elements/s  keys    state   trend       update
 totals  1,155       48,962  4.1 MB  ▂▄▆███████  0.9 ms
 hottest      card 7 0.975%  card 8916 <0.1%  card 3110 <0.1%  card 1690 <0.1%
────────────────────────────────────────────────────────────────────────────────
 ● no symptoms








 tab jobs/steps/health  q quit  r look now  ? help
"""


def test_a_snapshot_of_the_screen():
    assert on_screen(Jobs(WELL, BAD)) == SNAPSHOT.splitlines()


def test_choosing_a_job():
    lines = on_screen(Jobs(WELL, BAD), ["down"])
    assert " alerts  micro-batch 299  every 2.0 s  running" in lines
    assert any("▲ Skew: a hot key  card 7 has 60% of the" in line for line in lines)
    assert on_screen(Jobs(WELL, BAD), ["j", "k"])[5].startswith(" payments")


def test_choosing_a_step():
    """Tab goes to the steps, whose keys are shown, and on to the symptoms."""
    quiet = dataclasses.replace(BAD, history=with_steps(Story(), a={"hot": []}))
    assert any("no keys known" in line for line in on_screen(Jobs(quiet)))
    assert any("hottest      card 7" in line for line in on_screen(Jobs(quiet), ["tab", "down"]))
    on_screen(Jobs(BAD), ["tab", "tab", "j"], do=lambda app: _has_focus(app, "health"))
    on_screen(Jobs(BAD), ["tab", "tab", "tab"], do=lambda app: _has_focus(app, "jobs"))


def _has_focus(app, name):
    assert app.focused.id == name


def test_a_large_screen_has_two_columns_and_bars():
    lines = on_screen(Jobs(WELL, BAD), ["down"], size=(140, 40))
    both = next(line for line in lines if line.startswith(" alerts  micro-batch 299"))
    assert "step" in both[70:]
    assert any(re.search(r"card 7 +60%  ━{10,}", line) for line in lines)
    assert any(line.startswith(" Checkpoint duration") for line in lines)
    assert "keys" in lines[1]


def test_help_and_the_way_back():
    assert any("how far the watermark is behind" in line for line in on_screen(Jobs(WELL), ["question_mark"]))
    assert " ● no symptoms" in on_screen(Jobs(WELL), ["question_mark", "escape"])
    on_screen(Jobs(WELL), ["question_mark"], do=lambda app: _is_help(app))


def _is_help(app):
    assert isinstance(app.screen, HelpScreen)


def test_looking_goes_on_behind_the_help():
    class Changing(Jobs):
        def look(self):
            self.looks += 1
            return [WELL if self.looks == 1 else BAD]

    async def run():
        app = TopApp(Changing(), every_seconds=3600)
        async with app.run_test(size=(80, 24)) as pilot:
            await app.workers.wait_for_complete()
            await pilot.press("question_mark")
            app.action_look()
            await app.workers.wait_for_complete()
            await pilot.pause()
            await pilot.press("escape")
            await pilot.pause()
            return lines_of(app)

    assert " alerts  micro-batch 299  every 2.0 s  running" in awaited(run())


def test_r_looks_again_and_the_choice_stays():
    jobs = Jobs(WELL, BAD)

    class Growing(Jobs):
        def look(self):
            self.looks += 1
            return self.found if self.looks == 1 else [seen("new", Story(batches=3).history()), *self.found]

    lines = on_screen(Growing(WELL, BAD), ["down", "r"])
    assert [line.split()[0] for line in lines[2:5]] == ["new", "payments", "alerts"]
    assert " alerts  micro-batch 299  every 2.0 s  running" in lines
    on_screen(jobs, ["r", "r"])
    assert jobs.looks == 3


def test_quitting_ends_what_was_open():
    jobs = Jobs(WELL)

    async def run():
        app = TopApp(jobs, every_seconds=3600)
        async with app.run_test() as pilot:
            await pilot.press("q")
        return app.return_code

    assert awaited(run()) == 0
    assert jobs.closed


def test_nothing_known_yet():
    lines = on_screen(Jobs(seen("fresh", History())))
    assert lines[2].split() == ["fresh", "○", "unknown"]
    assert " No micro-batch yet." in lines


def test_names_have_no_power():
    batch = Story(batches=3).history().batches[-1]
    history = History([msgspec.structs.replace(batch, steps={"[red]\x1b[2J": batch.steps["totals"]})])
    lines = on_screen(Jobs(seen("[b]x\x1b", history)))
    assert lines[2].startswith(" [b]x\\x1b")
    assert any(line.startswith(" [red]\\x1b[2J") for line in lines)


def test_a_step_that_goes_away():
    class Changing(Jobs):
        def look(self):
            self.looks += 1
            return [dataclasses.replace(BAD if self.looks == 1 else WELL, checkpoint="/one")]

    steps = []
    on_screen(Changing(), ["tab", "down", "r"], do=lambda app: steps.extend(app.query_one("#steps", DataTable).rows))
    assert [key.value for key in steps] == ["totals"]


class TestTexts:
    @pytest.mark.parametrize(
        ("values", "line"),
        [([], ""), ([0, 0], "▁▁"), ([1, 2, 4, 8], "▂▃▅█"), ([-5, 10], "▁█"), (list(range(100)), "██"), ([2**63], "█")],
    )
    def test_spark_lines(self, values, line):
        assert spark_line(values, 2 if len(values) == 100 else 40) == line

    def test_columns_that_fit(self):
        assert fitting(JOB_COLUMNS, 80) == [name for name in JOB_COLUMNS if name != "keys"]
        assert fitting(JOB_COLUMNS, 300) == list(JOB_COLUMNS)
        assert fitting(STEP_COLUMNS, 5) == ["step"]

    def test_keys_of_nothing(self):
        assert key_lines(WELL, None, 80, is_short=True).plain == "no keys known"

    def test_measures_speak_where_no_symptom_does(self):
        assert "▲ Late elements  9." in health_lines(judge(Story(late_share=0.1).history())).plain


class TestCommand:
    @pytest.fixture(autouse=True)
    def home(self, monkeypatch, tmp_path):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))

    def test_without_a_terminal(self, tmp_path, capsys):
        (tmp_path / "offsets").mkdir()
        assert main(["top", str(tmp_path)]) == 1
        assert "holdfast top needs a terminal" in capsys.readouterr().err

    def test_without_the_extra(self, monkeypatch, capsys):
        monkeypatch.setitem(__import__("sys").modules, "textual", None)
        assert main(["top"]) == 1
        assert "pip install 'holdfast[top]'" in capsys.readouterr().err

    def test_jobs_by_checkpoint_and_all_that_run(self, tmp_path):
        for name in ("a", "b"):
            (tmp_path / name / "offsets").mkdir(parents=True)
        jobs = JobsLookedAt([str(tmp_path / "a"), str(tmp_path / "b"), f"{tmp_path}/a/"])
        assert [found.name for found in jobs.look()] == ["a", "b"]
        jobs.close()
        with pytest.raises(hf.CheckpointError, match="No job of yours is running"):
            JobsLookedAt([])

    def test_jobs_that_start_later(self, tmp_path):
        from holdfast.checkpoint.lock import holding
        from holdfast.checkpoint.registry import RegisteredJob, register

        places = [str(tmp_path / name) for name in ("a", "b")]
        for place in places:
            (tmp_path / place / "offsets").mkdir(parents=True)
        with holding(None, places[0], "job a") as first, holding(None, places[1], "job b") as second:
            register(RegisteredJob("a", places[0], first._token))
            jobs = JobsLookedAt([])
            assert [found.checkpoint for found in jobs.look()] == places[:1]
            register(RegisteredJob("b", places[1], second._token))
            assert [found.checkpoint for found in jobs.look()] == places
            jobs.close()

"""The exercises: solutions pass, stubs and likely mistakes do not, and the commands say what is wrong."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from holdfast.cli.main import main
from holdfast.cli.output import console
from holdfast.errors import InputError
from holdfast.learn.checking import check_file
from holdfast.learn.exercises import EXERCISES
from holdfast.learn.progress import note, progress

PAGE = Path(__file__).parents[2] / "docs" / "learn.md"
_SESSION = re.compile(r"```text\n(.*?)```", re.DOTALL)

BY_NAME = {exercise.name: exercise for exercise in EXERCISES}

MISTAKES = {
    "key-counter": [
        ("count.write(running_count)", "count.clear()", "counts the elements of a key"),
        (
            "running_count = (count.read() or 0) + 1",
            "self.counts = {**getattr(self, 'counts', {}), key: getattr(self, 'counts', {}).get(key, 0) + 1}\n"
            "        running_count = self.counts[key]",
            "continues after a crash",
        ),
    ],
    "deduplicate": [("            seen.write(True)\n", "", "gives the first element of a key, and no other")],
    "transaction-buffer": [
        ("            count.clear()\n", "", "gives three amounts together"),
        ("            buffer.clear()\n", "", "gives three amounts together"),
        ("n == 3", "n == 2", "gives three amounts together"),
    ],
    "impossible-travel": [
        ("< 3600", "<= 3600", "says nothing about the same place, nor after an hour"),
        ("place_before != place and ", "", "says nothing about the same place, nor after an hour"),
    ],
    "rate-limit": [("<= 5", "< 5", "lets five calls of a minute through")],
    "session-trail": [
        ("        pages.clear()\n", "", "gives the pages of a visit after half an hour of silence"),
        ("at + 1800", "at + 900", "waits as long as pages come"),
    ],
    "last-page": [
        (', ttl="24 hours"', "", "forgets a user after a day"),
        ('ttl="24 hours"', 'ttl="36 hours"', "forgets a user after a day"),
        (
            "        last.write(page)\n",
            "        if last.read() is None:\n            last.write(page)\n",
            "counts the day from the last page",
        ),
    ],
    "average": [
        (
            "return sum(total for total, _ in accumulators), sum(number for _, number in accumulators)",
            "return accumulators[0]",
            "gives the same if parts are computed separately and merged",
        ),
        (" if number else None", "", "gives None for nothing"),
    ],
}
"""What a learner may well write in place of a part of the solution, and the first thing that is then wrong."""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(text, name="mine.py"):
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


def wrong(text):
    """The first thing that is wrong with what was written."""
    (checked,) = check_file(written(text))
    return next((outcome for outcome in checked.outcomes if not outcome.passed), None)


@pytest.mark.parametrize("name", BY_NAME)
def test_each_solution_passes(name):
    (checked,) = check_file(written(BY_NAME[name].solution))
    assert checked.exercise is BY_NAME[name]
    assert [(outcome.shows, outcome.wrong) for outcome in checked.outcomes if not outcome.passed] == []
    assert len(checked.outcomes) == 1 + len(BY_NAME[name].cases) + bool(BY_NAME[name].uses)


@pytest.mark.parametrize("name", BY_NAME)
def test_each_stub_fails(name):
    found = wrong(BY_NAME[name].stub)
    assert found is not None
    assert "not written yet" in found.wrong
    assert found.todo == f"holdfast learn hint {name}"


@pytest.mark.parametrize(("name", "mistake"), [(name, mistake) for name in MISTAKES for mistake in MISTAKES[name]])
def test_likely_mistakes_are_noticed(name, mistake):
    old, new, shows = mistake
    solution = BY_NAME[name].solution
    assert old in solution
    found = wrong(solution.replace(old, new))
    assert (found and found.shows) == shows


def test_what_is_kept_outside_of_cells_is_noticed():
    text = BY_NAME["key-counter"].solution
    text = text.replace("(count.read() or 0) + 1", "SEEN.setdefault(key, 0) + 1").replace(
        "count.write(running_count)", "SEEN[key] = running_count"
    )
    found = wrong(text.replace("class KeyC", "SEEN = {}\n\n\nclass KeyC"))
    assert found is not None


OUTSIDE = """
import holdfast as hf

class RateLimitDoFn(hf.DoFn):
    def __init__(self):
        self.calls = {}

    def process(self, element, window=hf.DoFn.WindowParam):
        place = element[0], window
        self.calls[place] = self.calls.get(place, 0) + 1
        if self.calls[place] <= 5:
            yield element

class ImpossibleTravelDoFn(hf.DoFn):
    def __init__(self):
        self.last = {}

    def process(self, element, at=hf.DoFn.TimestampParam):
        user, place = element
        where, when = self.last.get(user, (place, at))
        if where != place and at - when < 3600:
            yield user, where, place
        self.last[user] = place, at
"""


def test_attributes_for_cells_are_noticed_where_any_kind_of_cell_will_do():
    first = [next(o.shows for o in checked.outcomes if not o.passed) for checked in check_file(written(OUTSIDE))]
    assert first == ["compares with this user's last login, even across a crash", "keeps counting after a crash"]


def test_what_a_bag_gives_is_a_list_too():
    text = BY_NAME["transaction-buffer"].solution
    assert "list(buffer.read())" in text
    assert wrong(text.replace("list(buffer.read())", "buffer.read()")) is None
    found = wrong(text.replace("list(buffer.read())", "buffer.read()").replace("            count.clear()\n", ""))
    assert found.wrong == "the results are right; at the end there is state of 's', and should be of nothing"
    assert "clear()" in found.todo


def test_an_error_that_comes_again_is_told_once():
    (checked,) = check_file(written(BY_NAME["key-counter"].solution.replace("(count.read() or 0)", "count.read()")))
    told = [(outcome.wrong.splitlines()[0], outcome.todo) for outcome in checked.outcomes if not outcome.passed]
    assert "TypeError" in told[0][0]
    assert told[1:] == [("it raises the same error", "")] * 2


def test_every_text_says_its_commands_and_its_class():
    for exercise in EXERCISES:
        assert f"holdfast learn check {exercise.file_name}" in exercise.stub
        assert f"holdfast learn hint {exercise.name}" in exercise.stub
        assert f"class {exercise.class_name}(" in exercise.stub
        assert f"class {exercise.class_name}(" in exercise.solution
        assert exercise.hint.strip()
        assert max(map(len, exercise.stub.splitlines())) <= 130


def test_another_kind_of_cell_is_told():
    text = BY_NAME["transaction-buffer"].solution
    text = text.replace("n = (count.read() or 0) + 1", "count.add(1)\n        n = count.read()").replace(
        "        count.write(n)\n", ""
    )
    found = wrong(text.replace('ValueStateSpec("count", hf.VarIntCoder())', 'CombiningStateSpec("count", sum)'))
    assert found.shows == "does so with a BagStateSpec and a ValueStateSpec"
    assert found.wrong == "no method asks for a ValueStateSpec"


def test_several_in_one_file():
    text = BY_NAME["deduplicate"].solution + BY_NAME["rate-limit"].solution
    assert [checked.exercise.name for checked in check_file(written(text))] == ["deduplicate", "rate-limit"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", "has no class of an exercise"),
        ("class KeyCounterDoFn(\n", "is not valid Python"),
        ("import sys\nsys.exit(0)\n", r"fails when it is loaded: SystemExit: 0 \(line 2\)"),
        ("import no_such_beam\n", "no_such_beam' [(]line 1[)][^\\0]*import holdfast as hf"),
        ("1 / 0\n", r"fails when it is loaded: ZeroDivisionError: division by zero \(line 1\)"),
    ],
)
def test_files_that_cannot_be_checked(text, says):
    with pytest.raises(InputError, match=says):
        check_file(written(text))


def test_a_file_that_is_not_there():
    with pytest.raises(InputError, match="cannot be read"):
        check_file("nothing.py")


def test_a_class_of_another_kind_and_one_that_raises():
    assert "derives from hf.DoFn" in wrong("class KeyCounterDoFn:\n    pass\n").wrong
    found = wrong(BY_NAME["key-counter"].solution.replace("        yield key", "        1 / 0\n        yield key"))
    assert "ZeroDivisionError" in found.wrong


def test_progress_is_kept_and_never_lost():
    assert progress() == {}
    note({"deduplicate": "begun"})
    note({"deduplicate": "done"})
    note({"deduplicate": "begun", "average": "begun"})
    assert progress() == {"deduplicate": "done", "average": "begun"}


@pytest.mark.parametrize("content", ["[]", "{", '{"average": 5}'])
def test_progress_that_makes_no_sense(home, content):
    file = home / "state" / "holdfast" / "learn.json"
    file.parent.mkdir(parents=True)
    file.write_text(content, encoding="utf-8")
    assert progress() == {}
    note({"average": "begun"})
    assert progress() == {"average": "begun"}


def test_progress_that_cannot_be_kept(home):
    (home / "state").write_text("a file", encoding="utf-8")
    note({"average": "begun"})
    assert progress() == {}


def test_the_commands(capsys):
    assert main(["learn", "start", "average", "exercises"]) == 0
    path = Path("exercises", "average.py")
    assert str(path) in capsys.readouterr().out
    assert main(["learn", "start", "average", "exercises"]) == 1
    assert "stays as it is" in capsys.readouterr().err
    assert main(["learn", "check", str(path)]) == 1
    assert "not written yet" in capsys.readouterr().out
    path.write_text(BY_NAME["average"].solution + "\nprint('loaded')\n", encoding="utf-8")
    assert main(["learn", "check", str(path), "--json"]) == 0
    said = capsys.readouterr()
    assert said.err == "loaded\n"
    (told,) = json.loads(said.out)
    assert (told["name"], told["passed"]) == ("average", True)
    assert main(["learn", "--json"]) == 0
    listed = {row["name"]: row["progress"] for row in json.loads(capsys.readouterr().out)}
    assert list(listed) == list(BY_NAME)
    assert listed["average"] == "done"
    assert main(["learn", "hint", "average"]) == 0
    assert capsys.readouterr().out == BY_NAME["average"].hint
    assert main(["learn", "solution", "average"]) == 0
    assert capsys.readouterr().out == BY_NAME["average"].solution
    assert main(["learn", "hint", "sums"]) == 1
    assert "choose one of: key-counter" in capsys.readouterr().err


def test_the_page_shows_what_the_commands_say(capsys, monkeypatch):
    """One after the other, as on the page: what stands after `$` is called, and what stands below is its output."""
    monkeypatch.setattr(console, "_width", 100)  # Whatever terminal the tests run in.
    shown = [line for block in _SESSION.findall(PAGE.read_text(encoding="utf-8")) for line in block.splitlines()]
    said = []
    for line in shown:
        if line.startswith("$ holdfast "):
            main(shlex.split(line)[2:])
            said += [line, *(told.rstrip() for told in capsys.readouterr().out.splitlines())]
    assert len(said) > 20
    assert [line for line in said if line] == [line for line in shown if line]

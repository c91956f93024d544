"""`holdfast run`: as `python` would, but for how errors of Holdfast's are told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from holdfast.cli.main import main


@pytest.fixture
def script(tmp_path):
    def write(text, name="job.py"):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


SHOW = """
    import json, sys, pickle
    class Thing: pass
    print(json.dumps({
        "argv": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__,
        "main": sys.modules["__main__"].Thing is Thing, "module": Thing.__module__,
        "again": type(pickle.loads(pickle.dumps(Thing()))) is Thing,
        "spec": __spec__ is None, "doc": __doc__, "builtins": __builtins__.len is len,
    }))
"""


def test_it_is_what_python_does(script, capfd):
    path = script(SHOW)
    given = ["one", "--json", "-h", "--", "--help", "two words"]
    before = list(sys.argv), list(sys.path), sys.modules["__main__"]
    assert main(["run", path, *given]) == 0
    ours = json.loads(capfd.readouterr().out)
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before
    theirs = subprocess.run([sys.executable, path, *given], capture_output=True, text=True, check=True)
    assert ours == json.loads(theirs.stdout)


def test_a_script_by_its_relative_path_with_a_module_beside_it(script, tmp_path, capfd, monkeypatch):
    script("VALUE = 7", "beside.py")
    script("import beside, sys; print(beside.VALUE, sys.argv[0])")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    assert main(["run", "job.py"]) == 0
    assert capfd.readouterr().out == "7 job.py\n"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit()", 0, ""),
        ("raise SystemExit('no more')", 1, "no more\n"),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_the_exit_code_is_passed_on(script, capfd, text, code, said):
    assert main(["run", script(text)]) == code
    assert capfd.readouterr().err == said


def test_an_error_of_holdfasts_is_a_sentence(script, capfd):
    text = """
        import holdfast as hf
        def deep():
            raise hf.InputError("An element is not a pair.", todo="give pairs")
        deep()
    """
    assert main(["run", script(text), "--json"]) == 1
    assert capfd.readouterr().err == "error: An element is not a pair.\n  what to do: give pairs\n"


def test_another_error_has_the_scripts_own_traceback(script, capfd):
    text = """
        def deep():
            return 1 / 0
        try:
            deep()
        except ZeroDivisionError as error:
            raise ValueError("wrong") from error
    """
    path = script(text)
    assert main(["run", path]) == 1
    ours = capfd.readouterr().err
    theirs = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert "in deep\n    return 1 / 0" in ours
    assert "holdfast" not in ours.replace(path, "")
    assert ours.splitlines()[-1] == theirs.stderr.splitlines()[-1] == "ValueError: wrong"
    assert f'File "{path}", line' in ours.splitlines()[ours.splitlines().index("Traceback (most recent call last):") + 1]


def test_what_cannot_be_compiled(script, capfd):
    path = script("def f(:\n  pass")
    assert main(["run", path]) == 1
    said = capfd.readouterr().err
    assert f'File "{path}", line 1' in said
    assert "SyntaxError" in said
    assert "run.py" not in said


def test_no_such_script(tmp_path, capfd):
    assert main(["run", str(tmp_path / "none.py")]) == 1
    assert "none.py' cannot be read: No such file or directory." in capfd.readouterr().err
    assert main(["run", str(tmp_path)]) == 1
    assert "Is a directory" in capfd.readouterr().err
    assert main(["run"]) == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_the_script(script, number):
    path = script("""
        import signal, sys, time
        def end(number, frame):
            print("got", number, flush=True)
            sys.exit(5)
        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        print("ready", flush=True)
        time.sleep(60)
    """)
    command = [sys.executable, "-c", "from holdfast.cli.main import run; run()", "run", path]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": _path()})
    assert child.stdout.readline() == "ready\n"
    child.send_signal(number)
    assert child.communicate(timeout=30)[0] == f"got {int(number)}\n"
    assert child.returncode == 5


def _path():
    import holdfast

    return str(Path(holdfast.__file__).parents[1])

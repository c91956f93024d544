"""Without the extra `spark`: whoever asks for what needs it is told what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast as hf
from holdfast import ops
from holdfast.model.extras import SPARK, TOOLS, require_spark

INSTALL = "pip install 'holdfast[spark]'"


@pytest.fixture
def without(monkeypatch):
    """Takes packages away, as if they had never been installed."""

    def take(*names):
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)
        # Tools that look at a module from outside, such as those that build its pages, may have put looked-up names into it.
        for module, looked_up in ((hf, hf._ON_SPARK), (ops, ops._HOMES)):
            for name in looked_up:
                monkeypatch.delitem(vars(module), name, raising=False)

    return take


@pytest.mark.parametrize("name", sorted(hf._ON_SPARK))
def test_names_that_need_spark(without, name):
    without(*SPARK)
    with pytest.raises(hf.MissingExtra) as raised:
        getattr(hf, name)
    packages = "pyspark, pyarrow, pandas, xxhash and lz4"
    assert str(raised.value) == f"hf.{name} needs {packages}, which are not installed: {INSTALL}"
    assert raised.value.name == "pyspark"


def test_importing_a_name_says_the_same(without):
    without(*SPARK)
    with pytest.raises(ImportError, match=r"hf\.keyed needs pyspark, pyarrow, pandas, xxhash and lz4"):
        from holdfast import keyed  # noqa: F401


def test_one_package_is_missing(without):
    without("pandas")
    with pytest.raises(ModuleNotFoundError) as raised:
        require_spark("It")
    assert str(raised.value) == f"It needs pandas, which is not installed: {INSTALL}"


@pytest.mark.parametrize("name", ops.__all__)
def test_ops(without, name):
    without(*SPARK)
    if ops._HOMES[name] in ops._WITHOUT_SPARK:
        assert getattr(ops, name)
    elif ops._HOMES[name] in ops._WITH_TOOLS:
        with pytest.raises(hf.MissingExtra, match=rf"holdfast.ops.{name} needs lz4 and xxhash, .*'holdfast\[tools\]'"):
            getattr(ops, name)
    else:
        with pytest.raises(hf.MissingExtra, match=f"holdfast.ops.{name} needs pyspark"):
            getattr(ops, name)


def test_looking_at_a_checkpoint_takes_no_spark():
    """In a process that cannot import it: what the extra `tools` installs is enough."""
    lines = [
        "import sys",
        f"sys.modules.update(dict.fromkeys({[name for name in SPARK if name not in TOOLS]!r}))",
        "from holdfast import ops",
        "for name, home in ops._HOMES.items():",
        "    if home in ops._WITHOUT_SPARK: getattr(ops, name)",
        "from holdfast.cli.main import main",
        "sys.exit(main(['state', 'ls', '/nowhere']))",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    assert (done.returncode, "There is nothing at '/nowhere'" in done.stderr) == (1, True), done.stderr


def test_other_names_are_not_there():
    assert not hasattr(hf, "nothing")
    assert not hasattr(ops, "nothing")

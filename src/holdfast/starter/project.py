"""Makes a project: all of its files, or none."""

from __future__ import annotations

import shutil
import string
import tempfile
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from holdfast.errors import InputError
from holdfast.starter.names import package_name
from holdfast.starter.templates import Template, find_template

__all__ = ["make_project"]

_SKELETON = {
    "README.md": "README.md.txt",
    "pyproject.toml": "pyproject.toml.txt",
    ".gitignore": "gitignore.txt",
    ".github/workflows/tests.yml": "tests.yml.txt",
    "src/$package/__init__.py": "init.py.txt",
}
_OF_THE_TEMPLATE = {
    "src/$package/$module.py": "function.py.txt",
    "src/$package/job.py": "job.py.txt",
    "tests/test_$module.py": "test_function.py.txt",
    "tests/test_job.py": "test_job.py.txt",
    "sample/rows.jsonl": "sample.jsonl",
}


def make_project(name: str, template: str, parent: Path) -> Path:
    """Makes a project in a folder of its name below `parent`, which must not have one, unless it is empty; returns it."""
    package, found = package_name(name), find_template(template)
    folder = parent / name
    if folder.is_symlink() or (folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))):
        raise InputError(f"NAME: there is something at {folder} already.", todo="choose another name; nothing was changed")
    if not parent.is_dir():
        raise InputError(f"--in: {parent} is not a folder.", todo="make it first")
    # It is made beside its place and then moved there, which fails if somebody else has been there meanwhile.
    made = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=parent))
    try:
        made.chmod(0o755)
        for path, text in _project_files(name, package, found).items():
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            (made / path).write_text(text, encoding="utf-8")
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return folder


def _project_files(name: str, package: str, template: Template) -> dict[str, str]:
    """The text of each file, by its path."""
    skeleton = files("holdfast.starter").joinpath("skeleton")
    texts = {path: skeleton.joinpath(file).read_text(encoding="utf-8") for path, file in _SKELETON.items()}
    texts |= {path: template.text(file) for path, file in _OF_THE_TEMPLATE.items()}
    words = {"name": name, "package": package, "module": template.name.replace("-", "_"), "version": version("holdfast")}
    words |= {"summary": template.summary, "about": string.Template(template.about).substitute(words)}
    return {string.Template(path).substitute(words): string.Template(text).substitute(words) for path, text in texts.items()}

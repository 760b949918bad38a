"""Writes the project of a plugin for ``skyband init --plugin``: the template beside this file, under the user's names."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.storage.outputs import output_directory

TEMPLATE: Final = Path(__file__).parent / "plugin_template"
_OWN_NAME: Final = "skyband.jobs.plugin_template.package"


def write_plugin(directory: Path) -> str:
    """Writes the project into ``directory``, which must be empty or not there; the name of its package, made of the directory's.

    SkybandError SKY-E201 if no package can have that name, SKY-E202 if something is in the directory, SKY-E203 if it cannot be written.
    """
    package = _package_name(directory)
    output_directory(directory, "--plugin")
    try:
        if directory.is_dir() and any(directory.iterdir()):
            raise SkybandError("SKY-E202", f"{directory} is not empty", "name a new directory")
        for name, text in _files(package):
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise SkybandError("SKY-E203", f"{directory} cannot be written: {(e.strerror or str(e)).lower()}") from None
    return package


def _package_name(directory: Path) -> str:
    name = re.sub(r"[-. ]+", "_", directory.absolute().name.lower())
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise SkybandError("SKY-E201", f"no package can be called {name!r}", "name a directory of letters, digits and '-', a letter first")
    if name in ("test", "tests") or name in sys.stdlib_module_names or find_spec(name) is not None:
        raise SkybandError("SKY-E201", f"there is a package called {name!r} already", "give the directory another name")
    return name


def _files(package: str) -> Iterator[tuple[Path, str]]:
    """(path in the project, text) of every file of the template."""
    for source in sorted(TEMPLATE.rglob("*")):
        inside = source.relative_to(TEMPLATE)
        if not source.is_file() or "__pycache__" in inside.parts or inside == Path("__init__.py"):
            continue
        parts = ("src", package, *inside.parts[1:]) if inside.parts[0] == "package" else inside.parts
        path = Path("pyproject.toml") if inside == Path("project.toml") else Path(*parts)
        text = source.read_text(encoding="utf-8").replace(_OWN_NAME, package)
        if source.suffix != ".py":
            text = text.replace("PACKAGE", package).replace("PROJECT", package.replace("_", "-"))
        yield path, text

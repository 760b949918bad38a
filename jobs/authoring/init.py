"""``skyband init``: write a first spec, with comments, that validates: an example, or (``--from``) one over your own file.

``--plugin`` writes a project instead: parts of one's own, with tests, to be installed beside Skyband.
"""

from __future__ import annotations

import argparse
import contextlib
import keyword
import re
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.errors import SkybandError
from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page

DEFAULT_PATH: Final = "job.yaml"

SCHEMA: Final = ".skyband.schema.json"
"""The file with the JSON schema beside a spec. Its name begins with a dot: it may lie in a source's directory, whose readers pass it
over."""

MODELINE: Final = f"# yaml-language-server: $schema={SCHEMA}\n"
"""The line that tells editors about the schema."""

TEMPLATE: Final = Path(__file__).parent / "first_job.yaml"
"""The spec that is written, under the name the user gives it."""

PLUGIN_TEMPLATE: Final = Path(__file__).parent.parent / "plugin_template"
_TEMPLATE_PACKAGE: Final = "skyband.jobs.plugin_template.package"


def add_parser(subparsers: Any) -> None:
    """Add the parser of the command."""
    parser = subparsers.add_parser(
        "init",
        help="write a first spec",
        **help_page(
            "Write a first spec with comments: an example, or with --from one for your own data. With --plugin, write a project for "
            "your own query types, scoring functions, sources and checks.",
            "skyband init job.yaml",
            "skyband init mine.yaml --from data/",
            "skyband init mine.yaml --sql query.sql --from data/",
            "skyband init --plugin my_parts",
        ),
    )
    parser.add_argument("path", nargs="?", default=DEFAULT_PATH, help=f"file to write (default: {DEFAULT_PATH})")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--plugin", metavar="DIRECTORY", help="write a plugin project with a query type, a scoring function, a source format and a check"
    )
    what.add_argument(
        "--from",
        dest="data",
        metavar="FILE",
        help="draft the spec from a CSV, JSON, Parquet or ORC file, a directory of them, or a Delta table",
    )
    parser.add_argument(
        "--sql",
        metavar="FILE",
        help="draft the query from one of SQL in FILE (Flink, ANSI): ROW_NUMBER, RANK, TUMBLE, GROUP BY with LIMIT",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Write the spec or the project. Existing files are never touched (SkybandError SKY-E202)."""
    from skyband.framework.storage.outputs import new_file, write_new

    if args.plugin is not None and args.sql is not None:
        raise SkybandError("SKY-E201", "--sql drafts a spec, and --plugin writes a project", "leave one of them out")
    if args.plugin is not None:
        package = write_plugin(Path(args.plugin))
        next_ = str(Path(args.plugin) / "README.md")
        return Answer(
            {"wrote": args.plugin, "package": package, "now": next_}, f"wrote package {package} into {args.plugin}; now: see {next_}"
        )
    path = Path(args.path)
    if path.is_dir():
        path = path / DEFAULT_PATH
    new_file(path, "the spec")
    unsure: list[str] = []
    sql = None if args.sql is None else _read(Path(args.sql))
    if args.data is None and sql is not None:
        from skyband.framework.guess.draft import draft_without_data

        text, unsure = draft_without_data(sql, path)
    elif args.data is None:
        text = TEMPLATE.read_text(encoding="utf-8").replace("job.yaml", path.name)
    else:
        from skyband.framework.guess.draft import draft

        text, unsure = draft(Path(args.data), path, sql)
    write_new(path, MODELINE + text)
    _put_schema(path.parent / SCHEMA)
    next_ = f"skyband {'run' if args.data else 'validate'} {path}"
    said = [*(f"look at {guess}" for guess in unsure), f"wrote {path}; now: {next_}"]
    return Answer({"wrote": path, "look_at": unsure, "now": next_}, "\n".join(said))


def _read(path: Path) -> str:
    """Return the text of a file. Raises SkybandError SKY-E201 if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as e:
        said = (e.strerror or str(e)).lower() if isinstance(e, OSError) else "it is no text in UTF-8"
        raise SkybandError("SKY-E201", f"--sql: {path} cannot be read: {said}", "name a file with one query") from None


def _put_schema(path: Path) -> None:
    """Write the schema beside a spec, over an older one but over no other file. Errors are ignored: the schema is optional."""
    from skyband.framework.spec.schema.json_schema import is_schema, schema_text
    from skyband.framework.storage.outputs import output_file, replace_output

    with contextlib.suppress(SkybandError):
        output_file(path, "the schema", own=lambda head: is_schema(head.decode(errors="replace")))
        replace_output(path, "the schema", schema_text())


def write_plugin(directory: Path) -> str:
    """Write the project into ``directory``, which must be empty or new. Return its package's name, derived from the directory's.

    Raises SkybandError SKY-E201 if no package can have that name, SKY-E202 if the directory is not empty, SKY-E203 if it cannot be
    written.
    """
    from skyband.framework.storage.outputs import output_directory, write_new

    package = _package_name(directory)
    output_directory(directory, "--plugin")
    try:
        if directory.is_dir() and any(directory.iterdir()):
            raise SkybandError("SKY-E202", f"{directory} is not empty", "name a new directory")
        for name, text in _files(package):
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_new(path, text)
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
    """Yield (path in the project, text) of every file of the template."""
    for source in sorted(PLUGIN_TEMPLATE.rglob("*")):
        inside = source.relative_to(PLUGIN_TEMPLATE)
        if not source.is_file() or "__pycache__" in inside.parts or inside == Path("__init__.py"):
            continue
        parts = ("src", package, *inside.parts[1:]) if inside.parts[0] == "package" else inside.parts
        path = Path("pyproject.toml") if inside == Path("project.toml") else Path(*parts)
        text = source.read_text(encoding="utf-8").replace(_TEMPLATE_PACKAGE, package)
        if source.suffix != ".py":
            text = text.replace("PACKAGE", package).replace("PROJECT", package.replace("_", "-"))
        yield path, text

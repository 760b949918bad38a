"""``skyband init``: write a first spec, with comments, that validates: an example, or (``--from``) one over your own file.

``--plugin`` writes a project instead: parts of one's own, with tests, to be installed beside Skyband.
"""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import Any, Final

from skyband.jobs.answer import Answer
from skyband.jobs.described import described

DEFAULT_PATH: Final = "job.yaml"

SCHEMA: Final = ".skyband.schema.json"
"""The file with the JSON schema beside a spec. Its name begins with a dot: it may lie in a source's directory, whose readers pass it
over."""

MODELINE: Final = f"# yaml-language-server: $schema={SCHEMA}\n"
"""What tells an editor about it."""

TEMPLATE: Final = Path(__file__).parent / "first_job.yaml"
"""The spec that is written, under the name the user gives it."""


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "init",
        help="write a first spec",
        **described(
            "Writes a first spec, with comments, that validates: an example, or (--from) one that runs over your own data; or "
            "(--plugin) a project for parts of your own.",
            "skyband init job.yaml",
            "skyband init mine.yaml --from data/",
            "skyband init --plugin my_parts",
        ),
    )
    parser.add_argument("path", nargs="?", default=DEFAULT_PATH, help=f"file to write (default: {DEFAULT_PATH})")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--plugin", metavar="DIRECTORY", help="write a project instead: a query type, a scoring function, a source, a check")
    what.add_argument("--from", dest="data", metavar="FILE", help="a CSV, JSON, Parquet or ORC file, a directory of them, or a Delta table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Write the spec, or the project; a file that is there already is never touched (SkybandError SKY-E202)."""
    from skyband.framework.base.errors import SkybandError
    from skyband.framework.storage.outputs import outside

    if args.plugin is not None:
        from skyband.jobs.init_plugin import write_plugin

        package = write_plugin(Path(args.plugin))
        next_ = str(Path(args.plugin) / "README.md")
        return Answer(
            {"wrote": args.plugin, "package": package, "now": next_}, f"wrote package {package} into {args.plugin}; now: see {next_}"
        )
    path = Path(args.path)
    if path.is_dir():
        path = path / DEFAULT_PATH
    outside(path, "the spec")
    unsure: list[str] = []
    if args.data is None:
        text = TEMPLATE.read_text(encoding="utf-8").replace("job.yaml", path.name)
    else:
        from skyband.framework.guess.draft import draft

        text, unsure = draft(Path(args.data), path)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(MODELINE + text)
    except FileExistsError:
        raise SkybandError("SKY-E202", f"{path} is there already", "name another file: skyband init other.yaml") from None
    except OSError as e:
        raise SkybandError("SKY-E203", f"{path} cannot be written: {(e.strerror or str(e)).lower()}") from None
    _put_schema(path.parent / SCHEMA)
    next_ = f"skyband {'run' if args.data else 'validate'} {path}"
    said = [*(f"look at {guess}" for guess in unsure), f"wrote {path}; now: {next_}"]
    return Answer({"wrote": path, "look_at": unsure, "now": next_}, "\n".join(said))


def _put_schema(path: Path) -> None:
    """Puts the schema beside a spec, in the place of an older one; whatever else has its name stays. Without it the spec is no worse."""
    from skyband.framework.spec.schema.json_schema import is_schema, schema_text
    from skyband.framework.storage.durable import replace

    with contextlib.suppress(OSError, UnicodeDecodeError):
        if not path.exists() or (path.is_file() and is_schema(path.read_text(encoding="utf-8"))):
            replace(path, schema_text())

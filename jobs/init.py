"""``skyband init``: write a first spec, with comments, that validates: an example, or (``--from``) one over your own file.

``--plugin`` writes a project instead: parts of one's own, with tests, to be installed beside Skyband.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

DEFAULT_PATH: Final = "job.yaml"

TEMPLATE: Final = Path(__file__).parent / "first_job.yaml"
"""The spec that is written, under the name the user gives it."""


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser("init", help="write a first spec", description=__doc__)
    parser.add_argument("path", nargs="?", default=DEFAULT_PATH, help=f"file to write (default: {DEFAULT_PATH})")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--plugin", metavar="FOLDER", help="write a project instead: a query type, a scoring function, a source, a check")
    what.add_argument("--from", dest="data", metavar="FILE", help="a CSV, JSON, Parquet or ORC file, a folder of them, or a Delta table")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the spec, or the project; a file that is there already is never touched (SkybandError SKY-E202)."""
    from skyband.framework.errors import SkybandError, printable

    if args.plugin is not None:
        from skyband.jobs.init_plugin import write_plugin

        package = write_plugin(Path(args.plugin))
        print(printable(f"wrote package {package} into {args.plugin}; now: see {Path(args.plugin) / 'README.md'}"))
        return 0
    path = Path(args.path)
    if path.is_dir():
        path = path / DEFAULT_PATH
    unsure: list[str] = []
    if args.data is None:
        text = TEMPLATE.read_text(encoding="utf-8").replace("job.yaml", path.name)
    else:
        from skyband.framework.guess.draft import draft

        text, unsure = draft(Path(args.data), path)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise SkybandError("SKY-E202", f"{path} is there already", "name another file: skyband init other.yaml") from None
    except OSError as e:
        raise SkybandError("SKY-E203", f"{path} cannot be written: {(e.strerror or str(e)).lower()}") from None
    for guess in unsure:
        print(printable(f"look at {guess}"))
    print(printable(f"wrote {path}; now: skyband {'run' if args.data else 'validate'} {path}"))
    return 0

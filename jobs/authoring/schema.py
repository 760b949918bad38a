"""``skyband schema``: print the JSON schema of specs, with which editors complete, check and explain them."""

from __future__ import annotations

import argparse
import json
from typing import Any

from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page


def add_parser(subparsers: Any) -> None:
    """Add the parser of the command."""
    said = (
        "Print the JSON schema of specs, with the installed query types and source formats. Editors use it to complete, check and explain "
        "a spec. skyband init writes it beside the spec, as .skyband.schema.json."
    )
    parser = subparsers.add_parser(
        "schema", help="print the JSON schema of specs, for editors", **help_page(said, "skyband schema > .skyband.schema.json")
    )
    parser.add_argument("--fragment", action="store_true", help="the schema of files that specs include")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the schema."""
    from skyband.framework.spec.schema.json_schema import schema_text

    text = schema_text(args.fragment)
    return Answer({"schema": json.loads(text)}, text.rstrip("\n"), rows=True)

"""What ``--help`` says of a command, with examples."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any


def described(description: str, *examples: str) -> dict[str, Any]:
    """Arguments of ``add_parser``: the description in lines, and below it the examples as they are."""
    return {
        "description": textwrap.fill(description, 100),
        "epilog": "\n".join(["examples:", *(f"  {e}" if e else "" for e in examples)]),
        "formatter_class": argparse.RawDescriptionHelpFormatter,
    }

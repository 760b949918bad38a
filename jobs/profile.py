"""The option ``--profile`` of every command that takes a spec."""

from __future__ import annotations

import argparse
import os
from typing import Any

from skyband.jobs.described import Parser


class SpecParser(Parser):
    """A parser whose command takes ``--profile`` if it takes a spec."""

    def add_argument(self, *names: Any, **about: Any) -> argparse.Action:
        """As the base class."""
        if names[:1] == ("spec",):
            said = "which of the spec's profiles counts (default: SKYBAND_PROFILE, or none)"
            super().add_argument("--profile", metavar="NAME", help=said)
        return super().add_argument(*names, **about)


def choose_profile(args: argparse.Namespace) -> None:
    """Lets every spec that the command reads, and every process it starts, have the profile that was asked for."""
    if getattr(args, "profile", None) is not None:
        from skyband.framework.spec.parsing.assemble import PROFILE

        os.environ[PROFILE] = args.profile

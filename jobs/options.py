"""Options that several commands share: ``--master`` and ``--conf`` (where Spark runs) and ``--profile`` (which values a spec takes)."""

from __future__ import annotations

import argparse
import os
from typing import Any

from skyband.framework.settings.spark import SparkOptions, set_process_options
from skyband.jobs.parser import Parser


def add_spark_options(p: argparse.ArgumentParser) -> None:
    """Add ``--master`` and ``--conf``."""
    said = "where Spark runs: local[N], spark://HOST:PORT, ... (default: SKYBAND_MASTER, skyband.toml, or local[*])"
    p.add_argument("--master", metavar="URL", help=said)
    said = "Spark setting; may be repeated (put secrets into SKYBAND_CONF or skyband.toml)"
    p.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help=said)


def choose_spark(args: argparse.Namespace) -> None:
    """Set the Spark settings of the process from the arguments. Raises SkybandError SKY-E610 or SKY-E611."""
    set_process_options(SparkOptions(args.master, tuple(args.conf), getattr(args, "spark_alone", False)))


class SpecParser(Parser):
    """A parser whose command takes ``--profile`` if it takes a spec."""

    def add_argument(self, *names: Any, **about: Any) -> argparse.Action:
        """Add an argument, and ``--profile`` before ``spec``."""
        if names[:1] == ("spec",):
            said = "profile of the spec to apply (default: SKYBAND_PROFILE, or none)"
            super().add_argument("--profile", metavar="NAME", help=said)
        return super().add_argument(*names, **about)


def choose_profile(args: argparse.Namespace) -> None:
    """Apply the requested profile to every spec that the command reads and to every process that it starts."""
    if getattr(args, "profile", None) is not None:
        from skyband.framework.spec.parsing.assemble import PROFILE

        os.environ[PROFILE] = args.profile

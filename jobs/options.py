"""Options that several commands share: ``--master`` and ``--conf`` (where Spark runs) and ``--profile`` (which values a spec takes)."""

from __future__ import annotations

import argparse
import os
from typing import Any

from skyband.framework.settings.spark import SparkOptions, take
from skyband.jobs.parser import Parser


def add_spark_options(p: argparse.ArgumentParser) -> None:
    """Adds them."""
    said = "where Spark computes: local[N], spark://HOST:PORT, ... (default: SKYBAND_MASTER, skyband.toml, or local[*])"
    p.add_argument("--master", metavar="URL", help=said)
    said = "a setting of Spark's; may be repeated (secrets belong into SKYBAND_CONF or skyband.toml)"
    p.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help=said)


def choose_spark(args: argparse.Namespace) -> None:
    """Has the process's engine started as the command was asked to. SkybandError SKY-E610 or SKY-E611 if it cannot be."""
    take(SparkOptions(args.master, tuple(args.conf), getattr(args, "spark_alone", False)))


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

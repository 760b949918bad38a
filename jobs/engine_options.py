"""The options ``--master`` and ``--conf`` of every command that starts a JVM for a user's job."""

from __future__ import annotations

import argparse

from skyband.framework.settings.engine import Asked, take


def add_engine_options(p: argparse.ArgumentParser) -> None:
    """Adds them."""
    said = "where Spark computes: local[N], spark://HOST:PORT, ... (default: SKYBAND_MASTER, skyband.toml, or local[*])"
    p.add_argument("--master", metavar="URL", help=said)
    said = "a setting of Spark's; may be repeated (secrets belong into SKYBAND_CONF or skyband.toml)"
    p.add_argument("--conf", metavar="NAME=VALUE", action="append", default=[], help=said)


def choose_engine(args: argparse.Namespace) -> None:
    """Has the process's engine started as the command was asked to. SkybandError SKY-E610 or SKY-E611 if it cannot be."""
    take(Asked(args.master, tuple(args.conf), getattr(args, "engine_alone", False)))

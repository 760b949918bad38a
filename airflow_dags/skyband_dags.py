"""Airflow's file: every Skyband spec with a ``schedule:`` in the directories of ``SKYBAND_SPECS`` is a DAG (docs/how-to/airflow.md)."""

import os
from pathlib import Path

from skyband_airflow.dags import load

SPECS: str | None = None
"""Directories of specs where ``SKYBAND_SPECS`` is not set: those that ``skyband airflow install`` was told of; None: the checkout's."""
COMMAND: str | None = None
"""The command where ``SKYBAND_COMMAND`` is not set: the one that wrote this file."""

if SPECS is None:
    SPECS = str(Path(os.path.realpath(__file__)).parent.parent / "specs")
load(globals(), os.environ.get("SKYBAND_SPECS") or SPECS, os.environ.get("SKYBAND_COMMAND") or COMMAND)

"""DAG file of Airflow: every spec with a ``schedule:`` in the directories of ``SKYBAND_SPECS`` is a DAG (docs/how-to/airflow.md)."""

import os
from pathlib import Path

from skyband_airflow.dags import load

SPECS: str | None = None
"""Directories of specs if ``SKYBAND_SPECS`` is not set: those given to ``skyband airflow install``; None: the checkout's."""
COMMAND: str | None = None
"""The command if ``SKYBAND_COMMAND`` is not set: the one that wrote this file."""

if SPECS is None:
    SPECS = str(Path(os.path.realpath(__file__)).parent.parent / "specs")
load(globals(), os.environ.get("SKYBAND_SPECS") or SPECS, os.environ.get("SKYBAND_COMMAND") or COMMAND)

"""Reading a spec for a command: the plan, or every mistake of the file at once."""

from __future__ import annotations

import os
import time as clock
from contextlib import suppress
from pathlib import Path
from typing import Final

from skyband.framework.errors import SkybandError, SpecErrors
from skyband.framework.plan.model import Plan
from skyband.framework.spec.places import without_scheme

_SECONDS: Final = 5.0


def load_plan(path: str) -> Plan:
    """The compiled plan of the spec at ``path``, whose tables are of one generation. Raises SpecErrors with all that is wrong with it."""
    from skyband.framework.plan.compile import compile_job
    from skyband.framework.spec.load import validate_file

    job, errors = validate_file(path, os.environ)
    if errors or job is None:
        raise SpecErrors(errors)
    plan = compile_job(job)
    _whole(plan)
    return plan


def _whole(plan: Plan) -> None:
    """Completes the swap of a ``rebuild`` that was interrupted; waits for one that goes on, which takes milliseconds."""
    journal = Path(without_scheme(plan.sink)) / "_skyband" / "swap.json"
    until = clock.monotonic() + _SECONDS
    while journal.exists() and clock.monotonic() < until:
        from skyband.framework.streaming.layout import Layout
        from skyband.framework.streaming.locks import one_run

        with suppress(SkybandError), one_run(Layout(plan.sink), plan.job):
            pass
        clock.sleep(0.05 if journal.exists() else 0)

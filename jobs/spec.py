"""Reading a spec for a command: the plan, or every mistake of the file at once."""

from __future__ import annotations

import os

from skyband.framework.errors import SpecErrors
from skyband.framework.plan.model import Plan


def load_plan(path: str) -> Plan:
    """The compiled plan of the spec at ``path``. Raises SpecErrors with all that is wrong with it."""
    from skyband.framework.plan.compile import compile_job
    from skyband.framework.spec.load import validate_file

    job, errors = validate_file(path, os.environ)
    if errors or job is None:
        raise SpecErrors(errors)
    return compile_job(job)

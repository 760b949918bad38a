"""What decides which rows a job accepts, as its job file records it."""

from __future__ import annotations

import hashlib

from skyband.framework.base.units import AHEAD
from skyband.framework.plan.fingerprint import salted
from skyband.framework.plan.model import Plan


def rules_of(plan: Plan, salt: str) -> str:
    """A hash of what decides which rows are accepted and may change between runs (see ``unfinished``).

    A rule's row is as little accepted if it stops the run as if it is rejected; rules of severity ``warn`` decide nothing.
    """
    rules = [(r.name, r.sql) for r in plan.intake.rules if r.severity != "warn"]
    options = [option for _, part in plan.source.each for option in sorted(part.options)]
    # Hashes of earlier versions do not contain it: the default is left out.
    ahead = [] if plan.intake.ahead_micros == AHEAD else [plan.intake.ahead_micros]
    return salted(hashlib.sha256(repr((rules, options, *ahead)).encode()).hexdigest(), salt)


def stopping_rules(plan: Plan) -> list[str]:
    """Return the names of the rules of severity ``fail``."""
    return [r.name for r in plan.intake.rules_of("fail")]

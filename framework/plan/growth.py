"""Detect an edited plan that only increases the number of buckets, and check that the state can be split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.fingerprint import concealed, fingerprint, same
from skyband.framework.plan.model import Plan
from skyband.operators.state_keys import state_keys

MOST: Final = 4096
"""The largest number of buckets (``run.buckets``)."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The job has state in ``was`` buckets and is to have it in ``now``; ``refused``: why that cannot be done, None if it can."""

    was: int
    now: int
    refused: str | None = None

    @property
    def error(self) -> SkybandError | None:
        """Raise SkybandError SKY-E650 if the state cannot be split."""
        if self.refused is None:
            return None
        hint = f"run.buckets can become a multiple of {self.was}; skyband rebuild SPEC takes any number"
        return SkybandError("SKY-E650", f"run.buckets was {self.was}, now {self.now}: {self.refused}", hint=hint)


def kept_buckets(old: Mapping[str, Any], salt: str) -> int:
    """Return the number of buckets in a kept fingerprint, also if it is concealed there; 0 if it is unknown."""
    said = old.get("run", {}).get("buckets")
    if isinstance(said, int):
        return said
    return next((n for n in range(1, MOST + 1) if same(said, n, salt)), 0)


def growth(old: Mapping[str, Any], plan: Plan, salt: str) -> Growth | None:
    """What ``plan`` does to the job whose kept fingerprint is ``old``; None if it differs in anything but its buckets, or in nothing."""
    was = kept_buckets(old, salt)
    if was in (0, plan.buckets):
        return None
    before = replace(plan, buckets=was)
    if not same(old, concealed(fingerprint(before), before, salt), salt):
        return None
    if plan.buckets % was:
        return Growth(was, plan.buckets, "keys of two buckets would have to come into one")
    whole = [node.name for node in plan.operators if state_keys(node.operator) is None]
    if whole:
        return Growth(was, plan.buckets, f"the state of {', '.join(whole)} cannot be divided (its operator does not say how)")
    return Growth(was, plan.buckets)

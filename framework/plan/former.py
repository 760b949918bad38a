"""Jobs that a former version made keep the rules of their sets of tokens, as their state and tables were made by them.

Former versions cut words at combining marks, did not normalize text and rejected short rows. The kept fingerprint of such a job does not
mention ``normalize``. A rebuild makes the job by the present rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from skyband.framework.plan.model import Plan
from skyband.framework.plan.nodes import TokenNode
from skyband.framework.spec.models.words import FORMER_WORDS, WORDS


def as_made(plan: Plan, kept: Mapping[str, Any]) -> Plan:
    """Return ``plan`` with former rules for the sets that the job with the fingerprint ``kept`` made by them.

    What the spec sets itself stays, also if it does not fit the job.
    """
    known = kept.get("tokens")
    if not isinstance(known, Mapping):
        return plan
    tokens = tuple(_former(t) if _is_former(known.get(t.name)) else t for t in plan.intake.tokens)
    return replace(plan, intake=replace(plan.intake, tokens=tokens))


def former_sets(plan: Plan) -> list[str]:
    """Return the names of the sets of ``plan`` that are made by former rules."""
    return [t.name for t in plan.intake.tokens if t.normalize is None or t.short is None]


def former_rules(names: Sequence[str]) -> str:
    """Return the message that the sets ``names`` are made by former rules."""
    return (
        f"a former version made this job: the tokens of {', '.join(names)} stay as it made them (no normalization, words end at "
        "combining marks, short rows are rejected); skyband rebuild SPEC makes the job by the present rules"
    )


def _is_former(kept: Any) -> bool:
    return isinstance(kept, Mapping) and "normalize" not in kept


def _former(node: TokenNode) -> TokenNode:
    return replace(
        node,
        words=FORMER_WORDS if node.words == WORDS and "words" not in node.given else node.words,
        normalize=None if "normalize" not in node.given or node.normalize == "none" else node.normalize,
        short=None if "short" not in node.given or node.short == "reject" else node.short,
    )

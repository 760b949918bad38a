"""Report on row rules: a rule in words, the row that stops a run, warnings, and demoted rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

import pyarrow as pa

from skyband.framework.base.counts import agree, counted
from skyband.framework.base.errors import SkybandError, did_you_mean, one_of
from skyband.framework.base.reasons import STOPS
from skyband.framework.base.redaction import redact_values
from skyband.framework.console.lines import Lines
from skyband.framework.plan.model import Plan, RowRule

LONGEST: Final = 500
"""The most characters of a row, and of a rule, that are shown."""


def describe_rule(plan: Plan, rule: RowRule) -> str:
    """Return a rule's name and condition, with values from the environment as the spec writes them."""
    at = ("quality", "rows", plan.intake.rules.index(rule))
    written = {path[3:]: text for path, text in plan.variables if path[:3] == at}
    text = written.get(("expect",), rule.sql)
    return rule.name if written and ("expect",) not in written else f"{rule.name} ({_short(text)})"


def stopped_by_rule(plan: Plan, batch: int, rows: pa.Table, count: int) -> SkybandError:
    """Return SKY-E502 for a batch with ``count`` rows that break rules of severity ``fail``; ``rows`` are some of them."""
    first = rows.sort_by([("origin", "ascending"), ("text", "ascending")]).slice(0, 1).to_pylist()[0]
    names = first["reason"].removeprefix(STOPS).split(",")
    broken = [describe_rule(plan, r) for r in plan.intake.rules if r.name in names]
    many = f"a row of batch {batch} breaks"
    if count > 1:
        many = f"{counted(count, 'row')} of batch {batch} break rules of severity fail; one breaks"
    text = f"{many} {', '.join(broken)}, in {redact_values(str(first['origin']))}: {_short(first['text'])}"
    again = " ".join(f"--demote {name}" for name in names)
    hint = f"nothing of the batch is written. Fix the row or the rule and run again, or reject such rows: skyband run SPEC {again}"
    return SkybandError("SKY-E502", text, hint=hint)


def report_warned(plan: Plan, warned: Mapping[str, int], rows: int, lines: Lines) -> None:
    """Report by rule of severity ``warn`` how many of the run's ``rows`` break it."""
    for rule in plan.intake.rules_of("warn"):
        n = warned.get(rule.name, 0)
        if n:
            some = f"{n:,} of the {counted(rows, 'row')} of this run {agree(n, 'breaks', 'break')} {describe_rule(plan, rule)}"
            text = f"WARNING: {some}: {agree(n, 'it is', 'they are')} used"
            lines.tell("warning", "warned", text, rule=rule.name, warned=n, rows=rows)


def demoted(plan: Plan, names: Collection[str]) -> Plan:
    """Return ``plan`` with the ``fail`` rules among ``names`` as ``reject``. SkybandError SKY-E201 for an unknown rule."""
    known = [r.name for r in plan.intake.rules]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or (f"rules: {one_of(known)}" if known else "the spec has no quality.rows")
            raise SkybandError("SKY-E201", f"--demote: no row rule '{name}' in this spec", hint=hint)
    rules = tuple(replace(r, severity="reject") if r.name in names and r.severity == "fail" else r for r in plan.intake.rules)
    return replace(plan, intake=replace(plan.intake, rules=rules))


def _short(text: str) -> str:
    # Redact before cutting: a part of a secret is not recognised.
    shown = redact_values(text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."

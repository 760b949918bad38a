"""What is wrong with the rules over runs (``quality.runs``) beyond their shape."""

from __future__ import annotations

from skyband.framework.base.units import format_duration
from skyband.framework.plan.model import KEEP
from skyband.framework.spec.document import Path
from skyband.framework.spec.scope import Scope


def check_run_rules(s: Scope) -> None:
    """Note what is wrong with them. O(rules)."""
    for i, rule in enumerate(s.job.quality.runs):
        path: Path = ("quality", "runs", i)
        if s.doc.bad_below(path):
            continue
        if (rule.max_delay is None) == (rule.min_rows is None):
            s.doc.add("SKY-E111", "a rule over runs needs 'max_delay' or 'min_rows', and only one of them", s.doc.where_value(path))
        elif (rule.min_rows is None) != (rule.per is None):
            hint = "such as {min_rows: 1000, per: 1 day}"
            s.doc.add("SKY-E111", "'min_rows' and 'per' belong together", s.doc.where_value(path), hint)
        elif rule.per is not None and rule.per > (s.job.run.keep or KEEP) and not s.doc.bad_below(("run",)):
            said = f"rows of table runs are kept for {format_duration(s.job.run.keep or KEEP)} only (run.keep): 'per' cannot be longer"
            s.doc.add("SKY-E114", said, s.doc.where_value((*path, "per")))

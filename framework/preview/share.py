"""Reports how many of the first rows of a source would be rejected, for ``skyband validate --data``."""

from __future__ import annotations

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.model import Plan
from skyband.framework.preview.first_rows import texts_of
from skyband.framework.preview.judged import judged
from skyband.framework.sources.first_rows import FirstRows


def share_of(plan: Plan) -> tuple[list[SkybandError], str]:
    """Return (SKY-E532 if that is more than ``quality.max_rejected`` allows, else a sentence about it).

    Ids that come twice and late rows are not seen here. Where only Spark can read the rows, or there are none yet, that is said.
    """
    try:
        found = judged(plan, results=False)
    except SkybandError as e:
        if e.code in ("SKY-E531", "SKY-E206"):
            return [], f"; its rows were not looked at: {e.message}"
        return [e], ""
    if found.first.absent and found.rows.num_rows:
        return [_absent(plan, found.first)], ""
    many, rejected = found.rows.num_rows, sum(found.rejected.values())
    said = f"of the first {counted(many, 'row')} {rejected:,} would be rejected"
    if rejected:
        kinds = ", ".join(f"{n:,} {reason}" for reason, n in sorted(found.rejected.items(), key=lambda r: (-r[1], r[0])))
        said += f" ({found.percent:.1f} %: {kinds})"
    if plan.max_rejected < 100 and found.percent > plan.max_rejected:
        hint = next((f"the first kind that does not parse: {text}" for text in texts_of(found.first)), "skyband preview shows them")
        return [SkybandError("SKY-E532", f"{said}; quality.max_rejected allows {plan.max_rejected:g} %", hint=hint)], ""
    return [], f"; {said}"


def _absent(plan: Plan, first: FirstRows) -> SkybandError:
    """Return SKY-E206 about columns that no row has."""
    names = [str(f.source_name) for f in plan.source.fields if f.name in first.absent]
    said = (
        f"none of the first {counted(len(first.rows), 'row')} has the column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"
    )
    hint = "'from:' gives a column another name, or names a member of an object: from: user.score"
    return SkybandError("SKY-E206", f"{said} (first file: {first.files[0]})", hint=hint)

"""``skyband preview``: the first rows as the job would see them, what would be rejected and why, and first results. Without the engine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from skyband.framework.errors import SkybandError, told
from skyband.jobs.answer import Answer
from skyband.jobs.described import described
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    from skyband.framework.plan.model import Plan
    from skyband.framework.preview.judged import Judged

_RESULTS = 5
"""Rows of a result that are shown."""


def add_parser(subparsers: Any) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "preview",
        help="show the first rows and results, without a run",
        **described(
            "Shows the first rows of the source after transform and rules, what would be rejected and why, and what the queries "
            "would say of the first rows alone. Writes nothing, and starts no engine.",
            "skyband preview job.yaml",
            "skyband preview job.yaml -n 5 --sample 10000",
        ),
    )
    p.add_argument("spec")
    p.add_argument("-n", type=int, default=20, metavar="N", help="rows to show (default: %(default)s)")
    p.add_argument("--sample", type=int, default=1_000, metavar="N", help="rows to look at (default: %(default)s, at most 100,000)")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """What there is to see. SkybandError for everything a user can mend, SKY-E531 for what only the engine can read or evaluate."""
    if not 1 <= args.sample <= 100_000 or args.n < 0:
        raise SkybandError("SKY-E201", "--sample takes 1 to 100,000 rows, -n any number from 0", hint="skyband run reads all of them")
    plan = load_plan(args.spec)
    from skyband.operators.jit import compile_nothing

    if args.sample <= 2_000:
        compile_nothing()
    from skyband.framework.preview.judged import judged

    found = judged(plan, args.sample)
    if args.format == "json":
        return Answer(_data(plan, found, args.n), None, rows=True)
    _rows(plan, found, args.n)
    _rejected(found)
    _results(plan, found)
    return Answer(None, None)


def _data(plan: Plan, found: Judged, shown: int) -> dict[str, Any]:
    """Rows, each with the reason for which it would be rejected (null: it would not), and results of them."""
    from skyband.framework.preview.judged import results_of
    from skyband.framework.reasons import REASON

    rows = found.rows.select([REASON, *(f.name for f in plan.intake.fields)]).slice(0, shown)
    return {
        "job": plan.job,
        "files": [told(str(f)) for f in found.first.files],
        "of": found.rows.num_rows,
        "filtered": found.filtered,
        "rejected": found.rejected,
        "rows": rows.rename_columns(["rejected_as", *rows.column_names[1:]]).to_pylist(),
        "results": {name: result.to_pylist() for name, result in results_of(plan, found)},
    }


def _rows(plan: Plan, found: Judged, shown: int) -> None:
    from skyband.framework.reasons import REASON
    from skyband.framework.tables.render import text_table

    first = found.first
    more = f" and {len(first.files) - 1} more" if len(first.files) > 1 else ""
    print(told(f"{plan.job}: the first {found.rows.num_rows:,} rows, of {first.files[0]}{more} ({first.many:,} files there)"))
    if shown:
        columns = [REASON, *(f.name for f in plan.intake.fields)]
        print(told("\n" + text_table(found.rows.select(columns).slice(0, shown), ["rejected as", *columns[1:]])))


def _rejected(found: Judged) -> None:
    from skyband.framework.preview.first_rows import texts_of

    many = found.rows.num_rows
    rejected = sum(found.rejected.values())
    accepted = many - found.filtered - rejected
    said = f"{accepted:,} would be accepted, {found.filtered:,} filtered, {rejected:,} rejected ({found.percent:.1f} %)"
    print(told(f"\nof {many:,} rows {said}"))
    for reason, n in sorted(found.rejected.items(), key=lambda r: (-r[1], r[0])):
        print(told(f"  {n:,} x {reason}"))
    for text in texts_of(found.first):
        print(told(f"  parse: {text}"))
    if found.first.doubtful:
        why = "quotes within quotes, or values that the engine may read in another way"
        print(told(f"{found.first.doubtful:,} more rows are left out: {why}"))


def _results(plan: Plan, found: Judged) -> None:
    from skyband.framework.preview.judged import results_of
    from skyband.framework.tables.render import text_table

    for query, rows in results_of(plan, found):
        print(told(f"\n{query}: {rows.num_rows:,} {'row' if rows.num_rows == 1 else 'rows'}, if these were all the rows there are"))
        if rows.num_rows:
            kept = [c for c in rows.column_names if c not in ("as_of", "batch_id", "pos") and not c.endswith("seq")]
            print(told(text_table(rows.select(kept).slice(0, _RESULTS))))

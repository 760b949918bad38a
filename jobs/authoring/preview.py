"""``skyband preview``: show the first rows as the job sees them, which of them it rejects and why, and first results."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from skyband.framework.base.counts import counted
from skyband.jobs.answer import Answer
from skyband.jobs.arguments import whole
from skyband.jobs.parser import add_spark_options, choose_spark, help_page
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from skyband.framework.plan.model import Plan
    from skyband.framework.preview.judged import Judged
    from skyband.framework.sources.first_rows import FirstRows

_RESULTS = 5
"""Number of rows of a result to show."""


def add_parser(subparsers: Any) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "preview",
        help="show the first rows and results, without a run",
        **help_page(
            "Show the first rows of the source after transforms and row rules, the rows that would be rejected and why, and the results of "
            "the queries over these rows. Writes nothing, and starts Spark only with --engine.",
            "skyband preview job.yaml",
            "skyband preview job.yaml -n 5 --sample 10000",
            "skyband preview job.yaml --engine",
        ),
    )
    p.add_argument("spec")
    p.add_argument("-n", type=whole("-n"), default=20, metavar="N", help="rows to show (default: %(default)s)")
    said = "rows to read (default: %(default)s, at most 100,000)"
    p.add_argument("--sample", type=whole("--sample", 1, 100_000), default=1_000, metavar="N", help=said)
    p.add_argument(
        "--engine",
        action="store_true",
        help="read the rows with Spark: supports every format, option and SQL function; takes about 10 seconds",
    )
    add_spark_options(p)
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return rows and results. Raises SkybandError, SKY-E531 for what needs Spark (``--engine``)."""
    if args.engine:
        choose_spark(args)
    plan = load_plan(args.spec)
    from skyband.operators.jit import disable_compilation

    if args.sample <= 2_000 and args.alone:
        disable_compilation()
    from skyband.framework.base.types import readable
    from skyband.framework.preview.judged import judged, results_of

    found = judged(plan, args.sample, read=_by_spark if args.engine else None)
    results = dict(results_of(plan, found))
    data = {
        "files": found.first.files, "rows": readable(_columns(plan, found, args.n)).to_pylist(),
        "looked_at": found.looked_at, "filtered": found.filtered, "rejected": dict(found.rejected), "left_out": found.first.doubtful,
        "results": {query: rows.to_pylist() for query, rows in results.items()},
    }  # fmt: skip
    return Answer(data, "\n".join([*_rows(plan, found, args.n), *_rejected(found), *_results(results)]))


def _columns(plan: Plan, found: Judged, shown: int) -> pa.Table:
    """Return the reason and the columns of the rows to show."""
    from skyband.framework.base.reasons import REASON

    return found.rows.select([REASON, *(f.name for f in plan.intake.fields)]).slice(0, shown)


def _by_spark(plan: Plan, most: int) -> tuple[FirstRows, pa.Table]:
    from skyband.framework.preview.spark_rows import rows_by_spark
    from skyband.framework.streaming.spark.packages import packages
    from skyband.framework.streaming.spark.session import get_session

    return rows_by_spark(plan, most, get_session("skyband-preview", packages=packages(plan)))


def _rows(plan: Plan, found: Judged, shown: int) -> Iterator[str]:
    from skyband.framework.base.types import readable
    from skyband.framework.sources.files.listing import not_read
    from skyband.framework.tables.render import text_table

    first = found.first
    more = f" and {len(first.files) - 1} more" if len(first.files) > 1 else ""
    there = f" ({counted(first.many, 'file')} there)" if first.many else ""
    yield f"{plan.job}: the first {counted(found.looked_at, 'row')}, of {first.files[0]}{more}{there}"
    unread = not_read(plan.source)
    if unread is not None:
        yield unread
    if shown:
        rows = readable(_columns(plan, found, shown))
        yield "\n" + text_table(rows, ["rejected as", *rows.column_names[1:]])


def _rejected(found: Judged) -> Iterator[str]:
    from skyband.framework.sources.preview import texts_of

    many = found.looked_at
    rejected = sum(found.rejected.values())
    accepted = found.rows.num_rows - found.filtered - rejected
    said = f"{accepted:,} would be accepted, {found.filtered:,} filtered, {rejected:,} rejected ({found.percent:.1f} %)"
    yield f"\nof {counted(many, 'row')} {said}"
    for reason, n in sorted(found.rejected.items(), key=lambda r: (-r[1], r[0])):
        yield f"  {n:,} x {reason}"
    if found.first.absent:
        yield f"no row has {', '.join(found.first.absent)}"
    for text in texts_of(found.first):
        yield f"  parse: {text}"
    if found.first.doubtful:
        why = "quotes within quotes, or values that Spark may read in another way"
        yield f"{counted(found.first.doubtful, 'row')} left out: {why}"


def _results(results: Mapping[str, pa.Table]) -> Iterator[str]:
    from skyband.framework.tables.render import text_table

    for query, rows in results.items():
        yield f"\n{query}: {counted(rows.num_rows, 'row')}, if these were all the rows there are"
        if rows.num_rows:
            kept = [c for c in rows.column_names if c not in ("as_of", "batch_id", "pos") and not c.endswith("seq")]
            yield text_table(rows.select(kept).slice(0, _RESULTS))

"""``skyband verify``: replays the changes, and holds a sample of results against brute force on the source."""

from __future__ import annotations

import argparse
import time as clock
from typing import TYPE_CHECKING, Any

from skyband.framework.lines import FORMATS, Lines
from skyband.jobs.spec import load_plan

if TYPE_CHECKING:
    from skyband.framework.verify.clocks import Clocks
    from skyband.framework.verify.stored import Stored


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "verify",
        help="prove the results right",
        description="Replays every change stream, adds up the books, compares a sample with brute force.",
    )
    p.add_argument("spec")
    p.add_argument("--keys", type=int, default=5, help="keys to sample (default 5)")
    p.add_argument("--instants", type=int, default=60, help="instants to sample a query and key (default 60)")
    p.add_argument("--seed", type=int, default=0, help="of the sample")
    p.add_argument("--replay-only", action="store_true", help="do not read the source")
    p.add_argument("--log-format", choices=FORMATS, default="text", help="json: one object a line on stderr (default: %(default)s)")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 if everything agrees, 1 if something differs or there was nothing to compare; what was looked at is printed plainly."""
    plan = load_plan(args.spec)
    lines: Lines = getattr(args, "lines", None) or Lines()
    lines.job = plan.job
    from skyband.framework.errors import SkybandError, SpecErrors
    from skyband.framework.streaming.intact import look, told
    from skyband.framework.streaming.layout import Layout, changed_since
    from skyband.framework.verify.books import compare_books
    from skyband.framework.verify.clocks import Clocks
    from skyband.framework.verify.replay import replay
    from skyband.framework.verify.stored import Stored, runs_gone
    from skyband.framework.verify.told import told as differing

    layout = Layout(plan.sink)
    job = layout.known()
    hint = "verify with the spec and the tables of queries of the last run"
    changed = [SkybandError("SKY-E150", d, hint=hint) for d in changed_since(plan, layout)]
    if changed:
        raise SpecErrors(changed)
    held = look(plan, layout, job)
    if held.losses or held.ahead:
        lines.report("lost", f"DIFFERENT: {held.ahead or told(held.losses)}", losses=len(held.losses))
        return 1
    wrong = changes = 0
    stored = Stored(plan)
    clocks = Clocks(stored)
    for query in plan.queries:
        found = replay(stored, query, clocks)
        changes += found.changes
        wrong += len(found.differences)
        fine = f"equal to table `{query.name}`" if query.item.lasting else "each told once"
        verdict = f"DIFFERENT\n{differing(found.differences)}" if found.differences else fine
        text = f"{query.name}: replayed {found.changes:,} changes in {found.steps:,} steps: {verdict}"
        figures = {"query": query.name, "changes": found.changes, "steps": found.steps, "differences": len(found.differences)}
        lines.report("replayed", text, **figures)
    gone = runs_gone(stored)
    if gone is not None:
        lines.report("runs_gone", f"runs: {gone}")
    off = [*clocks.differences, *compare_books(stored, clocks)]
    wrong += len(off)
    said = f"DIFFERENT\n{differing(off)}" if off else "runs, heads and rejected add up with the other tables"
    lines.report("books", f"books: {said}", differences=len(off))
    nothing = None if changes else "the tables hold no change of any result"
    if not args.replay_only:
        try:
            differences, nothing = _against_source(stored, clocks, layout, job, args, lines)
            wrong += differences
        except SkybandError as e:
            if e.code != "SKY-E301":
                raise
            lines.report("not_compared", f"not compared with the source: {e.message}")
    if nothing is not None and not wrong:
        lines.report("nothing_shown", f"NOTHING SHOWN: {nothing}, so nothing has been verified; see tables `rejected` and `runs`")
        return 1
    text = "verified: no difference found" if not wrong else f"DIFFERENT: {wrong} difference{'s' if wrong > 1 else ''} found"
    lines.report("verified", text, differences=wrong)
    return 1 if wrong else 0


def _against_source(
    stored: Stored, clocks: Clocks, layout: Any, job: Any, args: argparse.Namespace, lines: Lines
) -> tuple[int, str | None]:
    """(differences, why nothing has been shown, if so)."""
    from skyband.framework.verify.sample import compare
    from skyband.framework.verify.told import told

    started = clock.monotonic()
    found = compare(stored, clocks, layout, job, args.keys, args.instants, args.seed)
    if found.differences:
        first = found.differences[0]
        lines.report("different", f"DIFFERENT from the source\n{told(found.differences)}", differences=len(found.differences), at=first.at)
    spent, wrong = clock.monotonic() - started, len(found.differences)
    left_out = f", {found.skipped} left out (window too large for brute force)" if found.skipped else ""
    lines.report(
        "compared",
        f"source: {found.rows:,} accepted rows of {found.keys} of {found.of_keys} keys, "
        f"{found.looked} results and the changes of {found.steps} instants recomputed by brute force{left_out}, "
        f"{wrong} different ({spent:.1f} s)",
        rows=found.rows,
        keys=found.keys,
        results=found.looked,
        steps=found.steps,
        left_out=found.skipped,
        differences=wrong,
        seconds=round(spent, 3),
    )
    if not found.rows:
        return wrong, "no row of the source has been accepted"
    large = " (each window is too large for brute force)" if found.skipped else ""
    return wrong, None if found.looked else f"no result has been recomputed{large}"

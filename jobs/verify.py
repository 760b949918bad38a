"""``skyband verify``: replays the changes, and holds a sample of results against brute force on the source."""

from __future__ import annotations

import argparse
import time as clock
from typing import Any

from skyband.framework.lines import FORMATS, Lines
from skyband.framework.plan.model import Plan
from skyband.jobs.spec import load_plan


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "verify", help="prove the results right", description="Replays every change stream and compares a sample with brute force."
    )
    p.add_argument("spec")
    p.add_argument("--keys", type=int, default=5, help="keys to sample (default 5)")
    p.add_argument("--instants", type=int, default=60, help="instants to sample a query and key (default 60)")
    p.add_argument("--seed", type=int, default=0, help="of the sample")
    p.add_argument("--replay-only", action="store_true", help="do not read the source")
    p.add_argument("--log-format", choices=FORMATS, default="text", help="json: one object a line on stderr (default: %(default)s)")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 if everything agrees, 1 if something differs; what was looked at is printed plainly."""
    plan = load_plan(args.spec)
    lines: Lines = getattr(args, "lines", None) or Lines()
    lines.job = plan.job
    from skyband.framework.errors import SkybandError, SpecErrors
    from skyband.framework.streaming.intact import look, told
    from skyband.framework.streaming.layout import Layout, changed_since
    from skyband.framework.verify.replay import replay, runs_gone

    layout = Layout(plan.sink)
    job = layout.load()
    if job is None:
        raise SkybandError("SKY-E402", "this job has not run yet", hint="skyband run it first")
    hint = "verify with the spec and the tables of queries of the last run"
    changed = [SkybandError("SKY-E150", d, hint=hint) for d in changed_since(plan, layout)]
    if changed:
        raise SpecErrors(changed)
    held = look(plan, layout, job)
    if held.losses or held.ahead:
        lines.report("lost", f"DIFFERENT: {held.ahead or told(held.losses)}", losses=len(held.losses))
        return 1
    wrong = 0
    for query in plan.queries:
        found = replay(plan, query)
        wrong += len(found.differences)
        verdict = _verdict(found.differences, f"equal to table `{query.name}`" if query.item.lasting else "each told once")
        text = f"{query.name}: replayed {found.changes:,} changes in {found.steps:,} steps: {verdict}"
        figures = {"query": query.name, "changes": found.changes, "steps": found.steps, "differences": len(found.differences)}
        lines.report("replayed", text, **figures)
    gone = runs_gone(plan)
    if gone is not None:
        lines.report("runs_gone", f"runs: {gone}")
    if not args.replay_only:
        try:
            wrong += _against_source(plan, layout, job, args, lines)
        except SkybandError as e:
            if e.code != "SKY-E301":
                raise
            lines.report("not_compared", f"not compared with the source: {e.message}")
    text = "verified: no difference found" if not wrong else f"DIFFERENT: {wrong} difference{'s' if wrong > 1 else ''} found"
    lines.report("verified", text, differences=wrong)
    return 1 if wrong else 0


def _verdict(differences: list[str], fine: str) -> str:
    if not differences:
        return fine
    return "DIFFERENT\n" + "\n".join(f"    {d}" for d in differences[:10])


def _against_source(plan: Plan, layout: Any, job: Any, args: argparse.Namespace, lines: Lines) -> int:
    from skyband.framework.verify.sample import compare

    started = clock.monotonic()
    found = compare(plan, layout, job, args.keys, args.instants, args.seed)
    for d in found.differences:
        whose = f" for {d.stream}" if d.stream else ""
        text = f"{d.query}: DIFFERENT at {d.at} us{whose}\n    by definition {d.expected[:3]} ...\n    in the tables {d.got[:3]} ..."
        lines.report("different", text, query=d.query, at=d.at)
    spent, wrong = clock.monotonic() - started, len(found.differences)
    left_out = f", {found.skipped} left out (window too large for brute force)" if found.skipped else ""
    lines.report(
        "compared",
        f"source: {found.rows:,} accepted rows of {found.keys} of {found.of_keys} keys, "
        f"{found.looked} results recomputed by brute force{left_out}, {wrong} different ({spent:.1f} s)",
        rows=found.rows,
        keys=found.keys,
        results=found.looked,
        left_out=found.skipped,
        differences=wrong,
        seconds=round(spent, 3),
    )
    return wrong

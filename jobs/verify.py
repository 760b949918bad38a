"""``skyband verify``: replays the changes, and holds a sample of results against brute force on the source."""

from __future__ import annotations

import argparse
import random
import time as clock
from typing import Any

from skyband.jobs.spec import load_plan

_MEMBERS = 20
"""Queries of one table that are looked at."""


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
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """0 if everything agrees, 1 if something differs; what was looked at is printed plainly."""
    plan = load_plan(args.spec)
    from skyband.framework.errors import SkybandError, SpecErrors
    from skyband.framework.streaming.layout import Layout, changed_since
    from skyband.framework.verify.replay import replay

    layout = Layout(plan.sink)
    job = layout.load()
    if job is None:
        raise SkybandError("SKY-E402", "this job has not run yet", hint="skyband run it first")
    hint = "verify with the spec and the tables of queries of the last run"
    changed = [SkybandError("SKY-E150", d, hint=hint) for d in changed_since(plan, layout)]
    if changed:
        raise SpecErrors(changed)
    wrong = 0
    for query in plan.queries:
        found = replay(plan, query)
        wrong += len(found.differences)
        verdict = _verdict(found.differences, f"equal to table `{query.name}`")
        print(f"{query.name}: replayed {found.changes:,} changes in {found.steps:,} steps: {verdict}")
    if not args.replay_only:
        try:
            wrong += _against_source(plan, layout, job, args)
        except SkybandError as e:
            if e.code != "SKY-E301":
                raise
            print(f"not compared with the source: {e.message}")
    print("verified: no difference found" if not wrong else f"DIFFERENT: {wrong} difference{'s' if wrong > 1 else ''} found")
    return 1 if wrong else 0


def _verdict(differences: list[str], fine: str) -> str:
    if not differences:
        return fine
    return "DIFFERENT\n" + "\n".join(f"    {d}" for d in differences[:10])


def _against_source(plan: Any, layout: Any, job: Any, args: argparse.Namespace) -> int:
    from skyband.framework.queries.protocol import Question
    from skyband.framework.queries.registry import query_type
    from skyband.framework.sources.registry import source_format
    from skyband.framework.streaming.session import get_session
    from skyband.framework.verify import accepted as source
    from skyband.framework.verify.objects import objects
    from skyband.framework.verify.replay import change_times, complete_until, result_at, table_rows

    started = clock.monotonic()
    until = complete_until(plan)
    rng = random.Random(args.seed)
    keys = rng.sample(sorted(until, key=repr), min(args.keys, len(until)))
    spark = get_session(plan.job, packages=source_format(plan.source.format).jars)
    rows = source.without_late(source.source_rows(spark, plan, layout, job), table_rows(plan, "rejected"))
    rows = source.with_deletions(plan, rows)
    taken = source.accepted(rows, plan.intake, plan.window, {k: until[k] for k in keys})
    wrong = looked = skipped = 0
    for key in keys:
        mine = taken[key]
        data = objects(plan, mine)
        for query in plan.queries:
            if not mine.time:
                continue
            kind = query_type(query.type)
            # Of a table of queries a few, at as many instants in all.
            asked: list[Any] = rng.sample(query.asked, min(_MEMBERS, len(query.asked))) if query.asked else [None]
            for one in asked:
                stream = (one.name, *key) if query.members else key
                n = -(-args.instants // len(asked))
                for at in _instants(rng, [*mine.time, *change_times(plan, query, stream)], until[key], n, query.every_micros):
                    expected = kind.brute_force(Question(plan, query, data, at, one))
                    if expected is None:
                        skipped += 1
                        continue
                    looked += 1
                    got = result_at(plan, query, stream, at)
                    if expected == got:
                        continue
                    wrong += 1
                    whose = f" for {stream}" if stream else ""
                    print(f"{query.name}: DIFFERENT at {at} us{whose}")
                    print(f"    by definition {expected[:3]} ...\n    in the tables {got[:3]} ...")
    left_out = f", {skipped} left out (window too large for brute force)" if skipped else ""
    print(
        f"source: {sum(len(t.time) for t in taken.values()):,} accepted rows of {len(keys)} of {len(until)} keys, "
        f"{looked} results recomputed by brute force{left_out}, {wrong} different ({clock.monotonic() - started:.1f} s)"
    )
    return wrong


def _instants(rng: random.Random, times: list[int], until: int, n: int, every: int | None) -> list[int]:
    """Instants of events and between them, none after ``until``; only those whose result has been emitted, for ``every``."""
    low, high = min(times), until
    picks = {rng.choice(times) for _ in range(3 * n // 4)} | {rng.randint(low, max(low, high)) for _ in range(n - 3 * n // 4)}
    return sorted(p for p in picks if p <= until and (not every or p // every * every <= until))

"""``skyband test``: run the tests of a spec, in milliseconds without Spark, or with Spark."""

from __future__ import annotations

import argparse
import time as clock
from typing import TYPE_CHECKING, Any

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, SpecErrors, redacted
from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from skyband.framework.plan.model import Plan
    from skyband.framework.spec.load import Validated
    from skyband.framework.spec.models.job import SpecTest
    from skyband.framework.spec_tests.tables import Tables

    Play = Callable[[Plan, SpecTest], Tables]


def add_parser(subparsers: Any) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "test",
        help="run the tests of a spec",
        **help_page(
            "Run the tests of specs (tests:), which give rows and expect tables. Source and sink are not touched.",
            "skyband test specs/*.yaml",
            'skyband test job.yaml --only "late rows" --engine',
            "skyband test job.yaml --record",
            codes="0 all tests passed, 1 a test failed, 2 a mistake in a spec or the command line",
        ),
    )
    p.add_argument("spec", nargs="+", help="spec files")
    p.add_argument("--only", metavar="TEXT", action="append", default=[], help="run only tests whose names contain TEXT; may be repeated")
    how = p.add_mutually_exclusive_group()
    how.add_argument("--engine", action="store_true", help="run every test as a job on Spark; takes seconds per test")
    how.add_argument("--record", action="store_true", help="write the actual tables into the spec as the expected ones")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return code 0 if all tests pass, 1 if one fails, 2 for a mistake in a spec."""
    if not args.engine and args.alone:
        from skyband.operators.jit import disable_compilation

        # For a few rows, compiling kernels or loading compiled ones takes longer than all tests. The results are the same bytes.
        disable_compilation()
    play = _by_spark() if args.engine else _in_memory()
    specs: list[dict[str, Any]] = []
    mistakes = 0
    for path in args.spec:
        try:
            tests = _spec(path, args, play)
        except (SpecErrors, SkybandError) as e:
            args.lines.errors(e.errors if isinstance(e, SpecErrors) else [e])
            mistakes += 1
            continue
        good = sum(t["passed"] for t in tests)
        specs.append({"file": path, "passed": good, "failed": len(tests) - good, "tests": tests})
    passed, failed = (sum(s[n] for s in specs) for n in ("passed", "failed"))
    if len(args.spec) > 1:
        _say(args, f"{counted(len(args.spec), 'spec')}: {counted(passed, 'test')} passed, {failed} failed")
    return Answer({"specs": specs}, None, 2 if mistakes else 1 if failed else 0)


def _say(args: argparse.Namespace, text: str) -> None:
    """Print ``text`` at once, unless JSON follows at the end."""
    if args.format != "json":
        print(redacted(text), flush=True)


def _in_memory() -> Play:
    from skyband.framework.spec_tests.in_memory import tables_of

    return tables_of


def _by_spark() -> Play:
    """Return a function that runs a test on Spark, which starts with the first test."""
    from skyband.framework.spec_tests.by_spark import tables_of
    from skyband.framework.streaming.spark.session import get_session

    return lambda plan, test: tables_of(plan, test, get_session("skyband-test", alone=True))


def _spec(path: str, args: argparse.Namespace, play: Play) -> list[dict[str, Any]]:
    """Run the tests of one spec and return their results."""
    from skyband.framework.spec_tests.loading import load_tests

    found, plan = load_tests(path)
    assert found.job is not None
    chosen = [(i, t) for i, t in enumerate(found.job.tests) if not args.only or any(o in t.name for o in args.only)]
    if not chosen:
        _say(args, f"{path}: no tests" + (" with such a name" if found.job.tests else ""))
        return []
    if args.record:
        return _record(path, args, found, plan, chosen, play)
    made = []
    for i, test in chosen:
        began = clock.perf_counter()
        lines = _failures(plan, test, play)
        spent = 1000 * (clock.perf_counter() - began)
        line = found.document.places[("tests", i)].line + 1 if found.document is not None else 0
        _say(args, f"{path}:{line} {'FAILED' if lines else 'ok'}  {test.name}  ({spent:,.0f} ms)")
        for text in lines:
            _say(args, f"  {text}")
        made.append({"name": test.name, "line": line, "passed": not lines, "ms": round(spent, 1), "differences": lines})
    failed = sum(not t["passed"] for t in made)
    _say(args, f"{path}: {len(made) - failed} passed, {failed} failed")
    return made


def _failures(plan: Plan, test: SpecTest, play: Play) -> list[str]:
    """Return the lines that describe the differences; none if the test passes."""
    from skyband.framework.spec_tests.tables import compare_tables

    if not test.expect:
        return ["it expects nothing: skyband test --record writes what comes out"]
    try:
        differences = compare_tables(plan, test, play(plan, test))
    except SkybandError as e:
        return e.render().splitlines()
    lines = []
    for d in differences:
        lines += [
            f"{d.table}: expected {counted(d.expected, 'row')} (-), got {d.came:,} (+)",
            *(f"  {line}" for line in d.lines),
        ]
    return lines


def _record(
    path: str, args: argparse.Namespace, found: Validated, plan: Plan, chosen: list[tuple[int, SpecTest]], play: Play
) -> list[dict[str, Any]]:
    """Write the tables that differ from the expected ones into the spec."""
    from skyband.framework.spec_tests.recording import record

    outcome = record(path, found, plan, [(i, t, play(plan, t)) for i, t in chosen])
    for name in outcome.recorded:
        _say(args, f"{path}: recorded  {name}")
    if outcome.refused is not None:
        hint = "replace it with this:\n" + outcome.text
        raise SkybandError("SKY-E530", f"{path} cannot be edited: {outcome.refused}", hint=hint)
    _say(args, f"{path}: {len(outcome.recorded)} of {counted(len(chosen), 'test')} recorded{'' if outcome.recorded else ', as all pass'}")
    return [{"name": t.name, "passed": True, "recorded": t.name in outcome.recorded} for _, t in chosen]

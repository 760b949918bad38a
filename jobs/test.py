"""``skyband test``: the tests that a spec carries, without the engine in milliseconds, or through it."""

from __future__ import annotations

import argparse
import contextlib
import io
import time as clock
from typing import TYPE_CHECKING, Any

from skyband.framework.errors import SkybandError, SpecErrors, printable, told
from skyband.jobs.answer import Answer
from skyband.jobs.described import described

if TYPE_CHECKING:
    from collections.abc import Callable

    from skyband.framework.plan.model import Plan
    from skyband.framework.spec.example_models import SpecTest
    from skyband.framework.spec.load import Validated
    from skyband.framework.spec_tests.tables import Tables

    Play = Callable[[Plan, SpecTest], Tables]


def add_parser(subparsers: Any) -> None:
    """The command's arguments."""
    p = subparsers.add_parser(
        "test",
        help="run the tests that a spec carries",
        **described(
            "Runs the tests of specs (tests:): rows in, tables out. Source and sink are not touched.",
            "skyband test specs/*.yaml",
            'skyband test job.yaml --only "late rows" --engine',
            "skyband test job.yaml --record",
            codes="0 all passed, 1 one failed, 2 a mistake in a spec or the command line",
        ),
    )
    p.add_argument("spec", nargs="+", help="spec files")
    p.add_argument("--only", metavar="TEXT", action="append", default=[], help="only tests whose names have this in them; may be repeated")
    how = p.add_mutually_exclusive_group()
    how.add_argument("--engine", action="store_true", help="run them as jobs through the engine: seconds a test instead of milliseconds")
    how.add_argument("--record", action="store_true", help="write what comes out into the spec, as what is expected from now on")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Code 0 if all tests pass, 1 if one fails, 2 for a mistake in a spec. Each test is told as soon as it is done."""
    seen: list[dict[str, Any]] = []
    with contextlib.redirect_stdout(io.StringIO()) if args.format == "json" else contextlib.nullcontext():
        code = _run(args, seen)
    return Answer({"tests": seen, "errors": [e.plain() for e in args.lines.failures]}, None, code)


def _run(args: argparse.Namespace, seen: list[dict[str, Any]]) -> int:
    if not args.engine:
        from skyband.operators.jit import compile_nothing

        # A handful of rows: compiling kernels, or only loading compiled ones, would take longer than all tests. The bytes are the same.
        compile_nothing()
    play = _by_engine() if args.engine else _in_memory()
    failed = ran = mistakes = 0
    for path in args.spec:
        try:
            many, wrong = _spec(path, args, play, seen)
        except (SpecErrors, SkybandError) as e:
            args.lines.errors(e.errors if isinstance(e, SpecErrors) else [e])
            mistakes += 1
            continue
        ran, failed = ran + many, failed + wrong
    if len(args.spec) > 1:
        print(printable(f"{len(args.spec)} specs: {ran - failed} tests passed, {failed} failed"))
    return 2 if mistakes else 1 if failed else 0


def _in_memory() -> Play:
    from skyband.framework.spec_tests.in_memory import tables_of

    return tables_of


def _by_engine() -> Play:
    """The session starts with the first test that is run."""
    from skyband.framework.spec_tests.by_engine import tables_of
    from skyband.framework.streaming.session import get_session

    return lambda plan, test: tables_of(plan, test, get_session("skyband-test"))


def _spec(path: str, args: argparse.Namespace, play: Play, seen: list[dict[str, Any]]) -> tuple[int, int]:
    """(tests run, those that failed) of one spec, added to ``seen``."""
    from skyband.framework.spec_tests.loading import load

    found, plan = load(path)
    assert found.job is not None
    chosen = [(i, t) for i, t in enumerate(found.job.tests) if not args.only or any(o in t.name for o in args.only)]
    if not chosen:
        print(printable(f"{path}: no tests" + (" with such a name" if found.job.tests else "")))
        return 0, 0
    if args.record:
        return _record(path, found, plan, chosen, play)
    failed = 0
    for i, test in chosen:
        began = clock.perf_counter()
        lines = _failures(plan, test, play)
        seen.append({"spec": path, "name": test.name, "passed": not lines, "differences": lines})
        failed += bool(lines)
        spent = f"{1000 * (clock.perf_counter() - began):,.0f} ms"
        place = found.places[("tests", i)]
        print(told(f"{path}:{place.line + 1} {'FAILED' if lines else 'ok'}  {test.name}  ({spent})"))
        for line in lines:
            print(told(f"  {line}"))
    print(told(f"{path}: {len(chosen) - failed} passed, {failed} failed"))
    return len(chosen), failed


def _failures(plan: Plan, test: SpecTest, play: Play) -> list[str]:
    """What is wrong, in lines; none if the test passes."""
    from skyband.framework.spec_tests.expected import compared

    if not test.expect:
        return ["it expects nothing: skyband test --record writes what comes out"]
    try:
        differences = compared(plan, test, play(plan, test))
    except SkybandError as e:
        return e.render().splitlines()
    lines = []
    for d in differences:
        lines += [f"{d.table}: expected {d.expected:,} rows (-), got {d.came:,} (+)", *(f"  {line}" for line in d.lines)]
    return lines


def _record(path: str, found: Validated, plan: Plan, chosen: list[tuple[int, SpecTest]], play: Play) -> tuple[int, int]:
    """Writes what the tests give into the file, of the tables that are not as they expect."""
    from skyband.framework.spec_tests.recording import record

    outcome = record(path, found, plan, [(i, t, play(plan, t)) for i, t in chosen])
    for name in outcome.recorded:
        print(told(f"{path}: recorded  {name}"))
    if outcome.refused is not None:
        hint = "put this in its place:\n" + outcome.text
        raise SkybandError("SKY-E530", f"{path} cannot be edited: {outcome.refused}", hint=hint)
    print(told(f"{path}: {len(outcome.recorded)} of {len(chosen)} tests recorded" + ("" if outcome.recorded else ", as all pass")))
    return len(chosen), 0

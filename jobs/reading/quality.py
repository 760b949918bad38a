"""``skyband quality``: evaluate the checks of a spec on the current tables, and write Data Docs."""

from __future__ import annotations

import argparse
from pathlib import Path

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page
from skyband.jobs.spec import load_plan


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "quality",
        help="check a job's tables now",
        **help_page(
            "Evaluate the checks of quality.tables and the rules of quality.runs on the current tables, and print the results. "
            "Writes nothing into the sink: only runs record results in table checks.",
            "skyband quality flights.yaml",
            "skyband quality flights.yaml --docs build/quality",
            codes="0 no critical check failed, 1 a critical check failed, 2 the checks could not be evaluated",
        ),
    )
    p.add_argument("spec")
    p.add_argument("--docs", metavar="DIRECTORY", help="also write Great Expectations' Data Docs there: static pages that load nothing")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return code 0 if no critical check failed, 1 otherwise. Raises SkybandError."""
    plan = load_plan(args.spec)
    from skyband.framework.quality import checks, run_rules
    from skyband.framework.quality.gate import broken, unchecked
    from skyband.framework.storage.outputs import output_directory
    from skyband.framework.tables.outcome import describe, failed
    from skyband.framework.tables.writing.published import PUBLISHED
    from skyband.jobs.spec import last_run

    _, _, sink, last = last_run(plan)
    if args.docs is not None:
        output_directory(Path(args.docs), "--docs", plan.places)
    batch = int(last["batch_id"])
    span = unchecked(sink, batch)
    found = [*checks.evaluate(plan, sink.writer, span), *((o, None) for o in run_rules.evaluate(plan, sink.writer, span, None))]
    rows = [*(o.row("", batch) for o, _ in found), *broken(sink, batch)]
    published = sink.writer.version(PUBLISHED, sink.app_id(PUBLISHED))
    lines = [f"{'ok' if r['success'] else 'FAILED (' + r['severity'] + ')'} {r['table_name']}: {describe(r)}" for r in rows]
    state = "nothing is published" if published is None else f"the results up to batch {published} are published"
    lines.append(f"{counted(len(rows), 'check')} after batch {batch}, {len(failed(rows))} failed; {state}")
    if args.docs is not None:
        lines.append(_write(Path(args.docs), plan.job, found))
    return Answer({"batch": batch, "published": published, "checks": rows}, "\n".join(lines), int(bool(failed(rows, "critical"))))


def _write(directory: Path, job: str, found: object) -> str:
    from skyband.framework.quality import data_docs

    try:
        pages = data_docs.write(directory, job, found)  # type: ignore[arg-type]
    except OSError as e:
        raise SkybandError("SKY-E203", f"{directory} cannot be written: {e.strerror}") from e
    return f"{counted(len(pages), 'page')}: {directory / 'index.html'}"

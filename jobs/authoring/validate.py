"""``skyband validate``: report all mistakes of a spec, without starting Spark."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page

if TYPE_CHECKING:
    from skyband.framework.base.errors import SkybandError
    from skyband.framework.spec.load import Validated
    from skyband.framework.spec.models.job import Job


def add_parser(subparsers: Any) -> None:
    """Add the command to the command line."""
    parser = subparsers.add_parser(
        "validate",
        help="report all mistakes of a spec",
        **help_page(
            "Report all mistakes of a spec with their lines and how to fix them, without starting Spark.",
            "skyband validate flights.yaml",
            "skyband validate --data flights.yaml sensors.yaml",
            "sed 's/k: 10/k: 20/' flights.yaml | skyband validate - --format json",
            codes="0 all specs are good, 2 a spec has mistakes or cannot be read",
        ),
    )
    parser.add_argument("spec", nargs="+", help="spec files; -: from standard input")
    parser.add_argument(
        "--data", action="store_true", help="also check the source: its columns, and how many of its first rows would be rejected"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return code 0 if all specs are good, 2 otherwise. Mistakes go to stderr."""
    from skyband.framework.base.counts import counted
    from skyband.framework.base.errors import printable, redacted, redacted_for_terminal
    from skyband.framework.spec.parsing.assemble import PROFILE

    good, found = [], []
    for n, path in enumerate(args.spec):
        job, errors, looked, warnings = checked(path, args.data)
        name, queries = (job.job, list(job.queries)) if job is not None else (None, [])
        reported = {"errors": [e.plain() for e in errors], "warnings": [w.plain() for w in warnings]}
        found.append({"file": path, "good": not errors, "job": name, "queries": queries, **reported})
        if job is not None and not errors:
            profile = f", profile {os.environ[PROFILE]}" if os.environ.get(PROFILE) else ""
            warned = f", {counted(len(warnings), 'warning')}" if warnings else ""
            good.append(redacted(f"{path}: good ({counted(len(job.queries), 'query', 'queries')}{profile}{warned}){looked}"))
            for warning in warnings:
                print(warning.render(redacted_for_terminal), end="\n\n", file=sys.stderr)
            continue
        if n:
            print(file=sys.stderr)
        print("\n\n".join(e.render(redacted_for_terminal) for e in errors), file=sys.stderr)
        print(printable(f"\n{path}: {len(errors)} {'mistake' if len(errors) == 1 else 'mistakes'}"), file=sys.stderr)
    return Answer({"specs": found}, "\n".join(good) if good else None, 0 if len(good) == len(found) else 2)


class Checked(NamedTuple):
    """A spec's job, its mistakes, a description of the first rows of its source, and warnings."""

    job: Job | None
    errors: list[SkybandError]
    looked: str
    warnings: list[SkybandError]


def checked(path: str, data: bool = False, env: Mapping[str, str] | None = None) -> Checked:
    """Return what is found of the spec at ``path`` (-: standard input); with ``data`` also of its source."""
    from skyband.jobs.spec import validated

    found = validated(path, env)
    errors, looked = (found.errors, "") if found.job is None or not data else _of_data(found.job)
    env = os.environ if env is None else env
    errors = errors or _of_channels(found, env)
    warnings = [] if found.document is None else [*found.document.warnings, *_without_channels(found, env)]
    return Checked(found.job, errors, looked, warnings)


def _without_channels(found: Validated, env: Mapping[str, str]) -> list[SkybandError]:
    """Return a warning for each alert if no channels are configured here: where the job runs, they have to be."""
    from skyband.framework.alerts.channel_file import CHANNELS, path_of
    from skyband.framework.base.errors import SkybandError

    if found.job is None or found.document is None or path_of(env) is not None:
        return []
    hint = f"set {CHANNELS} to the operator's file to check its channels, and where the job runs"
    return [
        SkybandError(
            "SKY-E661", f"channel '{alert.channel}' of alert '{name}' is not declared: {CHANNELS} is not set, so run would refuse the spec",
            hint, found.document.where_value(("alerts", name, "channel")),
        )
        for name, alert in found.job.alerts.items()
    ]  # fmt: skip


def _of_channels(found: Validated, env: Mapping[str, str]) -> list[SkybandError]:
    """Return the channels that alerts name and that the operator's file, if there is one, does not have."""
    if found.job is None or found.document is None or not found.job.alerts:
        return []
    from skyband.framework.alerts.channels import channels_of, configured
    from skyband.framework.base.errors import SkybandError
    from skyband.framework.plan.compile import alerts_of

    errors = []
    for alert in alerts_of(found.job) if configured(env) is not None else ():
        try:
            channels_of(found.job.job, [alert], env)
        except SkybandError as e:
            where = found.document.where_value(("alerts", alert.name, "channel"))
            errors.append(SkybandError(e.code, e.message, e.hint, where))
    return errors


def _of_data(job: Job) -> tuple[list[SkybandError], str]:
    """Return (mistakes of the plan or the source of a good spec, a description of the first rows)."""
    from skyband.framework.base.errors import SkybandError
    from skyband.framework.plan.compile import compile_job
    from skyband.framework.sources.files import preflight
    from skyband.framework.sources.files.listing import not_read

    try:
        plan = compile_job(job)
    except SkybandError as e:
        return [e], ""
    gone = preflight.missing(plan.source)
    wrong = [gone] if gone is not None else preflight.columns(plan.source, every=True)
    if wrong:
        return wrong, ""
    from skyband.framework.preview.judged import share_of

    errors, said = share_of(plan)
    unread = not_read(plan.source)
    return errors, said if unread is None else f"{said}; {unread}"

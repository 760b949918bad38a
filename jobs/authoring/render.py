"""``skyband render``: print a spec with all defaults filled in."""

from __future__ import annotations

import argparse
import os

from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parser of the command."""
    p = subparsers.add_parser(
        "render",
        help="print a spec with all defaults",
        **help_page(
            "Print a spec with all defaults filled in. Values from the environment stay ${NAME} unless --show names them; secrets are "
            "never shown. Reads neither source nor sink.",
            "skyband render flights.yaml",
            "skyband render flights.yaml --show LANDING --show WAREHOUSE",
            "skyband render flights.yaml --format json",
        ),
    )
    p.add_argument("spec", help="spec file; -: from standard input")
    p.add_argument("--show", metavar="NAME", action="append", default=[], help="print the value of this variable; may be repeated")
    p.set_defaults(run=run)


def run(args: argparse.Namespace) -> Answer:
    """Return the spec as YAML. Raises SpecErrors and SkybandError SKY-E201."""
    import yaml

    from skyband.framework.base.errors import SpecErrors
    from skyband.framework.base.units import format_duration
    from skyband.framework.plan.compile import compile_job
    from skyband.framework.spec.models.job import Run
    from skyband.framework.spec.rendered import rendered
    from skyband.jobs.spec import validated

    found = validated(args.spec)
    if found.job is None or found.document is None:
        raise SpecErrors(found.errors)
    spec = rendered(found.job, found.document, os.environ, frozenset(args.show))
    plan = compile_job(found.job)
    run = {**spec["run"], "buckets": plan.buckets, "keep": format_duration(plan.keep_micros)}
    spec["run"] = {name: run[name] for name in Run.model_fields if name in run}
    text = yaml.safe_dump(spec, sort_keys=False, allow_unicode=True, width=130, default_flow_style=None)
    # ``rendered`` has redacted value by value.
    return Answer({"spec": spec}, text.rstrip("\n"), rows=True)

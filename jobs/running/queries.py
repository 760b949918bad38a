"""``skyband queries``: add queries to a job and remove them while it runs, list them, and export them for the spec."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from skyband.framework.base.counts import counted
from skyband.jobs.answer import Answer
from skyband.jobs.parser import help_page

if TYPE_CHECKING:
    from skyband.framework.plan.live import Start


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the parsers of the command."""
    p = subparsers.add_parser("queries", help="add and remove queries while a job runs", **help_page(
        "Add queries to a job and remove them without an edit of its spec and without a restart. A continuous run takes requests between "
        "two batches; if no run is active, the next one does.",
        "skyband queries add flights.yaml best.yaml",
        "skyband queries list flights.yaml",
        "skyband queries remove flights.yaml best",
        "skyband queries export flights.yaml > live.yaml",
    ))  # fmt: skip
    verbs = p.add_subparsers(dest="verb", required=True, metavar="VERB")
    add = verbs.add_parser("add", help="request new queries", **help_page(
        "Request the queries of FILE, a YAML file with the section queries and, if they need functions that the spec lacks, scoring.",
        "skyband queries add flights.yaml best.yaml",
        "skyband queries add flights.yaml best.yaml --from-now",
    ))  # fmt: skip
    add.add_argument("spec")
    add.add_argument("file")
    how = add.add_mutually_exclusive_group()
    how.add_argument("--backfill", action="store_true", help="begin with the first row that the job has accepted (the default)")
    how.add_argument("--from-now", action="store_true", help="begin with the rows that come after the batch boundary")
    add.set_defaults(run=run_add)
    remove = verbs.add_parser("remove", help="request that queries be removed", **help_page(
        "Request that queries be removed, with their states and tables. A note that a request was refused is removed at once.",
        "skyband queries remove flights.yaml best worst",
    ))  # fmt: skip
    remove.add_argument("spec")
    remove.add_argument("name", nargs="+")
    remove.set_defaults(run=run_remove)
    shown = verbs.add_parser("list", help="list the queries of a job", **help_page(
        "List the queries of the spec and the live ones, and the requests that wait or were refused.",
        "skyband queries list flights.yaml",
        "skyband queries list flights.yaml --format json",
    ))  # fmt: skip
    shown.add_argument("spec")
    shown.set_defaults(run=run_list)
    export = verbs.add_parser("export", help="write live queries as YAML for the spec", **help_page(
        "Write the live queries as YAML. Once the spec has the same entries, they are its own.",
        "skyband queries export flights.yaml > live.yaml",
    ))  # fmt: skip
    export.add_argument("spec")
    export.set_defaults(run=run_export)


def run_add(args: argparse.Namespace) -> Answer:
    """Return the names of the requested queries. Raises SpecErrors, SkybandError SKY-E590 and SKY-E591."""
    from skyband.jobs.live import LiveJob, part_of
    from skyband.jobs.spec import SpecText

    start: Start = "from_now" if args.from_now else "backfill"
    names = LiveJob(SpecText(args.spec), "queries add").add(part_of(args.file), start)
    said = f"requested {counted(len(names), 'query', 'queries')}: {', '.join(names)}; the next batch boundary takes them"
    return Answer({"requested": names, "start": start}, said)


def run_remove(args: argparse.Namespace) -> Answer:
    """Return the names. Raises SkybandError SKY-E591 for a query that the job does not have."""
    from skyband.jobs.live import LiveJob
    from skyband.jobs.spec import SpecText

    LiveJob(SpecText(args.spec), "queries remove").remove(args.name)
    said = f"requested to remove {', '.join(args.name)}; the next batch boundary deletes their states and tables"
    return Answer({"removing": args.name}, said)


def run_list(args: argparse.Namespace) -> Answer:
    """Return all queries with their states."""
    import pyarrow as pa

    from skyband.framework.tables.render import text_table
    from skyband.jobs.live import LiveJob
    from skyband.jobs.spec import SpecText

    found = [asdict(q) for q in LiveJob(SpecText(args.spec), "queries list").known()]
    columns = ("name", "type", "origin", "state", "since", "start", "begins", "changes", "reason")
    shown = [c for c in columns if any(q[c] is not None for q in found)]
    table = pa.table({c: [q[c] for q in found] for c in shown})
    return Answer({"queries": found}, text_table(table))


def run_export(args: argparse.Namespace) -> Answer:
    """Return the sections of a spec, as data and as YAML."""
    import yaml

    from skyband.jobs.live import LiveJob
    from skyband.jobs.spec import SpecText

    found = LiveJob(SpecText(args.spec), "queries export").exported()
    text = yaml.safe_dump(found, sort_keys=False, allow_unicode=True, width=120).rstrip("\n") if found else "# no live queries"
    return Answer(found, text)

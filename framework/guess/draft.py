"""Writes a spec in YAML from a sample, with a comment at each guess."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError, did_you_mean, printable
from skyband.framework.base.units import AHEAD, format_duration
from skyband.framework.guess.change_feed import Feed, feed_of
from skyband.framework.guess.columns import Guess, free_name, guess_column, quoted, spec_name
from skyband.framework.guess.from_sql import Draft, draft_of
from skyband.framework.guess.roles import Roles, roles_of
from skyband.framework.guess.sample import Column, Sample, sample_of
from skyband.framework.sources.registry import source_format
from skyband.operators.expressions.canonical import name as attribute

QUERIES: Final = Path(__file__).parent / "first_query.yaml"
SIMILAR: Final = Path(__file__).parent / "similar_query.yaml"
_CARRIED: Final = 3
_PLANNED: Final = 0.01
"""The share of rows dated ahead of the clock above which such times are meant."""
_UP: Final = 2
"""Most parent directories in a relative path; beyond that the path is absolute."""


def draft(path: Path, spec: Path, sql: str | None = None) -> tuple[str, list[str]]:
    """Return (the text of a spec at ``spec`` for the file, directory or Delta table ``path``, notes about guesses).

    ``sql``: a query that the spec's query shall be. SkybandError SKY-E201 if nothing can be made of it: the data cannot be read, no column
    tells when a row happened, or the query asks for what a spec does not say (``from_sql``) or for a column that there is not.
    """
    sample = sample_of(path)
    feed = feed_of(sample) if sql is None else None
    if feed is not None:
        unsure = [*sample.notes, *feed.notes, *(f"{c.name}: {n}" for c in feed.columns for n in c.notes)]
        unsure += [f"{about}: {n}" for about, notes in feed.roles.notes.items() for n in notes]
        return _text(path, spec, sample, feed.columns, feed.roles, feed), [printable(u) for u in unsure]
    columns, left_out = _columns(sample)
    names = {c.name.lower() for c in columns}

    def free(name: str) -> str:
        name = free_name(name, names)
        names.add(name.lower())
        return name

    asked = None if sql is None else _asked(sql, columns)
    position = {c.name for c in source_format(sample.format).position}
    amounts = [c.amount for c in columns if c.amount is not None]
    for amount in amounts:
        amount.name = free(f"{amount.name}_number")
    roles = roles_of([*columns, *amounts], free, bool(position) and not position & names)
    if roles is None:
        said = ", ".join(f"{c.name} ({c.type})" for c in columns)[:300]
        hint = "every row needs an instant: add a column with one, or write a spec that derives it (skyband init writes an example)"
        raise SkybandError("SKY-E201", printable(f"no column of {path} tells when a row happened: {said}"), hint=hint)
    if asked is not None:
        roles.time = asked.time or roles.time
        roles.notes.pop("scoring", None)
    derived = {expression for _, expression in roles.derive}
    roles.derive += [(a.name, str(a.derive)) for a in amounts]
    days = [c for c in columns if c.type == "string" and c.derive is not None and c.derive not in derived]
    roles.derive += [(free(f"{c.name}_time"), str(c.derive)) for c in days]
    if roles.score is None and asked is None:
        text = next((c.name for c in columns if c.type == "string"), None)
        roles.score = free("score_of_row")
        roles.derive.append((roles.score, f"length({quoted(text)})" if text is not None else f"unix_micros({quoted(roles.time)})"))
        roles.note("scoring", "no column has numbers but such as name something")
    unsure = [*sample.notes, *left_out, *(f"{c.name}: {n}" for c in columns for n in c.notes)]
    unsure += [f"{about}: {n}" for about, notes in roles.notes.items() for n in notes]
    unsure += [] if asked is None else list(asked.notes)
    return _text(path, spec, sample, columns, roles, asked=asked), [printable(u) for u in unsure]


def _asked(sql: str, columns: Sequence[Guess]) -> Draft:
    """Return what the query says for these columns. SkybandError SKY-E201 if it names another one."""
    types = {c.name.lower(): c for c in columns}
    asked = draft_of(sql, frozenset(c.name for c in columns if c.type == "string"))
    for name in (*asked.columns, *([asked.time] if asked.time else [])):
        if name.lower() not in types:
            hint = did_you_mean(name, [c.name for c in columns]) or "columns of the data: " + ", ".join(c.name for c in columns)[:200]
            raise SkybandError("SKY-E201", f"--sql: the data have no column {name!r}", hint=hint)
    return asked


def draft_without_data(sql: str, spec: Path) -> tuple[str, list[str]]:
    """Return (the text of a spec at ``spec`` for a query of SQL, notes): where its rows are, and their types, are to be filled in."""
    asked = draft_of(sql)
    time_ = asked.time or "ts"
    used = {c: "double" if k == "number" else "string" for c, k in asked.columns.items()}
    columns = {"id": "bigint", time_: "timestamp"} | {c: t for c, t in used.items() if c not in ("id", time_)}
    table = re.sub(r"[^A-Za-z0-9_-]+", "-", asked.table).strip("-_") or "rows"
    lines = [
        "# Made by skyband init from a query of SQL. Say where the rows are, and of what type their columns.",
        f"#   skyband validate {spec.name}    what is wrong with this file",
        f"job: {table if table[0].isalpha() else f'job-{table}'}",
        "",
        "source:",
        "  format: csv",
        f"  path: {_quoted(f'./landing/{table}')}",
        "  options: {header: true}",
        "  schema:   # unsure: types are guesses by how the query uses the columns",
        *(f"    {_plain(name)}: {type_}" for name, type_ in columns.items()),
        "  id: [id]   # unsure: the columns that tell rows apart",
        f"  event_time: {{column: {_plain(time_)}}}   # unsure: add watermark, the time that rows may come late",
        *([f"  partition_by: {_columns_of(asked.keys)}"] if asked.keys else []),
        *_transform(asked, []),
        "",
        *_sections(asked),
        "",
        f'sink: {{path: "./tables/{table}"}}',
        "run: {trigger: once}",
    ]
    return "\n".join(lines) + "\n", ["source: where the rows are, and the types of their columns, are guesses", *asked.notes]


def _transform(asked: Draft, derived: Sequence[str]) -> list[str]:
    """Return the section of what the query computes of rows, and which it takes; ``derived``: lines of columns that come first."""
    steps = ["  - derive:", *derived, *(f"      {_plain(n)}: {_quoted(e)}" for n, e in asked.derive)] if derived or asked.derive else []
    steps += [] if asked.where is None else [f"  - where: {_quoted(asked.where)}"]
    return ["", "transform:", *steps] if steps else []


def _sections(asked: Draft) -> list[str]:
    notes = "".join(f"   # {_comment(n)}" for n in asked.notes)
    return [f"window: {asked.window}{notes}", "", *asked.queries.splitlines()]


def _columns(sample: Sample) -> tuple[list[Guess], list[str]]:
    """Return (the columns of the spec, the columns left out with the reasons)."""
    made: list[Guess] = []
    columns: list[Column] = []
    left_out: list[str] = []
    used: set[str] = set()
    for column in sample.columns:
        name = spec_name(column.name, used)
        guess = guess_column(column, name)
        if guess is None:
            left_out.append(f"{column.name}: left out, a spec has no columns like it")
            continue
        used.add(name.lower())
        made.append(guess)
        columns.append(column)
    marks = list(dict.fromkeys(c.nothing for c in made if c.nothing is not None))
    if len(marks) > 1:  # the source's option nullValue is one text
        made = [guess_column(column, c.name, marks[0]) or c for column, c in zip(columns, made, strict=True)]
    for c in made:
        if c.nothing is not None:
            c.notes.append(f"{c.nothing!r} is taken for null, in all columns")
    return made, left_out


def _text(
    path: Path, spec: Path, sample: Sample, columns: Sequence[Guess], roles: Roles, feed: Feed | None = None, asked: Draft | None = None
) -> str:  # fmt: skip
    where, options = _place(path, spec), list(sample.options)
    options += next(([("nullValue", c.nothing)] for c in columns if c.nothing is not None), [])
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", path.name.split(".")[0]).strip("-_") or "job"
    name = name[:40] if name[0].isalpha() else f"job-{name[:40]}"
    here = spec.name
    lines = [
        f"# Made by skyband init from {_looked_at(path, sample)}.",
        f"#   skyband validate {here}    what is wrong with this file",
        f"#   skyband run {here}         run it; then: skyband query {here} top",
        f"job: {name}",
        "",
        "source:",
        f"  format: {sample.format}",
        f"  path: {_quoted(where)}",
        *(
            [f"  options: {{{', '.join(f'{k}: {_quoted(v) if isinstance(v, str) else str(v).lower()}' for k, v in options)}}}"]
            if options
            else []
        ),
        "  schema:",
        *(_column(c) for c in columns),
        f"  id: {_columns_of(roles.id) if roles.id else 'position'}{_noted(roles, 'id')}",
        f"  event_time: {{column: {_plain(roles.time)}{_time_fields(roles)}}}{_noted(roles, 'event_time', 'watermark')}",
    ]
    if feed is not None:
        lines += [
            "  on_duplicate: replace   # a snapshot sends rows again",
            f"  op: {{column: {_plain(feed.op)}, insert: [c, r], update: [u], delete: [d], ignore: [m, t]}}",
        ]
    if asked is not None and asked.keys:
        lines.append(f"  partition_by: {_columns_of(asked.keys)}")
    elif roles.keys:
        lines.append(f"  # partition_by: [{roles.keys[0]}]   # makes each value a stream of its own, with results of its own")
    types = {} if feed is None else feed.types
    derived = [f"      {_plain(n)}: {_derived(e, types.get(n))}" for n, e in roles.derive]
    if asked is not None:
        lines += _transform(asked, derived)
    elif derived:
        lines += ["", "transform:", "  - derive:", *derived]
    if feed is not None and feed.tombstones:
        share = min(100, 1 + 200 * feed.tombstones // sample.rows)
        lines += ["", f"quality: {{max_rejected: {share}%}}   # a tombstone (null) is no row: it is rejected as parse"]
    window = "{count: 1000}" if roles.span is None else f"{{time: {format_duration(roles.span)}}}"
    own = [
        f"window: {window}{'' if feed is None else '   # an object leaves the results so long after its last change'}",
        "",
        *(_queries(columns if feed is None else feed.data, roles) if asked is None else []),
    ]
    lines += [
        "",
        *(own if asked is None else _sections(asked)),
        "",
        f'sink: {{path: "./tables/{name}"}}',
        "run: {trigger: once}",
    ]
    return "\n".join(lines) + "\n"


def _queries(columns: Sequence[Guess], roles: Roles) -> list[str]:
    """Return the score and the queries as data, since only a query type's own code knows its name."""
    carried = _carry(columns, roles)
    filled = {"SCORE": _plain(attribute(str(roles.score))), "NOTE": _noted(roles, "scoring"), "CARRY": carried}
    lines = _filled(QUERIES, filled)
    if roles.tokens is not None:
        name, separator = roles.tokens
        between = f", separator: {_quoted(separator)}" if separator else ""
        lines = [f"tokens: {{{_plain(name)}: {{column: {_plain(name)}{between}}}}}", "", *lines]
        lines += _filled(SIMILAR, {"TOKENS": _plain(name)})
    return lines


def _filled(path: Path, words: Mapping[str, str]) -> list[str]:
    text = path.read_text(encoding="utf-8")
    for word, said in words.items():
        text = text.replace(word, said)
    return text.splitlines()


def _place(path: Path, spec: Path) -> str:
    """Return ``source.path`` relative to the spec's directory."""
    directory = path if path.is_dir() else path.parent
    relative = os.path.relpath(directory.resolve(), spec.parent.resolve())
    shown = "./" if relative == "." else f"{relative}/" if relative.startswith("..") else f"./{relative}/"
    if relative.count("..") > _UP:
        shown = f"{directory.resolve()}/"
    return shown if path.is_dir() else f"{shown}{path.name}"


def _looked_at(path: Path, sample: Sample) -> str:
    """Return in words what the guesses are based on."""
    of = "" if sample.of in (None, 1) else f" of {sample.files:,} of its {counted(sample.of, 'file')}"
    if sample.of is not None and sample.files == sample.of > 1:
        of = f" of its {counted(sample.of, 'file')}"
    return f"{_comment(path.name)}, by {'all' if sample.whole else 'the first'} {counted(sample.rows, 'row')}{of}"


def _column(c: Guess) -> str:
    said = c.type if c.source == c.name else f"{{type: {_within(c.type)}, from: {_quoted(c.source)}}}"
    notes = "; ".join(c.notes)
    return f"    {_plain(c.name)}: {said}" + (f"   # {_comment(notes)}" if notes else "")


def _derived(expression: str, type_: str | None) -> str:
    """Return a derived column, with its type where the expression does not say it."""
    return _quoted(expression) if type_ is None else f"{{sql: {_quoted(expression)}, type: {_within(type_)}}}"


def _within(type_: str) -> str:
    """Return a type inside braces, where a comma ends a value that is not quoted: decimal(10,2)."""
    return _quoted(type_) if "," in type_ else type_


def _columns_of(names: Sequence[str]) -> str:
    return f"[{', '.join(map(_plain, names))}]"


def _carry(columns: Sequence[Guess], roles: Roles) -> str:
    can = [c for c in columns if c.name not in (*roles.id, roles.time, roles.score) and c.type == "string" and c.distinct > 1]
    shown = ", ".join(_plain(c.name) for c in can[:_CARRIED])
    return f", carry: [{shown}]" if shown else ""


def _time_fields(roles: Roles) -> str:
    """Return the further fields of ``event_time``."""
    wait = f", watermark: {format_duration(roles.watermark)}" if roles.watermark else ""
    wait += f", tie_break: {_columns_of(roles.tie_break)}" if roles.tie_break else ""
    # A few times ahead of the clock are mistakes; many are plans or forecasts.
    known, latest = [m for m in roles.micros if m is not None], time.time_ns() // 1000 + AHEAD
    return wait + (", max_ahead: none" if sum(m > latest for m in known) > _PLANNED * len(known) else "")


def _noted(roles: Roles, *about: str) -> str:
    notes = "; ".join(n for a in about for n in roles.notes.get(a, []))
    return f"   # unsure: {_comment(notes)}" if notes else ""


def _comment(text: str) -> str:
    return printable(" ".join(text.split()))[:200]


def _quoted(text: str) -> str:
    """Return a text in YAML's double quotes; ``${`` is escaped."""
    made: str = yaml.safe_dump(text.replace("${", "$${"), default_style='"', width=1 << 30)
    return made.strip()


def _plain(name: str) -> str:
    """Return a name, in quotes if YAML would not read it as a text (no, on, null, a leading backquote)."""
    return _quoted(name) if name[0] == "`" or yaml.safe_load(name) != name else name

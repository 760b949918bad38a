"""Compile a `Job` to a `Plan`. Every query type compiles its own queries; this module knows none of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.table_names import append_only
from skyband.framework.base.units import bytes_of
from skyband.framework.plan.drafts import Context, OperatorDraft, QueryEntry, job_window, predicate, query_window, share, texts_of
from skyband.framework.plan.growth import AUTO
from skyband.framework.plan.live import NO_LIVE, Live
from skyband.framework.plan.model import (
    KEEP,
    Derive,
    Field,
    Filter,
    IntakeNode,
    OperationNode,
    OperatorNode,
    Plan,
    QueryNode,
    RowRule,
    SourceNode,
    StreamNode,
    VectorNode,
)
from skyband.framework.plan.nodes import (
    AlertNode,
    Check,
    KafkaNode,
    LookupNode,
    RunRule,
    SourceClock,
    StatisticsNode,
    TokenNode,
    statistic_kinds,
)
from skyband.framework.queries.models import QueryModel
from skyband.framework.queries.protocol import QueryType
from skyband.framework.queries.registry import query_type
from skyband.framework.row_rules.row_expectations import arguments, default_name
from skyband.framework.sources.position import is_position
from skyband.framework.sources.registry import source_format
from skyband.framework.sources.several.format import SOURCE
from skyband.framework.spec.chains import Division, StreamJob, divided, item_columns
from skyband.framework.spec.checks.columns import column_types, derived, looked_up, lookup_columns
from skyband.framework.spec.checks.table_columns import carried, written
from skyband.framework.spec.models.job import EVERY, Job, RowCondition, topics, with_feed
from skyband.framework.spec.models.source import (
    DerivedColumn,
    DeriveStep,
    Lookup,
    OneOfSources,
    Source,
    SourceColumn,
    Validity,
    WhereStep,
    kind_of,
    token_kinds,
)
from skyband.framework.spec.models.words import WORDS
from skyband.operators.base import Calendar, Kind, Operator, Window
from skyband.operators.expressions.ast import Node
from skyband.operators.expressions.canonical import attributes

# Compile several sources of one stream, and queries that take the rows of one of them.


def clocks(job: Job) -> tuple[SourceClock, ...]:
    """Return how each of several sources moves the watermark; none for a job with one source."""
    usual = job.source.event_time.watermark
    return tuple(SourceClock(n, usual if one.watermark is None else one.watermark, one.idle_after) for n, one in job.sources.items())


def parts(job: Job) -> tuple[tuple[str, SourceNode], ...]:
    """Return the several sources by name, as nodes; none for a job with one source.

    The control source is the second of the query's sources, so it has the number 1.
    """
    return tuple((name, _part(job, name, one, i + (i > 0))) for i, (name, one) in enumerate(job.sources.items()))


def as_asked(query: QueryModel) -> QueryModel:
    """Return ``query`` with its ``from`` as a condition of its ``where``, and with the boundaries of a hop as its own."""
    if query.window is not None and query.window.hop is not None:
        query = query.model_copy(update={"every": query.window.hop.every})
    if query.source is None:
        return query
    sides = query_type(query.type).sides
    condition = " and ".join(f"{side}.{SOURCE} = '{query.source}'" if side else f"{SOURCE} = '{query.source}'" for side in sides)
    return query.model_copy(update={"where": condition if query.where is None else f"{condition} and ({query.where})"})


def _part(job: Job, name: str, one: OneOfSources, number: int) -> SourceNode:
    fields = []
    for column, spec in one.columns.items():
        type_, given = (spec.type, spec.source_name) if isinstance(spec, SourceColumn) else (spec, None)
        fields.append(Field(column, type_, kind_of(type_), given or column))
    return SourceNode(
        format=one.format,
        path=one.path,
        options=tuple(source_format(one.format).options(one.options).items()),
        fields=tuple(fields),
        max_files_per_batch=job.run.max_files,
        max_bytes_per_batch=job.run.max_bytes,
        written=dict(job.variables).get(("sources", name, "path")),
        on_bad_file=one.on_bad_file,
        max_line=bytes_of(one.max_line),
        on_drift="warn",
        relative=job.relative_sources.get(name),
        number=number,
        table=one.table,
    )


DEFAULT_BUCKETS = 16


def compile_job(job: Job, live: Live = NO_LIVE) -> Plan:
    """Return the plan of a checked job. ``live``: which of its queries are live ones, and so have states of their own.

    Raises SkybandError SKY-E142 for a query type this version cannot run and SKY-E151 if an operator refuses its configuration.
    """
    division = divided(job)
    if not division.streams:
        return _compile(job, live=live)
    streams = tuple(_stream(job, one, division) for one in division.streams)
    feeds = with_feed(job.sink, job.queries)
    return replace(_compile(division.job, live), streams=streams, kafka=_kafka(job), alerts=alerts_of(job), feeds=feeds)


def _stream(job: Job, one: StreamJob, division: Division) -> StreamNode:
    stream = one.stream
    columns = item_columns(stream.of, job.queries[stream.of], division.home(stream.of), stream.takes)
    plan = _compile(one.job).unshared
    # Table ``heads`` has where the source's keys stand, and not those of a stream: its skybands could not be read.
    plan = replace(plan, operators=tuple(replace(node, skyband=False) for node in plan.operators))
    return StreamNode(stream.name, stream.of, stream.takes, stream.objects, tuple(columns.items()), plan, stream.renewed, stream.bounded)


def _compile(job: Job, live: Live = NO_LIVE) -> Plan:
    """Compile a job."""
    fields = _fields(job)
    window = job_window(job.window)
    statistics = _statistics(job, window)
    kinds: dict[str, Kind] = {f.name: f.kind for f in fields}
    context = Context(job, fields, {**kinds, **token_kinds(job.tokens), **statistic_kinds(statistics)})
    members = [QueryEntry(i, name, as_asked(q), query_window(window, q.window)) for i, (name, q) in enumerate(job.queries.items())]
    drafts = _drafts(context, members, live.names)
    deletes = predicate(context, job.deletes)
    # Sorted: queries may change places in the spec.
    texts = tuple(sorted({*(t for d in drafts for t in d.texts), *texts_of(deletes), *live.texts}))
    operators: list[OperatorNode] = []
    queries: dict[int, QueryNode] = {}
    for number, draft in enumerate(drafts):
        node, nodes = _operator(draft, number, texts, job.source)
        operators.append(node)
        queries.update(nodes)
    source, sources = job.source, clocks(job)
    return Plan(
        job=job.job,
        source=_source(job, fields),
        intake=IntakeNode(
            fields=fields,
            transforms=_transforms(job),
            rules=_rules(job, fields),
            id=source.id,
            event_time=source.event_time.column,
            delay_micros=max([c.delay_micros for c in sources], default=source.event_time.watermark),
            ahead_micros=None if source.event_time.max_ahead == "none" else source.event_time.max_ahead,
            jump_micros=source.event_time.max_jump,
            tie_break=source.event_time.tie_break,
            partition_by=source.partition_by,
            on_duplicate=source.on_duplicate,
            operations=_operations(source),
            unique="assumed" if source.by_position else source.unique,
            deletes=deletes,
            tokens=_tokens(job, fields),
            vectors=tuple(VectorNode(name, dimension) for name, dimension in job.vectors.items()),
            whole=_whole(fields, operators, deletes, source.event_time.column, statistics),
            reports=tuple(dict.fromkeys(d.reports for d in drafts if d.reports is not None)),
            lookups=tuple(_lookup(name, lookup) for name, lookup in job.lookups.items()),
            sources=sources,
        ),
        window=window,
        operators=tuple(operators),
        queries=tuple(queries[i] for i in sorted(queries)),
        sink=job.sink.path,
        trigger_micros=None if job.run.trigger == "once" else job.run.trigger,
        schedule=(job.schedule.cron or f"after {', '.join(job.schedule.assets or ())}") if job.schedule else None,
        checks=_checks(job),
        texts=texts,
        buckets=(job.run.buckets or DEFAULT_BUCKETS) if source.partition_by else 1,
        shards=AUTO if job.run.shards == "auto" else job.run.shards,
        variables=job.variables,
        keep_micros=job.run.keep or KEEP,
        max_rejected=job.quality.max_rejected,
        max_unusable=job.quality.max_unusable,
        run_rules=tuple(RunRule(r.severity, r.max_delay, r.min_rows, r.per) for r in job.quality.runs),
        check_every=job.quality.check_every,
        kafka=_kafka(job),
        catalog=job.sink.catalog,
        alerts=alerts_of(job),
        iceberg=job.sink.iceberg,
        feeds=with_feed(job.sink, job.queries),
        lookups=tuple(_lookup_source(lookup) for lookup in job.lookups.values()),
        statistics=statistics,
        live=live,
        engine=job.run.engine,
    )


def _statistics(job: Job, window: Window) -> tuple[StatisticsNode, ...]:
    return tuple(StatisticsNode(name, s.functions, s.by, job_window(s.bounds).within(window), s.at_least) for name, s in job.stats.items())


def _drafts(context: Context, members: list[QueryEntry], apart: Collection[str] = ()) -> list[OperatorDraft]:
    alone = [_drafts(context, [m]) for m in members if m.name in apart]
    by_type: dict[str, list[QueryEntry]] = {}
    families: dict[str, str] = {}
    for m in members:
        if m.name in apart:
            continue
        # Types of one family may share states: the first that the spec has compiles the entries of all of them.
        family = query_type(m.query.type).family
        named = families.setdefault(family, m.query.type) if family is not None else m.query.type
        by_type.setdefault(named, []).append(m)
    drafts: list[OperatorDraft] = [d for some in alone for d in some]
    for name, group in by_type.items():
        try:
            drafts += _of_type(context, query_type(name), group)
        except ValueError as e:
            raise SkybandError("SKY-E151", f"queries of type {name}: {e}") from e
    return sorted(drafts, key=lambda d: d.members[0].position)


def _of_type(context: Context, kind: QueryType, entries: list[QueryEntry]) -> Iterator[OperatorDraft]:
    """Yield the drafts of a type's entries. Those of windows that follow each other share a state if these windows are the same."""

    def known(m: QueryEntry) -> bool:
        window = m.window
        return not window.hopping and (kind.forms_windows or (window.tumbling is None and window.session is None))

    if sliding := [m for m in entries if known(m)]:
        yield from kind.compile(context, sliding)
    others = [m for m in entries if not known(m)]
    for (calendar, session, hopping), group in share(others, lambda m: (m.window.tumbling, m.window.session, m.window.hopping)):
        members = {m.position: m for m in group}
        inside = [replace(m, window=Window(m.window.count, m.window.micros)) for m in group]
        for draft in kind.compile(context, inside):
            mine = tuple(members[m.position] for m in draft.members)
            yield _hopping(draft, mine) if hopping else _restarted(draft, mine, calendar, session)


def _hopping(draft: OperatorDraft, members: tuple[QueryEntry, ...]) -> OperatorDraft:
    """Return the draft of an operator that answers ``draft`` for the windows that end before its boundaries."""
    asked = tuple(tuple(replace(a, window=replace(a.window, hopping=True)) for a in own) for own in draft.asked)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.hopping import Hopping

        return Hopping(draft.build(texts))

    return replace(
        draft, members=members, window=replace(draft.window, hopping=True), build=build, skyband=False, asked=asked,
        why=f"as of the end of each window; {draft.why}",
    )  # fmt: skip


def _restarted(draft: OperatorDraft, members: tuple[QueryEntry, ...], calendar: Calendar | None, session: int | None) -> OperatorDraft:
    """Return the draft of an operator that restarts ``draft`` in each window of the calendar, or in each session of a key."""
    asked = tuple(tuple(replace(a, window=replace(a.window, tumbling=calendar, session=session)) for a in own) for own in draft.asked)
    lasting = all(query_type(m.query.type).item(m.query).lasting for m in members)
    largest = tuple(a.direction == "max" for own in asked for a in own) or (draft.direction == "max",)

    def build(texts: tuple[str, ...]) -> Operator:
        from skyband.operators.per_window import PerWindow

        return PerWindow(draft.build(texts), calendar, session, largest, lasting)

    return replace(
        draft, members=members, window=replace(draft.window, tumbling=calendar, session=session), build=build,
        why=f"restarted in each window; {draft.why}", skyband=False, asked=asked,
    )  # fmt: skip


def _operator(
    draft: OperatorDraft, number: int, texts: tuple[str, ...], source: Source
) -> tuple[OperatorNode, dict[int, QueryNode]]:  # fmt: skip
    first = draft.members[0].name
    try:
        operator = draft.build(texts)
    except ValueError as e:
        raise SkybandError("SKY-E151", f"the operator of query {first!r} refuses its configuration: {e}") from e
    node = OperatorNode(
        name=first, operator=operator, k=draft.k, window=draft.window, queries=tuple(m.name for m in draft.members),
        direction=draft.direction, skyband=draft.skyband, why=draft.why,
    )  # fmt: skip
    nodes = {}
    for index, m in enumerate(draft.members):
        q: Any = m.query
        asked = draft.asked[index] if draft.asked else ()
        k = getattr(q, "k", None)
        shape = query_type(q.type).item(q)
        if draft.table and any(a.k is not None for a in asked):
            k = draft.k
        nodes[m.position] = QueryNode(
            name=m.name, type=q.type, operator=number, index=index, k=k, window=m.window, direction=draft.direction,
            item=shape, every_micros=q.every,
            carry=carried(q, shape, source.id, source.partition_by), written=written(q, shape, source.id, source.partition_by),
            min_score=getattr(q, "min_score", None),
            max_score=getattr(q, "max_score", None), asked=asked,
            members=tuple(a.name for a in asked) if draft.table else (),
        )  # fmt: skip
    return node, nodes


def _fields(job: Job) -> tuple[Field, ...]:
    types = column_types(job)
    fields = []
    for name, spec in job.source.all_columns.items():
        origin = spec.source_name if isinstance(spec, SourceColumn) and spec.source_name else name
        fields.append(Field(name, types[name], kind_of(types[name]), origin))
    fields += [Field(name, types[name], kind_of(types[name])) for _, name, _ in looked_up(job)]
    fields += [Field(name, types[name], kind_of(types[name])) for _, name, _, _ in derived(job)]
    return tuple(fields)


def _whole(
    fields: tuple[Field, ...], operators: list[OperatorNode], deletes: Node | None, event_time: str, statistics: tuple[StatisticsNode, ...]
) -> tuple[str, ...]:
    """Return the columns with a value that stands for null, except the event time, whose range is checked anyway."""
    read = {c for o in operators for c in o.reads} | {c.name for c in (attributes(deletes) if deletes is not None else ())}
    read |= {c for node in statistics for _, c in node.functions}
    return tuple(f.name for f in fields if f.name in read and f.type in {"bigint", "timestamp", "date"} and f.name != event_time)


def _tokens(job: Job, fields: tuple[Field, ...]) -> tuple[TokenNode, ...]:
    kinds = {f.name: f.kind for f in fields}
    made = []
    for name, t in job.tokens.items():
        words = None if kinds[t.column] == "list" or t.separator is not None else t.words or WORDS
        lower = words is not None if t.lower is None else t.lower
        given = tuple(f for f in ("words", "normalize", "short") if f in t.model_fields_set and getattr(t, f) is not None)
        made.append(
            TokenNode(
                name, t.column, t.separator, words, lower, t.stop_words, t.ngrams, t.min_tokens, t.max_tokens, t.normalize, t.short, given
            )
        )
    return tuple(made)


def _source(job: Job, fields: tuple[Field, ...]) -> SourceNode:
    source = job.source
    return SourceNode(
        format=source.format,
        path=source.path,
        options=tuple(source_format(source.format).options(source.options).items()),
        fields=tuple(f for f in fields if f.source_name is not None and not is_position(f)),
        position=tuple(f for f in fields if is_position(f)),
        max_files_per_batch=job.run.max_files,
        max_bytes_per_batch=job.run.max_bytes,
        written=dict(job.variables).get(("source", "path")),
        on_bad_file=source.on_bad_file,
        max_line=bytes_of(source.max_line),
        on_drift=source.on_drift,
        relative=job.relative_source,
        parts=parts(job),
        table=source.table,
    )


def _lookup(name: str, lookup: Lookup) -> LookupNode:
    valid = (lookup.as_of.start, lookup.as_of.end) if isinstance(lookup.as_of, Validity) else None
    return LookupNode(name, tuple(lookup.match.items()), tuple(lookup.taken.items()), valid, lookup.missing)


def _lookup_source(lookup: Lookup) -> SourceNode:
    return SourceNode(
        format=lookup.format,
        path=lookup.path,
        options=tuple(source_format(lookup.format).options(lookup.options).items()),
        fields=tuple(Field(name, type_, kind_of(type_), origin) for name, (origin, type_) in lookup_columns(lookup).items()),
    )


def _transforms(job: Job) -> tuple[Derive | Filter, ...]:
    steps: list[Derive | Filter] = []
    for step in job.transform:
        if isinstance(step, DeriveStep):
            steps += [Derive(name, s.sql if isinstance(s, DerivedColumn) else s) for name, s in step.derive.items()]
        elif isinstance(step, WhereStep):
            steps.append(Filter(step.where))
    op = job.source.op
    if op is not None and op.ignore:
        # Before all else that rejects rows: they may have no id, and row rules are not for them.
        ignored = ", ".join(f"'{value}'" for value in op.ignore)
        steps.append(Filter(f"coalesce(cast(`{op.column}` as string) not in ({ignored}), true)"))
    return tuple(steps)


def _operations(source: Source) -> OperationNode | None:
    op = source.op
    return None if op is None else OperationNode(op.column, op.insert, op.update, op.delete, op.ignore)


def _kafka(job: Job) -> KafkaNode | None:
    kafka = job.sink.kafka
    if kafka is None:
        return None
    given = {name: getattr(kafka, name) for name in ("servers", "user", "password", "mechanism")} | {"tls": str(kafka.tls).lower()}
    return KafkaNode(tuple(topics(kafka, job.job, job.queries)), tuple((n, v) for n, v in given.items() if v is not None))


def alerts_of(job: Job) -> tuple[AlertNode, ...]:
    """Return the alerts of a checked job."""
    return tuple(
        AlertNode(
            name=name,
            channel=a.channel,
            queries=a.queries or tuple(job.queries),
            when=tuple(dict.fromkeys(a.when)),
            above=a.above,
            below=a.below,
            message=a.message,
            batch=a.batch,
            every_micros=EVERY if a.every is None else a.every,
            at_most=a.at_most,
            history=a.history,
        )
        for name, a in job.alerts.items()
    )


def _rules(job: Job, fields: tuple[Field, ...]) -> tuple[RowRule, ...]:
    types = {f.name: f.type for f in fields}
    made = []
    for r in job.quality.rows:
        if isinstance(r, RowCondition):
            made.append(RowRule(r.name, r.expect, r.severity))
            continue
        # sqlglot takes its time to load: a spec without such rules need not wait for it.
        from skyband.framework.row_rules.row_conditions import condition

        given = r.model_extra or {}
        name = r.name or default_name(r.expectation, arguments(r.expectation, given))
        made.append(RowRule(name, condition(r.expectation, given, types), r.severity))
    return tuple(made)


def _checks(job: Job) -> tuple[Check, ...]:
    return tuple(
        Check(
            c.table,
            c.expectation,
            json.dumps(c.model_extra or {}, sort_keys=True, separators=(",", ":")),
            c.severity,
            c.scope or ("new" if append_only(c.table) else "whole"),
        )
        for c in job.quality.tables
    )

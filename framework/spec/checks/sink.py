"""Check the sink of a spec: its path, the schema of its catalog, the Kafka sink, Iceberg metadata and change data feeds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from skyband.framework.base.errors import did_you_mean
from skyband.framework.catalogs.model import InvalidName, schema_of
from skyband.framework.sources.kafka.client import NO_PASSWORD, TEXTS, TOPIC, lacking
from skyband.framework.spec.checks.scope import Scope
from skyband.framework.spec.models.sink import KafkaSink, topics
from skyband.framework.spec.parsing.document import Path
from skyband.framework.storage.overlap import is_root, overlap, parts, unusable_characters

_HOME: Final = "_skyband"


def check_sink(s: Scope) -> None:
    """Report all errors of the sink."""
    _path(s)
    _catalog(s)
    if s.job.sink.kafka is not None and not s.doc.bad(("sink", "kafka")):
        _kafka(s, s.job.sink.kafka)
    _feeds(s)
    if s.job.sink.iceberg and not s.doc.bad_below(("sink", "path")) and "#" in s.job.sink.path:
        said, hint = f"Iceberg readers misread '#' in paths: {s.job.sink.path}", "name a directory without it, or leave out sink.iceberg"
        s.doc.add("SKY-E119", said, s.doc.where_value(("sink", "path")), hint)


def _path(s: Scope) -> None:
    path: Path = ("sink", "path")
    if s.doc.bad_below(path):
        return
    sink = s.job.sink.path
    sources = [(("source", "path"), s.job.source.path), *((("sources", n, "path"), one.path) for n, one in s.job.sources.items())]
    if characters := unusable_characters(sink):
        said = f"the sink's path contains {' '.join(characters)}, which Spark or the Delta library would misread: {sink}"
        hint = "name a directory without [ ] { } * ? \\ ^ |, control characters and % before two hexadecimal digits"
        s.doc.add("SKY-E119", said, s.doc.where_value(path), hint)
    elif is_root(sink):
        s.doc.add(
            "SKY-E119", "the sink cannot be the root of a file system", s.doc.where_value(path), "give the job a directory of its own"
        )
    elif _HOME in parts(sink):
        said = f"the sink cannot be inside a directory {_HOME}, which holds the state of a job"
        s.doc.add("SKY-E119", said, s.doc.where_value(path), "give the job a directory of its own")
    elif any(source is not None and not s.doc.bad(at) and overlap(source, sink) for at, source in sources):
        said = "the sink cannot be the directory of the source, nor above or below it"
        s.doc.add("SKY-E119", said, s.doc.where_value(path), "give the job a directory of its own")


def _catalog(s: Scope) -> None:
    at: Path = ("sink", "catalog")
    if s.job.sink.catalog is None or s.doc.bad(at):
        return
    if at in s.doc.variables():
        hint = "write the name itself, or give it by a profile or a parameter"
        s.doc.add(
            "SKY-E119", "the name of a schema is stored and shown, so it cannot come from the environment", s.doc.where_value(at), hint
        )
        return
    try:
        schema_of(s.job.sink.catalog)
    except InvalidName as e:
        s.doc.add("SKY-E680", str(e), s.doc.where_value(at), e.hint)


def _kafka(s: Scope, kafka: KafkaSink) -> None:
    doc = s.doc
    at: Path = ("sink", "kafka")
    given = {n: v for n in TEXTS if (v := getattr(kafka, n)) is not None and not doc.bad((*at, n))}
    for name, value in given.items():
        if re.fullmatch(TEXTS[name][0], value) is None:
            doc.add("SKY-E114", f"'{name}' takes {TEXTS[name][1]}", doc.where_value((*at, name)))
    if "password" in given and (*at, "password") not in doc.variables():
        doc.add("SKY-E119", NO_PASSWORD[0], doc.where_key((*at, "password")), NO_PASSWORD[1])
    for name in lacking({n for n in ("user", "password", "mechanism") if getattr(kafka, n) is not None}):
        doc.add("SKY-E111", f"sink.kafka needs '{name}' as well", doc.where_key(at), "a login needs user, password and mechanism")
    _listed(s, (*at, "queries"), kafka.queries)
    if (*at, "topic") in doc.variables():
        said = "the name of a topic is stored and shown, so it cannot come from the environment"
        doc.add("SKY-E119", said, doc.where_value((*at, "topic")), "write the name itself, or give it by a profile or a parameter")
    elif not doc.bad((*at, "topic")) and any(re.fullmatch(TOPIC, topic) is None for _, topic in topics(kafka, s.job.job, s.job.queries)):
        hint = "use letters, digits, '.', '_' and '-', at most 249 characters; {job} and {query} insert names"
        doc.add("SKY-E114", "'topic' is not a valid topic name", doc.where_value((*at, "topic")), hint)


def _feeds(s: Scope) -> None:
    at: Path = ("sink", "change_data_feed")
    if isinstance(s.job.sink.change_data_feed, tuple) and not s.doc.bad(at):
        _listed(s, at, s.job.sink.change_data_feed)


def _listed(s: Scope, at: Path, names: Sequence[str]) -> None:
    """Report the ``names`` at ``at`` that are no queries of the spec, or that are there twice."""
    for i, name in enumerate(names):
        where = s.doc.where_value((*at, i))
        if s.has_mistakes(name):
            continue
        if name not in s.job.queries:
            hint = did_you_mean(name, s.job.queries) or "list queries of this spec"
            s.doc.add("SKY-E128", f"there is no query '{name}'", where, hint)
        elif name in names[:i]:
            s.doc.add("SKY-E102", f"'{name}' is listed twice in {at[-1]}", where)

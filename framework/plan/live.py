"""Queries that came to a running job, or left it, without an edit of its spec: what the job file keeps of them.

A live query has a state of its own, which no other query shares: so it comes and goes without a change of any other state. Whatever is
read here was written by someone: it is parsed by models, sizes are bounded, and only queries and scoring functions are allowed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, Literal

from skyband.framework.base.counts import counted
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.plain_json import loads

MOST: Final = 1_000
"""The largest number of live queries of a job."""
MOST_TEXT: Final = 20_000
"""The largest number of characters of a live query's JSON."""
Start = Literal["backfill", "from_now"]
"""Where the result of a live query begins: with the job's first row, or at the batch boundary at which the query came."""
STRICT: Final = {"strict": True, "extra": "forbid"}
"""Pydantic's settings of what is read from a sink. This module does not import it, as workers import this one."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_STAMP: Final = re.compile(r"[0-9T:.Z+-]{10,40}")


@dataclass(frozen=True, slots=True)
class LiveQuery:
    """``text``: JSON with its entry and the scoring functions that came with it. ``since``: when it came (ISO 8601).

    ``begins``: for ``from_now`` the event time in microseconds before which no row takes part; ``text`` says so too. ``in_spec``: the spec
    has the entry by now, and its own is the one that counts.
    """

    name: str
    text: str
    start: Start
    since: str
    begins: int | None = None
    in_spec: bool = False
    __pydantic_config__: ClassVar[Any] = STRICT

    def __post_init__(self) -> None:
        """Check the sizes. Raises ValueError."""
        need_name(self.name)
        need_size(self.text, MOST_TEXT)
        if not _STAMP.fullmatch(self.since) or abs(self.begins or 0) >= 2**62:
            raise ValueError("no instant")
        if set(sections_of(self.text)) - {"queries", "scoring"} or set(sections_of(self.text)["queries"]) != {self.name}:
            raise ValueError("a live query has one query, and scoring functions")


@dataclass(frozen=True, slots=True)
class Live:
    """``removed``: queries of the spec that have been removed. ``texts``: text constants whose codes stand in states.

    ``taken``: the number of the last request that is in it. ``removed_at``: the last batch after which a query was removed, -1 if none was:
    up to it table ``runs`` has also counted changes of queries that are gone.
    """

    queries: tuple[LiveQuery, ...] = ()
    removed: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    taken: int = 0
    removed_at: int = -1
    __pydantic_config__: ClassVar[Any] = STRICT

    def __post_init__(self) -> None:
        """Check the sizes. Raises ValueError."""
        for name in self.removed:
            need_name(name)
        for text in self.texts:
            need_size(text, MOST_TEXT)
        if (
            len(self.queries) > MOST
            or len(set(self.names)) < len(self.queries)
            or not 0 <= self.taken < 2**62
            or not -1 <= self.removed_at < 2**62
        ):
            raise ValueError("not the live queries of a job")

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the live queries: each has a state of its own."""
        return tuple(q.name for q in self.queries)

    def with_spec(self, spec: Collection[str]) -> Live:
        """Return it for a spec with the queries ``spec``: what the spec has taken over, or has no more, is the spec's to say."""
        queries = (replace(q, in_spec=True) if q.name in spec else q for q in self.queries)
        return replace(
            self,
            queries=tuple(q for q in queries if q.name in spec or not q.in_spec),
            removed=tuple(n for n in self.removed if n in spec),
        )

    def without(self, name: str) -> Live:
        """Return it without the query ``name``, which is live or of the spec."""
        live = next((q for q in self.queries if q.name == name), None)
        of_spec = live is None or live.in_spec
        return replace(
            self, queries=tuple(q for q in self.queries if q.name != name), removed=(*self.removed, *((name,) if of_spec else ()))
        )  # fmt: skip

    def rebuilt(self) -> Live:
        """Return it for a new generation: queries that the spec has by now may share states again."""
        return replace(self, queries=tuple(q for q in self.queries if not q.in_spec), texts=())


NO_LIVE: Final = Live()


def entries(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the JSON of each query in the data of a file of queries, with the scoring functions of the file that it names."""
    scoring, found = data.get("scoring") or {}, {}
    for name, entry in data["queries"].items():
        words = set(_words(entry))
        used = {n: f for n, f in scoring.items() if n in words}
        found[name] = spelled({"queries": {name: entry}, **({"scoring": used} if used else {})})
    return found


def spelled(data: Mapping[str, Any]) -> str:
    """Return data of a spec as JSON, which is YAML too."""
    return json.dumps(data, ensure_ascii=False)


def sections_of(text: str) -> dict[str, Any]:
    """Return the sections of a live query's JSON. Raises ValueError if it has none."""
    data = loads(text)
    if (
        not isinstance(data, dict)
        or not all(isinstance(data.get(part, {}), dict) for part in ("queries", "scoring"))
        or "queries" not in data
    ):
        raise ValueError("no queries")
    return data


def need_name(name: str) -> None:
    """Raise ValueError unless ``name`` may be that of a query."""
    if not _NAME.fullmatch(name):
        raise ValueError("no name of a query")


def need_size(text: str, most: int) -> None:
    """Raise ValueError if ``text`` is longer than ``most`` characters."""
    if len(text) > most:
        raise ValueError(f"a text has {counted(len(text), 'character')}")


def from_instant(text: str, name: str, column: str, sides: Iterable[str], micros: int) -> str:
    """Return the JSON of the query ``name``, restricted to rows with an event time of ``micros`` or later.

    ``sides``: the prefixes of columns in its expressions.
    """
    data = sections_of(text)
    at = instant(micros)
    bound = " and ".join(f"{side}{'.' if side else ''}{column} >= timestamp '{at}'" for side in sides)
    entry = dict(data["queries"][name])
    where = entry.get("where")
    entry["where"] = bound if where is None else f"({where}) and {bound}"
    return spelled({**data, "queries": {name: entry}})


def instant(micros: int) -> str:
    """Return an instant as expressions spell it, in UTC."""
    return f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M:%S.%f}"


def sections(live: Live) -> dict[str, Any]:
    """Return the sections ``scoring`` and ``queries`` of all live queries, as a spec has them; empty if there are none."""
    found: dict[str, Any] = {}
    for q in live.queries:
        data = sections_of(q.text)
        for part in ("scoring", "queries"):
            if data.get(part):
                found.setdefault(part, {}).update(data[part])
    return {part: found[part] for part in ("scoring", "queries") if part in found}


def too_many(n: int) -> SkybandError:
    """Return the error that a job would have more than ``MOST`` live queries."""
    hint = "remove some, or export them into the spec and rebuild"
    return SkybandError("SKY-E591", f"a job may have {MOST:,} live queries, not {n:,}", hint=hint)


def _words(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for v in value.values():
            yield from _words(v)
    elif isinstance(value, list):
        for v in value:
            yield from _words(v)

"""Commands other than queries: settings, transactions, ``show``. The list of allowed commands is ours; none of them reaches DuckDB.

The server is read-only, so transactions do no more than bound the life of cursors. A setting is stored and can be shown, but only
``search_path``, ``statement_timeout`` and ``timezone`` have an effect.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from skyband.framework.serve.catalog import USER
from skyband.framework.serve.macros import VERSION
from skyband.framework.serve.protocol.syntax import unquoted
from skyband.framework.serve.protocol.wire import Refused

REPORTED: Final[Mapping[str, str]] = {
    "server_version": VERSION, "server_encoding": "UTF8", "client_encoding": "UTF8", "DateStyle": "ISO, MDY", "TimeZone": "UTC",
    "IntervalStyle": "postgres", "integer_datetimes": "on", "standard_conforming_strings": "on", "is_superuser": "off",
    "session_authorization": USER, "in_hot_standby": "off", "default_transaction_read_only": "on", "application_name": "",
}  # fmt: skip
"""Settings that the server reports to clients when they connect."""
_OTHERS: Final[Mapping[str, str]] = {
    "search_path": "", "statement_timeout": "0", "extra_float_digits": "1", "bytea_output": "hex", "client_min_messages": "notice",
    "lock_timeout": "0", "idle_in_transaction_session_timeout": "0", "idle_session_timeout": "0",
    "transaction_isolation": "repeatable read",
    "default_transaction_isolation": "repeatable read", "transaction_read_only": "on", "transaction_deferrable": "off",
    "default_transaction_deferrable": "off", "row_security": "on", "synchronous_commit": "on", "jit": "off", "xmloption": "content",
    "escape_string_warning": "on", "backslash_quote": "safe_encoding", "array_nulls": "on", "lc_messages": "C", "lc_monetary": "C",
    "lc_numeric": "C", "lc_time": "C", "lc_collate": "C", "lc_ctype": "C", "max_identifier_length": "63", "max_index_keys": "32",
    "server_version_num": "160000", "quote_all_identifiers": "off", "default_tablespace": "", "work_mem": "4MB", "geqo": "on",
    "tcp_keepalives_idle": "0", "tcp_keepalives_interval": "0", "tcp_keepalives_count": "0", "ssl": "off", "port": "0",
    "max_parallel_workers_per_gather": "0", "enable_seqscan": "on", "default_statistics_target": "100", "block_size": "8192",
    "wal_level": "minimal",
}  # fmt: skip
_FIXED: Final = frozenset(
    {
        "server_version", "server_version_num", "server_encoding", "is_superuser", "session_authorization", "in_hot_standby", "lc_ctype",
        "integer_datetimes", "block_size", "max_identifier_length", "max_index_keys", "ssl", "port", "wal_level", "lc_collate",
    }
)  # fmt: skip
_MUST: Final[Mapping[str, tuple[str, str]]] = {
    "client_encoding": (r"utf-?8|unicode", "UTF8"),
    "datestyle": (r"iso\b.*|default", "ISO, MDY"),
    "standard_conforming_strings": ("on|true|1|yes", "on"),
    "bytea_output": ("hex", "hex"),
    "intervalstyle": ("postgres", "postgres"),
}
"""Settings with one value that the server can do: what is accepted, what is shown."""
_UNITS: Final = {"": 0.001, "us": 1e-6, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}

_NAME: Final = r"[A-Za-z_][\w.]*"
_SET: Final = re.compile(rf"set\s+(?:session\s+|local\s+)?({_NAME})(?:\s*=|\s+to\s)\s*+(.+)", re.IGNORECASE | re.DOTALL)
_SET_ZONE: Final = re.compile(r"set\s+(?:session\s+|local\s+)?time\s+zone\s+(.+)", re.IGNORECASE | re.DOTALL)
_SET_NAMES: Final = re.compile(r"set\s+(?:session\s+|local\s+)?names\s+(.+)", re.IGNORECASE | re.DOTALL)
_SET_TRANSACTION: Final = re.compile(
    r"set\s+(?:session\s+characteristics\s+as\s+)?transaction\s+((isolation\s+level|read|repeatable|committed|uncommitted|serializable|only|"
    r"write|not|deferrable)[\s,]*)+",
    re.IGNORECASE,
)
_BEGIN: Final = re.compile(
    r"(?:begin|start\s+transaction)\b(\s|,|work|transaction|isolation|level|read|repeatable|committed|uncommitted|serializable|only|write|not|"
    r"deferrable)*",
    re.IGNORECASE,
)
_END: Final = re.compile(r"(commit|end|rollback|abort)(\s+(?:work|transaction))?(\s+and\s+(?:no\s+)?chain)?", re.IGNORECASE)
_SAVEPOINT: Final = re.compile(
    r'(savepoint|release(?:\s+savepoint)?|rollback(?:\s+(?:work|transaction))?\s+to(?:\s+savepoint)?)\s+(?:\w+|"[^"]+")', re.IGNORECASE
)
_FORGET: Final = re.compile(
    r'(discard\s+(?:all|plans|sequences|temp|temporary)|deallocate\s+(?:prepare\s+)?(?:\w+|"[^"]+")|unlisten\s+(?:\*|\w+)|'
    rf"reset\s+(?:all|{_NAME}))",
    re.IGNORECASE,
)
_SHOW: Final = re.compile(rf"show\s+(time\s+zone|transaction\s+isolation\s+level|session\s+authorization|{_NAME})", re.IGNORECASE)
_SET_CONFIG: Final = re.compile(
    r"select\s+(?:pg_catalog\.)?set_config\s*\(\s*'(\w+)'\s*,\s*('(?:[^']|'')*')\s*,\s*(?:true|false)\s*\)", re.IGNORECASE
)
"""``set`` as a query, of which the function itself would set nothing."""
_OPTION: Final = re.compile(r"(?:-c\s*|--)(?P<name>\w+)=(?P<value>(?:\\.|\S)*)")
"""Settings in the option ``options`` of libpq."""
_LISTS: Final[Mapping[str, str]] = {
    "tables": (
        "select table_schema, table_name, table_type from information_schema.tables "
        "where table_schema not in ('pg_catalog', 'information_schema') order by all"
    ),
    "schemas": "select schema_name from information_schema.schemata order by all",
    "databases": "select datname as database_name from pg_catalog.pg_database",
    "all": "select name, setting, short_desc as description from pg_catalog.pg_settings order by name",
}
"""``show`` that lists: the query that it stands for."""


@dataclass(slots=True)
class Done:
    """An executed command: its tag, and further messages for the client. ``ends``: the transaction has ended, and with it its cursors."""

    tag: str
    changed: dict[str, str] = field(default_factory=dict)
    notice: str | None = None
    forget: bool = False
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """The value of one setting, to be answered as a row."""

    name: str
    value: str


class Client:
    """The state of one connection that commands change: settings, and whether a transaction is open."""

    def __init__(self, schemas: Sequence[str], application: str = "") -> None:
        self._schemas = list(schemas)
        self._defaults = {**{k.lower(): v for k, v in REPORTED.items()}, **_OTHERS}
        self._defaults["search_path"] = ", ".join(schemas)
        self._defaults["application_name"] = _short(application)
        self.settings = dict(self._defaults)
        self.status = b"I"
        self.path = list(schemas)

    def begin(self, startup: Mapping[str, str]) -> None:
        """Take the settings that the client sent as it connected; those that are not taken here are ignored, as they come from drivers.

        Raises Refused for an encoding that the server does not have, and for replication.
        """
        if startup.get("replication", "false").lower() not in ("false", "off", "no", "0"):
            raise Refused("0A000", "this server has no replication")
        options = [(o["name"], o["value"]) for o in _OPTION.finditer(startup.get("options", ""))]
        for name, value in (*startup.items(), *options):
            if name.lower() in self.settings:
                try:
                    self.set(name, value)
                except Refused:
                    if name.lower() == "client_encoding":
                        raise
        # What a client sets as it connects is what it resets to.
        self._defaults = dict(self.settings)

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone of instants as text, None for UTC."""
        name = self.settings["timezone"]
        return None if name == "UTC" else ZoneInfo(name)

    @property
    def seconds(self) -> float | None:
        """The client's own limit of time, None if it set none."""
        found = re.fullmatch(r"(\d{1,12})\s*([a-z]*)", self.settings["statement_timeout"].strip().lower())
        span = float(found[1]) * _UNITS.get(found[2], 0.001) if found else 0.0
        return span or None

    def command(self, sql: str) -> Done | Shown | str | None:
        """Carry out ``sql`` if it is a command: what was done or shown, or the query that it stands for. None if it is no command.

        Raises Refused for a setting or a value that is not taken.
        """
        if _BEGIN.fullmatch(sql):
            notice = None if self.status == b"I" else "there is a transaction already"
            self.status = b"T" if self.status == b"I" else self.status
            return Done("BEGIN", notice=notice)
        if found := _END.fullmatch(sql):
            failed = self.status == b"E"
            self.status = b"I" if not found[3] or " no " in f" {found[3].lower()} " else b"T"
            return Done("ROLLBACK" if failed or found[1].lower() in ("rollback", "abort") else "COMMIT", ends=True)
        if found := _SAVEPOINT.fullmatch(sql):
            word = found[1].split()[0].upper()
            if word == "ROLLBACK":
                self.status = b"T" if self.status == b"E" else self.status
            return Done(word)
        if found := _FORGET.fullmatch(sql):
            return self._forget(sql)
        if self.status == b"E":
            raise Refused("25P02", "the transaction has failed: nothing is answered before it ends", "rollback")
        if found := _SET_CONFIG.fullmatch(sql):
            self.set(found[1], found[2])
            return Shown("set_config", self.settings[found[1].lower()])
        if found := _SHOW.fullmatch(sql):
            return self._show(re.sub(r"\s+", "_", found[1].lower()))
        return self._set_any(sql) if re.match(r"set\b", sql, re.IGNORECASE) else None

    def _forget(self, sql: str) -> Done:
        words = sql.split()
        if words[0].lower() != "reset":
            every = words[0].lower() == "discard" and words[1].lower() == "all"
            changed = self._reset(self._defaults) if every else {}
            tag = " ".join(w.upper() for w in words[:2]) if words[0].lower() == "discard" else words[0].upper()
            return Done(tag, changed, forget=every, ends=every)
        name = words[1].lower()
        if name != "all" and name not in self._defaults:
            raise Refused("42704", f"there is no setting {name!r}")
        return Done("RESET", self._reset(self._defaults if name == "all" else {name: self._defaults[name]}))

    def _reset(self, values: Mapping[str, str]) -> dict[str, str]:
        """Set ``values`` again; return those that changed and that are reported to clients."""
        changed = {n: values[n.lower()] for n in REPORTED if n.lower() in values and values[n.lower()] != self.settings[n.lower()]}
        self.settings.update(values)
        self.path = self._schemas_of(self.settings["search_path"])
        return changed

    def _show(self, name: str) -> Shown | str:
        name = {"time_zone": "timezone", "transaction_isolation_level": "transaction_isolation"}.get(name, name)
        if name in _LISTS:
            return _LISTS[name]
        if name not in self.settings:
            raise Refused("42704", f"there is no setting {name!r}", "show all lists the settings; show tables the tables")
        return Shown(name, self.settings[name])

    def _set_any(self, sql: str) -> Done:
        if _SET_TRANSACTION.fullmatch(sql):
            return Done("SET")
        if found := _SET_ZONE.fullmatch(sql):
            return self.set("timezone", found[1])
        if found := _SET_NAMES.fullmatch(sql):
            return self.set("client_encoding", found[1])
        if found := _SET.fullmatch(sql):
            return self.set(found[1], found[2])
        raise Refused("42501", "this server does not take that setting", "set NAME = VALUE, of settings that PostgreSQL's clients send")

    def set(self, given: str, value: str) -> Done:
        """Note a setting. Raises Refused 42704 for an unknown one, 55P02 for one that is fixed, 22023 for a value that is not taken."""
        name, text = given.lower(), unquoted(value)
        if name not in self.settings:
            raise Refused("42704", f"this server does not take the setting {given[:80]!r}", "it takes the settings of PostgreSQL's clients")
        if name in _FIXED:
            raise Refused("55P02", f"the setting {name!r} cannot be changed")
        if len(value) > 1000:
            raise Refused("22023", f"the value of {name!r} is too long")
        if text.lower() == "default" or (name == "timezone" and text.lower() == "local"):
            text = self._defaults[name]
        elif name in _MUST:
            pattern, shown = _MUST[name]
            if not re.fullmatch(pattern, text.lower(), re.DOTALL):
                raise Refused("22023", f"this server has no other {name} than {shown}")
            text = shown
        elif name == "timezone":
            text = _zone(text)
        elif name == "search_path":
            self.path = self._schemas_of(value)
            text = ", ".join(self.path)
        else:
            text = _short(text)
        self.settings[name] = text
        changed = {k: text for k in REPORTED if k.lower() == name}
        return Done("SET", changed)

    def _schemas_of(self, value: str) -> list[str]:
        wanted = [unquoted(part).lower() for part in value.split(",")]
        known = {s.lower(): s for s in self._schemas}
        return [known[w] for w in dict.fromkeys(wanted) if w in known]


_OFFSET: Final = re.compile(r"interval\s+'([+-]?(?:0?\d|1[0-2])):00'\s+hour\s+to\s+minute|([+-]?(?:\d|1[0-2]))", re.IGNORECASE)
"""A time zone as whole hours."""


@cache
def _zones() -> Mapping[str, str]:
    """Return the names of the IANA time zone database in lower case, with how they are spelled."""
    return {name.lower(): name for name in available_timezones() - {"localtime", "Factory"}}


def _zone(text: str) -> str:
    """Return the name of a time zone as it is spelled. Raises Refused 22023 if there is none of that name."""
    if text.upper() in ("UTC", "ETC/UTC", "GMT", "ETC/GMT", "Z", "ZULU", "GMT+00:00", "+00:00", "0"):
        return "UTC"
    if hours := _OFFSET.fullmatch(text):
        # Names of zones count to the west, intervals and numbers to the east.
        east = int(hours[1] or hours[2])
        return f"Etc/GMT{-east:+d}" if east else "UTC"
    name = _zones().get(text.lower())
    if name is None:
        raise Refused("22023", f"there is no time zone {_short(text)!r}", "a name of the IANA time zone database, such as Europe/Berlin")
    return name


def _short(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:200]

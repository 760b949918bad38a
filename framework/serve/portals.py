"""Prepared statements, and portals: statements with their values, and the rows of their answers. Cursors are portals with names."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from skyband.framework.serve.catalog import Cursor
from skyband.framework.serve.commands import Done
from skyband.framework.serve.parameters import Node
from skyband.framework.serve.protocol.copying import Copy
from skyband.framework.serve.protocol.cursors import Fetch
from skyband.framework.serve.protocol.wire import Refused


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement that was parsed: its text, "" for an empty one, and the OIDs of its parameters."""

    sql: str
    oids: tuple[int, ...]


@dataclass(slots=True)
class Portal:
    """A prepared statement with its values. ``rows``: its answer once it ran, of which ``sent`` rows are at the client.

    ``copy``: how the rows are copied to the client; ``declared``: the statement that declared it as a cursor; ``held``: it outlives its
    transaction, once that is committed: until then it is ``new``.
    """

    prepared: Prepared
    values: list[Node]
    formats: tuple[int, ...]
    rows: pa.Table | None = None
    done: Done | None = None
    sent: int = 0
    tag: str = field(default="SELECT")
    copy: Copy | None = None
    declared: str | None = None
    held: bool = False
    new: bool = False


class Portals(dict[str, Portal]):
    """The portals of a connection by their names."""

    def cursors(self) -> list[Cursor]:
        """Return those that were declared as cursors."""
        return [Cursor(name, p.declared, p.formats != (), p.held) for name, p in self.items() if p.declared is not None]

    def end_transaction(self, committed: bool) -> None:
        """Close the cursors and portals that end with a transaction."""
        for name in [name for name, p in self.items() if not p.held or (p.new and not committed)]:
            del self[name]
        for portal in self.values():
            portal.new = False

    def cursor(self, name: str) -> Portal:
        """Return the cursor ``name``. Raises Refused 34000 if there is none."""
        found = self.get(name)
        if found is None:
            raise Refused("34000", f"there is no cursor {name!r}")
        return found

    def bound(self, rows: pa.Table, memory_mb: int) -> None:
        """Bound the memory of all rows that are held, and of ``rows``. Raises Refused 53200 if they are beyond it."""
        held = rows.nbytes + sum(p.rows.nbytes for p in self.values() if p.rows is not None)
        if held > memory_mb * 1_000_000:
            said = f"the answers that this connection holds need more than {memory_mb} MB"
            raise Refused("53200", said, "close cursors, or start with --memory MB")


def fetch_from(cursor: Portal, fetch: Fetch, into: Portal, empty: bool) -> None:
    """Take rows from ``cursor``, which ran, as the answer of ``into``; ``empty``: only their columns.

    Raises Refused 55000 for rows behind it.
    """
    if cursor.rows is None or cursor.copy is not None:
        raise Refused("55000", f"the cursor {fetch.name!r} has no rows")
    skip = fetch.skip if fetch.row is None else fetch.row - 1 - cursor.sent
    if skip < 0:
        raise Refused("55000", f"the cursor {fetch.name!r} goes forward only, and stands at row {cursor.sent}", "declare it again")
    start = min(cursor.sent + skip, cursor.rows.num_rows)
    left = cursor.rows.num_rows - start
    taken = 0 if empty else left if fetch.count is None else min(fetch.count, left)
    if not empty:
        cursor.sent = start + taken
    if fetch.move:
        into.done = Done(f"MOVE {taken}")
        return
    into.rows, into.tag = cursor.rows.slice(start, taken), "FETCH"
    into.formats = cursor.formats or into.formats

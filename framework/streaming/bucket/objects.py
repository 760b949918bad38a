"""The objects of one bucket that many rows report on: their numbers, and the values that name them.

An operator reads an object as a number (``operators.base.object_column``); results name it by its columns. Numbers are given in order of
their first rows and never reused; objects that no operator needs any more are removed.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.framework.streaming.rows.words import names
from skyband.framework.tables.render import key_numbers
from skyband.operators.base import NULL, Named

I64 = npt.NDArray[np.int64]

OBJECT_KEY, _NUMBER = "__key", "__number"


class ObjectNumbers:
    """The objects that ``columns`` name, by key. ``known``: number, dense key number and ``columns``, by number."""

    def __init__(self, columns: tuple[str, ...], schema: pa.Schema) -> None:
        self.columns = columns
        self.known = pa.schema(
            [(_NUMBER, pa.int64()), (OBJECT_KEY, pa.int64()), *(schema.field(c) for c in columns)]
        ).empty_table()  # fmt: skip
        self.next = 0

    def number(self, key: I64, rows: pa.Table) -> I64:
        """Return the object's number for each of ``rows`` (of keys ``key``, n); ``NULL`` where a naming column is null.

        O(n + known), by a table of the codes of names; O((n + known) log) to make codes small where they are not.
        """
        named = rows.select(list(self.columns)).append_column(OBJECT_KEY, pa.array(key))
        held, mine = key_numbers([self.known, named], [OBJECT_KEY, *self.columns])
        null = np.zeros(len(key), bool)
        for c in self.columns:
            null |= rows[c].is_null().to_numpy()
        held, mine = _small(held, mine)
        number_of = np.full(max(int(held.max(initial=-1)), int(mine.max(initial=-1))) + 1, NULL)
        number_of[held] = self.known[_NUMBER].to_numpy()
        fresh = np.flatnonzero((number_of[mine] == NULL) & ~null)
        code, first = np.unique(mine[fresh], return_index=True)
        if len(code):
            order = np.argsort(first)
            given = self.next + np.arange(len(code))
            number_of[code[order]] = given
            added = named.take(pa.array(fresh[first[order]])).append_column(_NUMBER, pa.array(given))
            self.known = pa.concat_tables([self.known, added.select(self.known.column_names).cast(self.known.schema)])
            self.next += len(code)
        return np.where(null, NULL, number_of[mine]) if null.any() else number_of[mine]

    def named(self, numbers: I64) -> Named:
        """Objects with their names as words (see ``words``). Raise KeyError if one has been removed."""
        return Named(numbers, names(self.rows(numbers)))

    def rows(self, numbers: I64) -> pa.Table:
        """The naming columns of objects, in the order of ``numbers``. Raise KeyError if one has been removed."""
        held = self.known[_NUMBER].to_numpy()
        at = np.searchsorted(held, numbers)
        if len(numbers) and (at.max() == len(held) or not np.array_equal(held[at], numbers)):
            raise KeyError("an operator named an object it no longer needed")
        return self.known.select(list(self.columns)).take(pa.array(at))

    @property
    def numbers(self) -> I64:
        """Return the numbers of the known objects."""
        found: I64 = self.known[_NUMBER].to_numpy()
        return found

    def keep(self, needed: Iterable[I64]) -> None:
        """Remove all objects except those whose numbers are in ``needed``."""
        wanted = np.concatenate([np.empty(0, np.int64), *needed])
        mask = np.isin(self.known[_NUMBER].to_numpy(), wanted)
        if not mask.all():
            self.known = self.known.filter(pa.array(mask)).combine_chunks()

    def saved(self) -> pa.Table:
        """What ``restore`` takes: the known objects, and the next number as the number of a last row that is otherwise null."""
        return pa.concat_tables([self.known, pa.table({_NUMBER: [self.next]})], promote_options="default").combine_chunks()

    def restore(self, saved: pa.Table) -> None:
        """Restore the result of ``saved``."""
        self.known = saved.slice(0, saved.num_rows - 1).select(self.known.column_names).cast(self.known.schema)
        self.next = int(pc.max(saved[_NUMBER]).as_py())


def _small(held: I64, mine: I64) -> tuple[I64, I64]:
    """Return codes that are not much larger than there are rows: equal if and only if the given ones are."""
    n = len(held) + len(mine)
    if max(int(held.max(initial=0)), int(mine.max(initial=0))) <= 4 * n + 1024:
        return held, mine
    _, codes = np.unique(np.concatenate([held, mine]), return_inverse=True)
    return codes[: len(held)], codes[len(held) :]

"""Which columns of the stream an entry's tables show beside the ids: those the spec says, and those the type shows by itself."""

from __future__ import annotations

from collections.abc import Sequence

from skyband.framework.base.items import ItemShape
from skyband.framework.base.table_names import FIXED_COLUMNS
from skyband.framework.queries.models import QueryModel


def written(query: QueryModel, shape: ItemShape, id_: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
    """The columns of ``carry`` less those that are there already: of the id, and of the key where the tables have it under its own name."""
    bare = any(not part.prefix for part in shape.rows)
    return tuple(c for c in query.carry if c not in id_ and not (bare and c in keys))


def carried(query: QueryModel, shape: ItemShape, id_: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
    """``written``, then what the type shows by itself, unless another column of the tables has that name."""
    said = written(query, shape, id_, keys)
    there = {c.name.lower() for c in shape.columns(id_, said, keys)}
    there |= {c.lower() for c in (*FIXED_COLUMNS, *keys, *(v.name for v in (*shape.values, *shape.extra)))}
    return (*said, *(c for c in query.shown if not any((part.prefix + c).lower() in there for part in shape.rows)))

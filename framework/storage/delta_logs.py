"""Check what the log of a Delta table names, before anything reads the table: whoever wrote it may have named files anywhere.

Data files, change files, sidecars and deletion vectors have to be named by a path inside the table. An absolute path or a URL, as in a
shallow clone, is refused, and so is a log that cannot be parsed: another reader might make something else of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.system_failures import one_line
from skyband.framework.storage.location import Location, location, without_scheme
from skyband.framework.storage.settings import scheme_of

if TYPE_CHECKING:
    from deltalake import DeltaTable

CODE: Final = "SKY-E208"
_NOT_FILES: Final = frozenset({"commitinfo", "metadata", "protocol", "txn", "domainmetadata"})
"""Actions that name no file of the table, in lower case."""
_VALUES: Final = frozenset({"partitionvalues", "partitionvalues_parsed", "stats", "stats_parsed", "tags"})
"""Members of an action whose own members have any name."""
_LISTED: Final = re.compile(r"(?!\.).*\.(json|parquet|crc)|_last_checkpoint")
_SCHEME: Final = re.compile(r"[^/]*:")
_DV_NAME: Final = 20
"""Characters of a deletion vector's name; before it comes the directory of its file."""
_HINT: Final = "a shallow clone reads the files of another table: name that table, or make a deep clone"


class DeltaLog:
    """The log of one table. ``require_inside`` remembers what it has checked, so that it is cheap between batches."""

    def __init__(self, table: Location) -> None:
        self.table = table
        self._checked: dict[Location, tuple[int, float]] = {}

    @classmethod
    def of(cls, path: str) -> DeltaLog | None:
        """Return the log of the table at ``path``; None on a file system that only Spark reads."""
        local = without_scheme(path)
        return None if "://" in local and scheme_of(local) is None else cls(location(local))

    def require_inside(self) -> None:
        """Raise SkybandError SKY-E208 if the log names a file outside of the table, or cannot be parsed. O(bytes of what is new in it)."""
        log = self.table / "_delta_log"
        for path in sorted(log.rglob("*")) if log.is_dir() else ():
            if not _LISTED.fullmatch(path.name) or path.is_dir():
                continue
            # Another process may clean the log.
            with suppress(FileNotFoundError):
                found = path.stat()
                known = found.st_size, found.st_mtime
                if self._checked.get(path) != known:
                    self._check(path)
                    self._checked[path] = known

    def _check(self, path: Location) -> None:
        try:
            for action in _parquet(path) if path.name.endswith(".parquet") else _json(path):
                for name in _named(action):
                    if outside(name):
                        said = f"the Delta table {self.table} is not read: its log names a file outside of it, {name[:200]} ({path.name})"
                        raise SkybandError(CODE, said, hint=_HINT)
        except (ValueError, MemoryError) as e:
            said = f"the Delta table {self.table} is not read: {path.name} of its log cannot be parsed ({str(e)[:200]})"
            raise SkybandError(CODE, said, hint="restore the table's log, or name another table") from e
        except FileNotFoundError:
            raise
        except OSError as e:
            said = f"the Delta table {self.table} is not read: {path.name} of its log cannot be read ({(e.strerror or str(e)).lower()})"
            raise SkybandError(CODE, said, hint="check that you may read its files") from e


def require_inside(path: str | Path) -> None:
    """Raise SkybandError SKY-E208 if the log of the table at ``path`` names a file outside of it. O(bytes of its log)."""
    log = DeltaLog.of(str(path))
    if log is not None:
        log.require_inside()


def open_table(path: str, version: int | None = None) -> DeltaTable:
    """Open a table that others write, as of ``version`` (None: as it is now), once its log has been checked.

    Raises as ``require_inside``, or OSError if it cannot be opened.
    """
    from deltalake import DeltaTable

    require_inside(path)
    with library_errors():
        return DeltaTable(path, version=version)


@contextmanager
def library_errors() -> Iterator[None]:
    """Raise OSError, in one line, for whatever delta-rs or Arrow raises inside about a damaged table."""
    try:
        yield
    except BaseException as e:
        if not of_library(e):
            raise
        raise OSError(one_line(e)[:300] or type(e).__name__) from e


def of_library(e: BaseException) -> bool:
    """Return True for an error of delta-rs or Arrow about a table.

    delta-rs raises a plain ``Exception`` for what its query engine says of a damaged file, and a panic, which is no ``Exception``.
    """
    from deltalake.exceptions import DeltaError
    from pyarrow import ArrowException

    known = isinstance(e, (DeltaError, OSError, ValueError, KeyError, ArrowException))
    return known or type(e) is Exception or type(e).__name__ == "PanicException"


def outside(name: str) -> bool:
    """Return True unless a log's name of a file, as it is and decoded, is a path inside the table."""
    return any(_leaves(n) for n in {name, unquote(name)})


def _leaves(name: str) -> bool:
    if not name or "\x00" in name or name[0] in "/\\" or ".." in re.split(r"[/\\]", name):
        return True
    return _SCHEME.match(name) is not None and not _encoded(name)


def _encoded(name: str) -> bool:
    """Return True if the colon can be that of a partition's value (``at=12:00/...``), as it has no place in a scheme after ``=``."""
    return "=" in name.partition(":")[0]


def _named(action: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of all files in an action, a checksum or the note of the last checkpoint, whose keys are in lower case."""
    for key, value in action.items():
        if key in _NOT_FILES:
            continue
        todo = [value]
        while todo:
            found = todo.pop()
            if isinstance(found, list):
                todo += found
            elif isinstance(found, dict):
                todo += [v for k, v in found.items() if k not in _VALUES]
                if found.get("path") is not None:
                    yield str(found["path"])
                if found.get("pathorinlinedv") is not None:
                    yield from _vector(str(found.get("storagetype")), str(found["pathorinlinedv"]))


def _vector(kind: str, text: str) -> Iterator[str]:
    """Yield what a deletion vector names: its own file, by an absolute path (p) or by a directory and an encoded name (u)."""
    if kind == "i":
        return
    if kind != "u":
        yield text if outside(text) else f"/{text}"
    elif len(text) < _DV_NAME:
        yield "/"
    elif text[:-_DV_NAME]:
        yield f"{text[:-_DV_NAME]}/vector"


def _json(path: Location) -> Iterator[Mapping[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                try:
                    found = json.loads(line.decode("utf-8"), object_pairs_hook=_keys)
                except RecursionError as e:
                    raise ValueError("it is nested too deeply") from e
                if not isinstance(found, dict):
                    raise ValueError("a line is no JSON object")
                yield found


def _keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object with keys in lower case. Of two with one name, readers take different ones."""
    found = {key.lower(): value for key, value in pairs}
    if len(found) < len(pairs):
        names = [key.lower() for key, _ in pairs]
        # Keys of configuration and of partitions tell case apart.
        if {n for n in names if names.count(n) > 1} & {"add", "remove", "cdc", "sidecar", "path", "deletionvector", "pathorinlinedv"}:
            raise ValueError("an object has two members of one name")
    return found


def _parquet(path: Location) -> Iterator[Mapping[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with path.open("rb") as file, pq.ParquetFile(file) as parquet:
            names = [parquet.schema.column(i).path for i in range(len(parquet.schema))]
            ends = ("path", "pathorinlinedv", "storagetype")
            wanted = [n for n in names if n.lower().rpartition(".")[2] in ends and n.lower().partition(".")[0] not in _NOT_FILES]
            for batch in parquet.iter_batches(65_536, columns=wanted) if wanted else ():
                for row in batch.to_pylist():
                    yield _lowered(row)
    except pa.ArrowException as e:
        raise ValueError(str(e).splitlines()[0]) from e


def _lowered(value: Any) -> Any:
    if isinstance(value, dict):
        return {k.lower(): _lowered(v) for k, v in value.items() if v is not None}
    return value

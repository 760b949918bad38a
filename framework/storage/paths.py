"""Paths on object storage, with the methods of ``Location``.

Writes are atomic and visible at once. Directories are prefixes of names and need not be created. Objects cannot be renamed. Needs the
extra ``s3``: ``locations`` imports it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cache, total_ordering
from pathlib import PurePath, PurePosixPath
from typing import IO, TYPE_CHECKING, Any, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import extra
from skyband.framework.storage.settings import store_options

with extra("s3", "object storage"):
    import obstore
    from obstore.exceptions import BaseError
    from obstore.store import from_url

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_SECONDS: Final = 20
"""For a request, and for all tries of one."""


@cache
def _store(root: str, settings: tuple[tuple[str, str], ...]) -> ObjectStore:
    config = dict(settings)
    client: Any = {"allow_http": config.pop("allow_http", "false") == "true", "timeout": f"{_SECONDS}s"}
    retry: Any = {"retry_timeout": timedelta(seconds=_SECONDS)}
    return from_url(root, config=config, client_options=client, retry_config=retry)  # type: ignore[call-overload, no-any-return]


@total_ordering
class ObjectPath:
    """A path ``scheme://bucket/name``. It is no path of this machine: ``os`` and ``open`` refuse it, and ``Path`` has other methods."""

    __slots__ = ("parts",)

    def __init__(self, path: str) -> None:
        self.parts: tuple[str, ...] = tuple(p for p in path.split("/") if p not in ("", "."))
        """The scheme with its colon, the bucket, and the segments of the name."""

    def __str__(self) -> str:
        return f"{self.parts[0]}//{'/'.join(self.parts[1:])}"

    def __repr__(self) -> str:
        return f"ObjectPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectPath) and self.parts == other.parts

    def __lt__(self, other: ObjectPath) -> bool:
        return self.parts < other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __truediv__(self, name: str | PurePath) -> ObjectPath:
        return ObjectPath(f"{self}/{name}")

    @property
    def name(self) -> str:
        """Return the last segment."""
        return self.parts[-1]

    @property
    def stem(self) -> str:
        """Return the last segment without its extension."""
        return PurePosixPath(self.name).stem

    @property
    def parent(self) -> ObjectPath:
        """Return the directory of this path; the bucket is its own."""
        return ObjectPath(f"{self.parts[0]}//{'/'.join(self.parts[1 : max(2, len(self.parts) - 1)])}")

    @property
    def parents(self) -> Sequence[ObjectPath]:
        """Return the parent directories, up to the bucket."""
        return [ObjectPath(f"{self.parts[0]}//{'/'.join(self.parts[1:n])}") for n in range(len(self.parts) - 1, 1, -1)]

    def with_name(self, name: str) -> ObjectPath:
        """Return the path with another last segment."""
        return self.parent / name

    def relative_to(self, other: ObjectPath) -> PurePath:
        """Return the part of the path below ``other``. Raises ValueError if it is not below."""
        if self.parts[: len(other.parts)] != other.parts:
            raise ValueError(f"{self} is not below {other}")
        return PurePosixPath(*self.parts[len(other.parts) :])

    @property
    def name_there(self) -> str:
        """Return the object's name within its bucket."""
        return "/".join(self.parts[2:])

    @property
    def store(self) -> ObjectStore:
        """Return the bucket."""
        root = "//".join(self.parts[:2])
        return _store(root, tuple(sorted((store_options(root) or {}).items())))

    def resolve(self) -> ObjectPath:
        """Return the path itself, since there are no links."""
        return self

    def exists(self) -> bool:
        """Return True if an object or a directory of this name exists."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Return True if an object of this name exists."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Return True if names of objects begin with this one."""
        return next(self.iterdir(), None) is not None

    def is_symlink(self) -> bool:
        """Return False."""
        return False

    def stat(self) -> os.stat_result:
        """Return size and modification time. Raises FileNotFoundError."""
        if len(self.parts) < 3:
            raise FileNotFoundError(str(self))
        with _store_errors(self):
            found = obstore.head(self.store, self.name_there)
        at = found["last_modified"].timestamp()
        return os.stat_result((0o100600, 0, 0, 1, 0, 0, found["size"], at, at, at))

    def read_bytes(self) -> bytes:
        """Return the content. Raises FileNotFoundError."""
        with _store_errors(self):
            return bytes(obstore.get(self.store, self.name_there).bytes())

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        """Return the content as text. Raises FileNotFoundError."""
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def write_bytes(self, data: bytes | memoryview) -> int:
        """Write the object, replacing an existing one."""
        try:
            with _store_errors(self):
                obstore.put(self.store, self.name_there, bytes(data))
        except FileNotFoundError as e:
            raise SkybandError("SKY-E630", f"{self} cannot be written: there is no such bucket", hint="create it, or fix the path") from e
        return len(data)

    def write_text(self, data: str) -> int:
        """Write the text as ``write_bytes`` does."""
        return self.write_bytes(data.encode())

    def open(self, mode: Any = "r", *, encoding: str | None = None) -> IO[Any]:
        """Open the object: read it into memory, or (``wb``) write it when the file is closed without an error."""
        if mode == "wb":
            return _Upload(self)
        content = io.BytesIO(self.read_bytes())
        return content if "b" in mode else io.TextIOWrapper(content, encoding or "utf-8")

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object. Raises FileNotFoundError if there is none, unless ``missing_ok``."""
        if not missing_ok:
            self.stat()
        with _store_errors(self):
            obstore.delete(self.store, self.name_there)

    def remove_below(self) -> None:
        """Remove all objects below this directory; markers of empty directories may stay."""
        with _store_errors(self):
            obstore.delete(self.store, [f.name_there for f in self.rglob("*")])

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: directories need not be created."""

    def iterdir(self) -> Generator[ObjectPath, None, None]:
        """Yield the entries of the directory, subdirectories included."""
        if len(self.parts) < 2:
            return
        with _store_errors(self):
            found = obstore.list_with_delimiter(self.store, self.name_there or None)
        root = "//".join(self.parts[:2])
        yield from (ObjectPath(f"{root}/{directory}") for directory in found["common_prefixes"])
        yield from (ObjectPath(f"{root}/{o['path']}") for o in found["objects"] if not _is_marker(o["path"], o["size"], self.name_there))

    def glob(self, pattern: str) -> Generator[ObjectPath, None, None]:
        """Yield the paths that match the pattern, with one listing per directory; ``**`` works like ``*``."""
        first, _, rest = pattern.partition("/")
        for found in self.iterdir():
            if fnmatchcase(found.name, first):
                if rest:
                    yield from found.glob(rest)
                else:
                    yield found

    def rglob(self, pattern: str) -> Generator[ObjectPath, None, None]:
        """Yield the objects below the directory whose names match, without directories."""
        root = "//".join(self.parts[:2])
        with _store_errors(self):
            found = [o for page in obstore.list(self.store, self.name_there or None) for o in page]
        for o in found:
            path = ObjectPath(f"{root}/{o['path']}")
            if o["size"] and fnmatchcase(path.name, pattern):
                yield path


@contextmanager
def _store_errors(path: ObjectPath) -> Iterator[None]:
    """Raise errors of the store as SkybandError SKY-E630; FileNotFoundError passes."""
    try:
        yield
    except BaseError as e:
        said = (str(e).splitlines() or [type(e).__name__])[0][:300]
        hint = "check the bucket, its permissions, the endpoint and the credentials, then run again: committed data is safe"
        raise SkybandError("SKY-E630", f"{path} cannot be reached: {said}", hint=hint) from e


class _Upload(io.BytesIO):
    def __init__(self, target: ObjectPath) -> None:
        super().__init__()
        self._target: ObjectPath | None = target

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            self._target = None
        self.close()

    def close(self) -> None:
        target, self._target = self._target, None
        if target is not None:
            target.write_bytes(self.getbuffer())
        super().close()


def _is_marker(name: str, size: int, directory: str) -> bool:
    """Return True if an object is the marker of the directory itself, as Spark creates one."""
    return size == 0 and name == directory

"""Objects as files: a path on object storage with the part of ``pathlib.Path`` that Skyband uses.

An object is written whole or not at all, is there for everybody when that returns, and has no directory that would have to be made: a
directory is what a name's beginning is. Nothing can be renamed. Needs the extra ``s3``: ``places`` imports it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cache
from pathlib import PosixPath
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


class ObjectPath(PosixPath):
    """``scheme://bucket/name``. Methods of ``Path`` that are not here are not for objects: they find no such file."""

    __slots__ = ()

    def __str__(self) -> str:
        scheme, *rest = self.parts or (".",)
        # What is relative to another path has no scheme.
        return f"{scheme}//{'/'.join(rest)}" if scheme.endswith(":") else "/".join([scheme, *rest])

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is no file of this machine")

    @property
    def name_there(self) -> str:
        """The object's name within its bucket."""
        return "/".join(self.parts[2:])

    @property
    def store(self) -> ObjectStore:
        """The bucket."""
        root = "//".join(self.parts[:2])
        return _store(root, tuple(sorted((store_options(root) or {}).items())))

    @property
    def parents(self) -> Sequence[ObjectPath]:
        """The directories above, up to the bucket."""
        return [ObjectPath(f"{'//'.join(self.parts[:2])}/{'/'.join(self.parts[2:n])}") for n in range(len(self.parts) - 1, 1, -1)]

    def absolute(self) -> ObjectPath:
        """Itself."""
        return self

    def resolve(self, strict: bool = False) -> ObjectPath:
        """Itself: there are no links."""
        return self

    def exists(self, **_: Any) -> bool:
        """Whether there is such an object, or a directory of that name."""
        return self.is_file() or self.is_dir()

    def is_file(self) -> bool:
        """Whether there is such an object."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self) -> bool:
        """Whether objects' names begin with this one."""
        return next(self.iterdir(), None) is not None

    def is_symlink(self) -> bool:
        """Never."""
        return False

    def stat(self, **_: Any) -> os.stat_result:
        """Size and time of modification. Raises FileNotFoundError."""
        if len(self.parts) < 3:
            raise FileNotFoundError(str(self))
        with _told(self):
            found = obstore.head(self.store, self.name_there)
        at = found["last_modified"].timestamp()
        return os.stat_result((0o100600, 0, 0, 1, 0, 0, found["size"], at, at, at))

    def read_bytes(self) -> bytes:
        """The object. Raises FileNotFoundError."""
        with _told(self):
            return bytes(obstore.get(self.store, self.name_there).bytes())

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        """The object as text. Raises FileNotFoundError."""
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def write_bytes(self, data: Any) -> int:
        """Puts the object, in the place of the one that is there."""
        try:
            with _told(self):
                obstore.put(self.store, self.name_there, bytes(data))
        except FileNotFoundError as e:
            raise SkybandError("SKY-E630", f"{self} cannot be written: there is no such bucket", hint="make it, or mend the path") from e
        return len(data)

    def write_text(self, data: str, *_: Any, **__: Any) -> int:
        """As ``write_bytes``."""
        return self.write_bytes(data.encode())

    def open(self, mode: str = "r", *_: Any, **__: Any) -> IO[Any]:  # type: ignore[override]
        """For reading, held in memory; or (``wb``) for writing: the object is put when the file is closed, not if an error is raised."""
        if mode == "wb":
            return _Upload(self)
        held = io.BytesIO(self.read_bytes())
        return held if "b" in mode else io.TextIOWrapper(held, "utf-8")

    def unlink(self, missing_ok: bool = False) -> None:
        """Removes the object. Raises FileNotFoundError if there is none, unless ``missing_ok``."""
        if not missing_ok:
            self.stat()
        with _told(self):
            obstore.delete(self.store, self.name_there)

    def remove_below(self) -> None:
        """Removes all objects whose names begin with this one, as a directory's; what stands for empty directories may stay."""
        with _told(self):
            obstore.delete(self.store, [f.name_there for f in self.rglob("*")])

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing has to be made."""

    def iterdir(self) -> Generator[ObjectPath, None, None]:
        """What lies in the directory, directories among it."""
        if len(self.parts) < 2:
            return
        with _told(self):
            found = obstore.list_with_delimiter(self.store, self.name_there or None)
        root = "//".join(self.parts[:2])
        yield from (ObjectPath(f"{root}/{directory}") for directory in found["common_prefixes"])
        yield from (ObjectPath(f"{root}/{o['path']}") for o in found["objects"] if not _is_marker(o["path"], o["size"], self.name_there))

    def glob(self, pattern: str) -> Generator[ObjectPath, None, None]:  # type: ignore[override, unused-ignore]
        """What fits the pattern, a listing for every directory that is looked into; ``**`` means no more than ``*`` does."""
        first, _, rest = pattern.partition("/")
        for found in self.iterdir():
            if fnmatchcase(found.name, first):
                if rest:
                    yield from found.glob(rest)
                else:
                    yield found

    def rglob(self, pattern: str) -> Generator[ObjectPath, None, None]:  # type: ignore[override, unused-ignore]
        """The objects below the directory whose names match; no directories."""
        root = "//".join(self.parts[:2])
        with _told(self):
            found = [o for page in obstore.list(self.store, self.name_there or None) for o in page]
        for o in found:
            path = ObjectPath(f"{root}/{o['path']}")
            if o["size"] and fnmatchcase(path.name, pattern):
                yield path


@contextmanager
def _told(path: ObjectPath) -> Iterator[None]:
    """What the store says as SkybandError SKY-E630, but FileNotFoundError as it is."""
    try:
        yield
    except BaseError as e:
        said = (str(e).splitlines() or [type(e).__name__])[0][:300]
        hint = "see the bucket, its rights, the endpoint and the credentials, then run again: nothing that was committed is lost"
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
    """Whether an object stands for the directory itself, as Spark makes one."""
    return size == 0 and name == directory

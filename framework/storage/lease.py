"""The lock of a sink on object storage: an object that its holder renews every few seconds, by conditional writes.

Another run takes over a lock that was not renewed for a whole lease. Every holder has an *epoch*, greater than all before. Commits carry
the epoch (``tables.fence``), so that a holder that was paused for longer than its lease cannot commit afterwards.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time as clock
import uuid
from collections.abc import Callable
from typing import Any, Final

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.extras import extra
from skyband.framework.settings.spark import seconds
from skyband.framework.storage.epochs import DEFAULT_LEASE, EPOCHS, LEASE_VARIABLE
from skyband.framework.storage.location import Location
from skyband.framework.storage.paths import ObjectPath

with extra("s3", "object storage"):
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

_BEATS: Final = 6
"""Number of renewals per lease."""
_SKEW: Final = 300.0
"""Maximum clock difference to the store in seconds: a lock older than its lease and this is free at once."""


class Lease:
    """The lock of the sink at ``root``. Another thread calls ``on_lost`` when another run has taken it over."""

    def __init__(self, root: str | Location, on_lost: Callable[[], object] = lambda: None) -> None:
        self.root = str(root)
        self.path = ObjectPath(str(self.root)) / "_skyband" / "lock"
        self.seconds = max(0.5, seconds(LEASE_VARIABLE, DEFAULT_LEASE))
        self.epoch = 0
        self.lost = False
        self.after_crash = False
        """True if the previous holder did not release the lock; it may still exist, paused."""
        self._me = f"{socket.gethostname()} {os.getpid()} {uuid.uuid4().hex}"
        self._on_lost = on_lost
        self._tag: str | None = None
        self._beat = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="skyband-lease", daemon=True)

    def take(self, notice: Callable[[str], object] = lambda _: None) -> None:
        """Acquire the lock. Raises SkybandError SKY-E302 if another run has it; SKY-E630 if the store cannot be used for it."""
        said, tag = self._read()
        since, noticed = clock.monotonic(), False
        while not self._won(said, tag, clock.monotonic() - since):
            if not noticed:
                notice(f"another run has not released this sink{_whose(said)}: waiting up to {self.seconds:g} s to see if it is alive")
                noticed = True
            clock.sleep(self.seconds / _BEATS / 2)
            before = tag
            said, tag = self._read()
            if tag != before and said and not said.get("free"):
                raise SkybandError("SKY-E302", f"another run is writing to this sink{_whose(said)}", hint="wait for it to end, or stop it")
        EPOCHS[self.root] = self.epoch
        self._thread.start()

    def give_back(self) -> None:
        """Release the lock if this process still holds it."""
        self._ended.set()
        self._thread.join(self.seconds)
        EPOCHS.pop(self.root, None)
        if not self.lost:
            self._put({**self._content(), "free": True}, self._tag)

    def _won(self, said: dict[str, Any] | None, tag: str | None, unchanged: float) -> bool:
        """Try to acquire the lock; return True on success."""
        free = said is None or bool(said.get("free"))
        if not free and unchanged < self.seconds and self._age() < self.seconds + _SKEW:
            return False
        self.epoch = int((said or {}).get("epoch", 0)) + 1
        self.after_crash = not free
        return self._put(self._content(), tag)

    def _content(self) -> dict[str, Any]:
        self._beat += 1
        return {"epoch": self.epoch, "holder": self._me, "beat": self._beat}

    def _keep(self) -> None:
        since = _now()
        while not self._ended.wait(self.seconds / _BEATS):
            try:
                ours = self._put(self._content(), self._tag)
            except SkybandError:
                # The store does not answer: the lock is ours until the lease ends, then unknown.
                ours = _now() - since < self.seconds
            else:
                since = _now() if ours else since
            if not ours:
                self.lost = True
                self._on_lost()
                return

    def _put(self, content: dict[str, Any], tag: str | None) -> bool:
        """Write the lock if it is unchanged since ``tag``; return True on success."""
        try:
            mode: Any = "create" if tag is None else {"e_tag": tag}
            self._tag = obstore.put(self.path.store, self.path.name_there, json.dumps(content).encode(), mode=mode)["e_tag"]
        except FileNotFoundError as e:
            if tag is None:
                raise _unusable(self.path, e) from e
            return False
        except (AlreadyExistsError, PreconditionError):
            # A retried request may have succeeded the first time.
            said, self._tag = self._read()
            return said == content
        except (BaseError, OSError) as e:
            raise _unusable(self.path, e) from e
        return True

    def _read(self) -> tuple[dict[str, Any] | None, str | None]:
        try:
            found = obstore.get(self.path.store, self.path.name_there)
            said = json.loads(bytes(found.bytes()))
            return (said if isinstance(said, dict) else {}), found.meta["e_tag"]
        except FileNotFoundError:
            return None, None
        except ValueError:
            return {}, found.meta["e_tag"]
        except (BaseError, OSError) as e:
            raise _unusable(self.path, e) from e

    def _age(self) -> float:
        try:
            return clock.time() - self.path.stat().st_mtime
        except OSError:
            return 0.0


def _now() -> float:
    """Return a clock that also runs while the machine is suspended."""
    return clock.clock_gettime(clock.CLOCK_BOOTTIME)


def _whose(said: dict[str, Any] | None) -> str:
    """Return `` (process 123 on host)`` if the lock names its holder."""
    host, _, rest = str((said or {}).get("holder", "")).partition(" ")
    pid = rest.partition(" ")[0]
    return f" (process {pid} on {host})" if pid.isdigit() and host.isprintable() else ""


def _unusable(path: ObjectPath, e: Exception) -> SkybandError:
    said = str(e).splitlines()[0][:300] if str(e) else type(e).__name__
    hint = "check the bucket, its permissions, the endpoint and the credentials"
    return SkybandError("SKY-E630", f"the sink's lock {path} cannot be read or written: {said}", hint=hint)

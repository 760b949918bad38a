"""A bucket that a worker keeps between batches, with its values in the state store. Does not import Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.bucket.hand_off import Handed
from skyband.framework.streaming.bucket.operator_host import CHUNK, SEEN
from skyband.framework.streaming.bucket.state_values import StateValues
from skyband.framework.streaming.rows.config import HostConfig

_ONCE = (f"{CHUNK}/", f"{SEEN}/")


@dataclass(slots=True)
class HeldBucket:
    """``handed``: for a worker that takes it over. ``stored``: the values of the store that are saved more than once, by name."""

    bucket: Bucket
    handed: Handed
    stored: dict[str, bytes]

    @classmethod
    def new(cls, config: HostConfig, number: int, directory: Path | None) -> HeldBucket:
        """One without a state."""
        return cls(Bucket(config, number), Handed.new(directory), {})

    @classmethod
    def filled(
        cls, config: HostConfig, number: int, state: Mapping[str, bytes], values: StateValues, directory: Path | None
    ) -> HeldBucket:  # fmt: skip
        """The bucket of ``state``, which is written into the store."""
        for name, value in state.items():
            values.write(name, value)
        return cls._known(Bucket.restore(config, number, state.get), state, directory)

    @classmethod
    def read(cls, config: HostConfig, number: int, token: str, values: StateValues, directory: Path | None) -> HeldBucket:
        """Return the bucket that was saved with ``token``: from another worker's hand-off files, else from the state store."""
        taken = Handed.taken(directory, token)
        if taken is not None:
            handed, state = taken
            return cls(Bucket.restore(config, number, state.get), handed, _repeated(state))
        found: dict[str, bytes] = {}

        def noted(name: str) -> bytes | None:
            value = values.read(name)
            if value is not None:
                found[name] = value
            return value

        return cls._known(Bucket.restore(config, number, noted), found, directory)

    @classmethod
    def _known(cls, bucket: Bucket, state: Mapping[str, bytes], directory: Path | None) -> HeldBucket:
        handed = Handed.new(directory)
        for name, value in state.items():
            handed.put(name, value)
        return cls(bucket, handed, _repeated(state))

    def save(self, values: StateValues) -> None:
        """Write the changes to the state store."""
        new, dropped = self.bucket.save()
        for name, value in new.items():
            before = self.stored.get(name)
            if before != value:
                values.write(name, value, None if before is None else len(before))
                self.handed.put(name, value)
        for name in dropped:
            values.drop(name)
            self.handed.drop(name)
        self.stored |= _repeated(new)


def _repeated(values: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: value for name, value in values.items() if not name.startswith(_ONCE)}

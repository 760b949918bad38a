"""A bucket that a worker keeps between batches, with its values in the state store. Does not import Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skyband.framework.streaming.bucket.bucket import Bucket
from skyband.framework.streaming.bucket.hand_off import HandOff
from skyband.framework.streaming.bucket.state_names import written_once
from skyband.framework.streaming.bucket.state_values import StateValues
from skyband.framework.streaming.rows.config import HostConfig


@dataclass(slots=True)
class KeptBucket:
    """``hand_off``: its files for another worker. ``stored``: the stored values that are written more than once, by name."""

    bucket: Bucket
    hand_off: HandOff
    stored: dict[str, bytes]

    @classmethod
    def new(cls, config: HostConfig, number: int, directory: Path | None) -> KeptBucket:
        """Return a bucket without state."""
        return cls(Bucket(config, number), HandOff.new(directory), {})

    @classmethod
    def filled(
        cls, config: HostConfig, number: int, state: Mapping[str, bytes], values: StateValues, directory: Path | None
    ) -> KeptBucket:  # fmt: skip
        """Write ``state`` to the state store, and return its bucket."""
        for name, value in state.items():
            values.write(name, value)
        return cls._known(Bucket.restore(config, number, state.get), state, directory)

    @classmethod
    def read(cls, config: HostConfig, number: int, token: str, values: StateValues, directory: Path | None) -> KeptBucket:
        """Return the bucket that was saved with ``token``: from another worker's hand-off files, else from the state store."""
        handed_off = HandOff.read(directory, token)
        if handed_off is not None:
            hand_off, state = handed_off
            return cls(Bucket.restore(config, number, state.get), hand_off, _repeated(state))
        found: dict[str, bytes] = {}

        def noted(name: str) -> bytes | None:
            value = values.read(name)
            if value is not None:
                found[name] = value
            return value

        return cls._known(Bucket.restore(config, number, noted), found, directory)

    @classmethod
    def _known(cls, bucket: Bucket, state: Mapping[str, bytes], directory: Path | None) -> KeptBucket:
        hand_off = HandOff.new(directory)
        for name, value in state.items():
            hand_off.put(name, value)
        return cls(bucket, hand_off, _repeated(state))

    def save(self, values: StateValues) -> None:
        """Write the changes to the state store."""
        new, dropped = self.bucket.save()
        for name, value in new.items():
            before = self.stored.get(name)
            if before != value:
                values.write(name, value, None if before is None else len(before))
                self.hand_off.put(name, value)
        for name in dropped:
            values.drop(name)
            self.hand_off.drop(name)
        self.stored |= _repeated(new)


def _repeated(values: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: value for name, value in values.items() if not written_once(name)}

"""The metadata columns of Kafka records, and the offsets that a job has taken. Imports no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from skyband.framework.base.plain_json import mapping, whole
from skyband.framework.sources.logs import last_batch, unusable
from skyband.framework.storage.location import Location

META: Final[Mapping[str, str]] = {"$key": "string", "$topic": "string", "$partition": "int", "$offset": "bigint", "$timestamp": "timestamp"}
"""Metadata that ``from`` may name -> its type."""
OF_KEY: Final = "$key."
"""Prefix of the name of a field of a JSON key."""

Offsets = dict[str, dict[str, int]]
"""Topic -> partition -> the offset of the first record, or the one after the last."""


def taken(checkpoint: Location) -> tuple[Offsets, Offsets]:
    """Return (the offsets at which the job's first batch began, those at which its last one ended); ({}, {}) before the first batch.

    Raises SkybandError SKY-E303 if the checkpoint cannot be read.
    """
    batch = last_batch(checkpoint / "commits")
    if batch < 0:
        return {}, {}
    try:
        began = _offsets((checkpoint / "sources" / "0" / "0").read_text().lstrip("\0").splitlines()[-1])
        ended = _offsets((checkpoint / "offsets" / str(batch)).read_text().splitlines()[2])
    except (OSError, ValueError, IndexError, AttributeError) as e:
        raise unusable(checkpoint, "the offsets of the source cannot be read") from e
    # A partition that came later counts from its beginning.
    return {topic: {p: began.get(topic, {}).get(p, 0) for p in ends} for topic, ends in ended.items()}, ended


def _offsets(text: str) -> Offsets:
    return {topic: {partition: whole(n) for partition, n in ends.items()} for topic, ends in mapping(text).items()}

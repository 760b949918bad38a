"""What share of a job's tables has been proven, kind by kind: all of it (a proof), or a sample."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

KINDS: Final = {
    "changes": ("changes replayed", "changes"),
    "batches": ("row counts reconciled", "batches"),
    "rows": ("ids, instants, carried columns and causes of changes compared with the source", "changes"),
    "scores": ("scores of changes recomputed from the source", "changes"),
    "results": ("results recomputed from the source", "events"),
    "steps": ("steps recomputed from the source, event by event", "steps"),
}
"""Every kind of proof: what is done, and what is counted. An event is an accepted row, for one query."""


@dataclass(frozen=True, slots=True)
class Share:
    """Of ``total`` things of a kind, ``proven`` have been compared; ``query``: whose, None for those of the whole job."""

    kind: str
    query: str | None
    proven: int
    total: int

    @property
    def complete(self) -> bool:
        """Whether it is a proof, not a sample."""
        return self.proven == self.total

    def plain(self) -> dict[str, Any]:
        """Its fields for programs; ``share``: from 0 to 1."""
        share = 1.0 if self.complete else self.proven / self.total
        return {
            "kind": self.kind, "query": self.query, "proven": self.proven, "of": self.total, "share": round(share, 6),
            "complete": self.complete,
        }  # fmt: skip

    def text(self, differs: bool = False) -> str:
        """One line, such as ``sample: results recomputed from the source: 37 of 4,600 events (0.8 %)``.

        ``differs``: something that was compared is different, so nothing is a proof.
        """
        done, things = KINDS[self.kind]
        extent = "sample" if not self.complete else "complete" if differs else "proof"
        return f"{extent}: {done}: {self.counted(things)}"

    def counted(self, things: str) -> str:
        """Such as ``all 12 changes`` or ``37 of 4,600 events (0.8 %)``."""
        if self.complete:
            return f"all {self.total:,} {things}" if self.total != 1 else number(1, things)
        return f"{self.proven:,} of {number(self.total, things)} ({_percent(self.proven, self.total)})"


def number(count: int, things: str) -> str:
    """Such as ``1 step`` or ``1,234 steps``."""
    one = things.removesuffix("es") if things == "batches" else things.removesuffix("s")
    return f"{count:,} {things if count != 1 else one}"


def _percent(part: int, whole: int) -> str:
    share = 100 * part / whole
    # What is not all of it is not shown as 100 %, nor something as nothing.
    share = min(share, 99.9) if part < whole else share
    return f"{share:.1f} %" if share >= 0.1 or not part else "below 0.1 %"


def together(shares: Iterable[Share]) -> list[Share]:
    """The shares of all queries added up, by kind, in the order of ``KINDS``."""
    sums: dict[str, tuple[int, int]] = {}
    for s in shares:
        proven, total = sums.get(s.kind, (0, 0))
        sums[s.kind] = proven + s.proven, total + s.total
    return [Share(kind, None, *sums[kind]) for kind in KINDS if kind in sums]


def summary(shares: Iterable[Share]) -> str:
    """What the last line says: such as ``all 12,345 changes replayed; the results at 37 of 4,600 events recomputed ...``."""
    found = {s.kind: s for s in together(shares)}
    said = []
    if "changes" in found:
        said.append(f"{found['changes'].counted('changes')} replayed")
    if "scores" in found and found["scores"].total:
        said.append(f"the scores of {found['scores'].counted('changes')} and")
    if "results" in found:
        said.append(f"the results at {found['results'].counted('events')} recomputed from the source")
    return "; ".join(said).replace(" and; ", " and ")

"""The share of a job's tables that has been verified, by kind of proof: all of it (a proof), or a sample."""

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
"""By kind of proof: what is done, and the unit counted. An event is an accepted row, for one query; or a row of the result it takes."""
_TAKEN: Final = "the results that queries take"
"""What queries over results are recomputed from, in place of the source."""


@dataclass(frozen=True, slots=True)
class Share:
    """``proven`` of ``total`` units of a kind have been compared. ``query``: None for the whole job.

    ``taken``: the query whose result has been taken in place of the source; "" for those of several.
    """

    kind: str
    query: str | None
    proven: int
    total: int
    taken: str | None = None

    @property
    def complete(self) -> bool:
        """True for a proof, False for a sample."""
        return self.proven == self.total

    def plain(self) -> dict[str, Any]:
        """Return the fields for JSON; ``share`` is from 0 to 1."""
        share = 1.0 if self.complete else self.proven / self.total
        return {
            "kind": self.kind, "query": self.query, "proven": self.proven, "of": self.total, "share": round(share, 6),
            "complete": self.complete, "taken": self.taken,
        }  # fmt: skip

    def text(self, differs: bool = False) -> str:
        """Return one line, such as ``sample: results recomputed from the source: 37 of 4,600 events (0.8 %)``.

        ``differs``: a difference was found, so nothing is called a proof.
        """
        done, things = KINDS[self.kind]
        done = done if self.taken is None else done.replace("the source", self.taken or _TAKEN)
        extent = "sample" if not self.complete else "complete" if differs else "proof"
        return f"{extent}: {done}: {self.counted(things)}"

    def counted(self, things: str) -> str:
        """Return text such as ``all 12 changes`` or ``37 of 4,600 events (0.8 %)``."""
        if self.complete:
            return f"all {self.total:,} {things}" if self.total != 1 else number(1, things)
        return f"{self.proven:,} of {number(self.total, things)} ({_percent(self.proven, self.total)})"


def number(count: int, things: str) -> str:
    """Return text such as ``1 step`` or ``1,234 steps``."""
    one = things.removesuffix("es") if things == "batches" else things.removesuffix("s")
    return f"{count:,} {things if count != 1 else one}"


def _percent(part: int, total: int) -> str:
    share = 100 * part / total
    # Never print an incomplete share as 100 %, nor a share above 0 as 0 %.
    share = min(share, 99.9) if part < total else share
    return f"{share:.1f} %" if share >= 0.1 or not part else "below 0.1 %"


def total_by_kind(shares: Iterable[Share]) -> list[Share]:
    """Return the shares of all queries added up by kind, in the order of ``KINDS``; those of queries over results by themselves."""
    sums: dict[tuple[str, bool], tuple[int, int]] = {}
    for s in shares:
        which = s.kind, s.taken is not None
        proven, total = sums.get(which, (0, 0))
        sums[which] = proven + s.proven, total + s.total
    found = [(kind, taken) for taken in (False, True) for kind in KINDS if (kind, taken) in sums]
    return [Share(kind, None, *sums[kind, taken], "" if taken else None) for kind, taken in found]


def summary(shares: Iterable[Share]) -> str:
    """Return the summary for the last line, such as ``all 12,345 changes replayed; the results at 37 of 4,600 events recomputed ...``."""
    totals = total_by_kind(shares)
    found, over_results = ({s.kind: s for s in totals if (s.taken is not None) == taken} for taken in (False, True))
    said = []
    if "changes" in found:
        said.append(f"{found['changes'].counted('changes')} replayed")
    if "scores" in found and found["scores"].total:
        said.append(f"the scores of {found['scores'].counted('changes')} and")
    if "results" in found:
        said.append(f"the results at {found['results'].counted('events')} recomputed from the source")
    text = "; ".join(said).replace(" and; ", " and ")
    if "results" in over_results:
        text += f"; those of queries over results at {over_results['results'].counted('events')}, from {_TAKEN}"
    return text

"""The share of a job's tables that has been verified, by kind of proof: all of it (a proof), or a sample."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

KINDS: Final = {
    "changes": ("changes replayed", "changes"),
    "batches": ("row counts reconciled", "batches"),
    "rows": ("ids, instants and carried columns of changes compared with the source, their causes checked", "changes"),
    "scores": ("scores of changes recomputed from the source", "changes"),
    "results": ("results recomputed from the source", "events"),
    "steps": ("steps recomputed from the source, event by event", "steps"),
    "points": ("points of trajectories recomputed from the source", "points"),
    "finals": ("final results recomputed from the source", "windows"),
}
"""By kind of proof: what is done, and the unit counted. An event is an accepted row, for one query; or a row of the result it takes."""
_TAKEN: Final = "the results that queries take"
"""What queries over results are recomputed from, in place of the source."""


@dataclass(frozen=True, slots=True)
class Share:
    """``proven`` of ``total`` units of a kind have been compared. ``query``: None for the whole job.

    ``query``: of a sum the names of its queries, None for all. ``taken``: the query whose result has been taken in place of the source; ""
    for those of several.
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
        of = f" of {self.query}" if self.query is not None else ""
        return f"{extent}: {done}: {self.counted(things)}{of}"

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
    """Return the shares of queries added up by kind, in the order of ``KINDS``: proofs, then samples; over results by themselves.

    A sum names its queries, unless it has all that queries over the source, or over results, have.
    """
    shares = [s for s in shares if s.total]
    over_results: set[str | None] = {s.query for s in shares if s.taken is not None}
    names: set[str | None] = {s.query for s in shares if s.query is not None}
    names_of = {False: names - over_results, True: over_results}
    found = []
    for taken in (False, True):
        for kind in KINDS:
            for complete in (True, False):
                mine = [s for s in shares if s.kind == kind and (s.taken is not None) == taken and s.complete == complete]
                if not mine:
                    continue
                queries = [s.query for s in mine if s.query is not None]
                whole = names_of[False] | over_results if kind == "changes" else names_of[taken]
                of = None if not queries or set(queries) >= whole else ", ".join(queries)
                found.append(Share(kind, of, sum(s.proven for s in mine), sum(s.total for s in mine), "" if taken else None))
    return found


def summary(shares: Iterable[Share], differs: bool = False) -> str:
    """Return the summary for the last line: what has been proven, and what is a sample, query by query. ``differs``: as ``Share.text``."""
    shares = [s for s in shares if s.total]
    replayed = [s for s in shares if s.kind == "changes"]
    said = []
    if replayed:
        said.append(
            f"{Share('changes', None, sum(s.proven for s in replayed), sum(s.total for s in replayed)).counted('changes')} replayed"
        )
    for taken, source in ((False, "the source"), (True, _TAKEN)):
        mine = [s for s in shares if s.kind == "results" and (s.taken is not None) == taken]
        proofs = [str(s.query) for s in mine if s.complete]
        if proofs:
            said.append(f"{'complete' if differs else 'proof'}, every result recomputed from {source}: {', '.join(proofs)}")
        samples = [_sampled(s, shares, differs) for s in mine if not s.complete]
        if samples:
            said.append(f"sample of results recomputed from {source}: {', '.join(samples)}")
    return "; ".join(said)


def _sampled(share: Share, shares: Iterable[Share], differs: bool) -> str:
    """Return how much of a query's results has been compared, and what of it is a proof nevertheless."""
    proven = [s.kind for s in shares if s.query == share.query and s.kind == "scores" and s.complete]
    also = f", scores of all changes {'compared' if differs else 'proven'}" if proven else ""
    return f"{share.query} ({_percent(share.proven, share.total)} of {number(share.total, 'events')}{also})"

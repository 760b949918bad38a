"""The sizes that a cap on the pairs of an object implies. Loads no compiler, as ``skyband explain`` reads them too."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """When a pair p can be in no result, now or later (docs/algorithms Theorem D).

    B(p) is what ranks before p and ends no earlier. All int64.
    """

    cap: int
    """c, the pairs of a result that an object may be in."""
    of_object: int
    """D: so many pairs of B(p) with an object of p are enough."""
    chosen: int
    """M: so many pairs of B(p) are enough, no object being in more than ``each`` of them."""
    each: int
    """At least 1."""


def limits_of(cap: int, k: int) -> Limits:
    """Return the limits for results of at most ``k`` pairs with no object in more than ``cap`` (1 to ``k``) of them.

    The proof is in docs/algorithms Theorem D. With ``cap`` = k both bounds are k, as without one.
    """
    return Limits(cap=cap, of_object=cap - 1 + (2 * k - 1) // cap, chosen=2 * k - 1 if cap == 1 else k, each=max(1, cap // 2))

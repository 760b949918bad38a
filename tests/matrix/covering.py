"""Choose few combinations of options such that every pair of options that go together is in one of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

Options = dict[str, str]
"""One level by factor."""
Pair = tuple[tuple[str, str], tuple[str, str]]
"""Two levels of different factors: ((factor, level), (factor, level)), in the order of the factors."""


def pairs_of(options: Mapping[str, str]) -> set[Pair]:
    """Return all pairs of levels of one combination."""
    return set(combinations(options.items(), 2))


class Covering:
    """Covers all pairs of ``factors`` that ``allowed`` does not exclude.

    ``allowed`` judges part of a combination as well: True unless the levels given so far exclude each other. Factors that exclude others
    should come first. ``weights``: how often to prefer a level where several cover as many pairs; 1 for those that are not named.
    """

    def __init__(
        self, factors: Mapping[str, Sequence[str]], allowed: Callable[[Mapping[str, str]], bool], weights: Mapping[str, float]
    ) -> None:
        self.factors, self.allowed, self.weights = factors, allowed, weights
        self.rng = random.Random(1)
        self.places = {f: i for i, f in enumerate(factors)}
        self.possible, self.excluded = set[Pair](), set[Pair]()
        names = list(factors)
        for f, g in combinations(names, 2):
            for a in factors[f]:
                for b in factors[g]:
                    pair = ((f, a), (g, b))
                    (self.possible if self._completed({f: a, g: b}, set()) is not None else self.excluded).add(pair)

    def rows(self) -> list[Options]:
        """Return the combinations, those with the most new pairs first."""
        left, found = set(self.possible), list[Options]()
        while left:
            best: tuple[int, Options] | None = None
            listed = sorted(left)
            for _ in range(4):
                (f, a), (g, b) = self.rng.choice(listed)
                made = self._completed({f: a, g: b}, left)
                assert made is not None
                new = len(pairs_of(made) & left)
                if best is None or new > best[0]:
                    best = new, made
            assert best is not None
            found.append(best[1])
            left -= pairs_of(best[1])
        return found

    def another(self, rng: random.Random) -> Options:
        """Return a random combination."""
        while True:
            made = {f: rng.choice(levels) for f, levels in self.factors.items()}
            if self.allowed(made):
                return made

    def _completed(self, given: Options, left: set[Pair]) -> Options | None:
        """Return a combination with the levels ``given`` that covers many pairs of ``left``; None if there is none."""
        if not self.allowed(given):
            return None
        rest = [f for f in self.factors if f not in given]
        made = self._extended(dict(given), rest, left)
        return None if made is None else {f: made[f] for f in self.factors}

    def _extended(self, made: Options, rest: Sequence[str], left: set[Pair]) -> Options | None:
        if not rest:
            return made
        factor, *others = rest
        for level in self._in_turn(factor, made, left):
            wider = {**made, factor: level}
            if self.allowed(wider) and (complete := self._extended(wider, others, left)) is not None:
                return complete
        return None

    def _in_turn(self, factor: str, made: Options, left: set[Pair]) -> Iterable[str]:
        if not left:
            return self.factors[factor]
        place, mine = self.places[factor], [(g, b, self.places[g]) for g, b in made.items()]

        def gain(level: str) -> float:
            me = (factor, level)
            new = sum((((g, b), me) if at < place else (me, (g, b))) in left for g, b, at in mine)
            return new + self.rng.random() * self.weights.get(level, 1)

        return sorted(self.factors[factor], key=gain, reverse=True)

"""Baselines of processors: kernels compiled for one run on every processor that has its features.

The names are those of LLVM and of the x86-64 psABI; every aarch64 processor runs code for the one that LLVM calls ``generic``. A bundle of
kernels is compiled for the baselines of the host (``framework/environment/bundle.py``), with the variables of ``environment``;
``kernel_cache`` looks for its kernels under the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

FEATURES: Final = ""
"""``NUMBA_CPU_FEATURES`` of a build for a baseline: its name implies its features, and no others are used."""


class Baseline(NamedTuple):
    """A level of processors: its name, and the features that a processor must have, as LLVM calls them."""

    name: str
    features: frozenset[str]

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables with which Numba compiles for it."""
        return {"NUMBA_CPU_NAME": self.name, "NUMBA_CPU_FEATURES": FEATURES}


_V2: Final = frozenset({"cx16", "sahf", "popcnt", "crc32", "sse3", "sse4.1", "sse4.2", "ssse3"})
_V3: Final = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}

_AARCH64: Final = frozenset({"fp-armv8", "neon"})

BASELINES: Final = (Baseline("x86-64-v3", _V3), Baseline("generic", _AARCH64))
"""The baselines that kernels are bundled for, of each kind of processors the best one first."""


def usable(features: Mapping[str, bool] | None = None) -> tuple[Baseline, ...]:
    """Return the baselines whose code a processor with ``features`` can run, the best one first (default: this processor).

    Features of one kind of processors are unknown to the others, so they have none of its baselines.
    """
    if features is None:
        features = _of_this_processor()
    has = {name for name, present in features.items() if present}
    return tuple(baseline for baseline in BASELINES if baseline.features <= has)


def _of_this_processor() -> Mapping[str, bool]:
    import llvmlite.binding

    try:
        return dict(llvmlite.binding.get_host_cpu_features())
    except RuntimeError:  # LLVM does not know how to ask this processor
        return {}

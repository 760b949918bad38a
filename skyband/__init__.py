"""Continuous queries over sliding windows on Spark. The public names are those of docs/reference/python.md."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband.framework.base.errors import SkybandError, SpecErrors
    from skyband.jobs.job import Job, RunResult, load, validate

__version__ = "0.1.0"

__all__ = ["Job", "RunResult", "SkybandError", "SpecErrors", "__version__", "load", "validate"]


def __getattr__(name: str) -> Any:
    # Every import of a part of Skyband passes here: what that part does not need is not loaded with it.
    if name in ("SkybandError", "SpecErrors"):
        from skyband.framework.base import errors

        return getattr(errors, name)
    if name in __all__:
        from skyband.jobs import job

        return getattr(job, name)
    raise AttributeError(f"module 'skyband' has no attribute {name!r}")


def __dir__() -> list[str]:
    # Names that are loaded on first use are in no namespace yet.
    return sorted(__all__)

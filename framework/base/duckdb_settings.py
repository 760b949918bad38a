"""Settings of DuckDB that confine statements: no files, no network, no extensions, no variables of Python."""

from __future__ import annotations

from typing import Final

LOCKED: Final[dict[str, str | bool | int | float | list[str]]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}
"""They are set before the first statement, and locked."""

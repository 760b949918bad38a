"""Read ``skyband.toml``: the user's Spark settings, with profiles. Standard library only.

It is the file that ``SKYBAND_CONFIG`` names, else the one in the working directory; never one beside a spec, whose author must not decide
how Spark is started (docs/explanation/security.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from skyband.framework.base.errors import SkybandError, Where, did_you_mean, one_of
from skyband.framework.settings.fixed import fixed_reason
from skyband.framework.settings.toml_file import line_of, parse, read_text

CONFIG: Final = "SKYBAND_CONFIG"
"""The environment variable that names the file; empty: use no file."""
NAME: Final = "skyband.toml"
_KEYS: Final = ("master", "conf")

Settings = tuple[str | None, dict[str, str]]
"""The master, if the file names one, and Spark settings."""


def read(env: Mapping[str, str], profile: str | None) -> Settings:
    """Return the file's settings, with those of ``profile`` over the others; (None, {}) if there is no file.

    Raise SkybandError SKY-E610 for a file that cannot be used, SKY-E611 for a setting that may not be changed, both with the line.
    """
    path = _path(env)
    if path is None:
        return None, {}
    untrusted = None if CONFIG in env else f"it could start any program; if you trust it, name it by {CONFIG}"
    text = read_text(path, "SKY-E610", f"{CONFIG} names the file of Spark settings", untrusted)
    whole = parse(path, text, "SKY-E610")
    return _File(path, text).settings(whole, profile)


def _path(env: Mapping[str, str]) -> Path | None:
    if CONFIG in env:
        return Path(env[CONFIG]).absolute() if env[CONFIG] else None
    here = Path(NAME).absolute()
    return here if os.path.lexists(here) else None


class _File:
    """A parsed TOML file; checks its parts and returns their settings."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.text = text

    def settings(self, whole: dict[str, Any], profile: str | None) -> Settings:
        """Return the settings, with those of ``profile`` over the others. Check all parts, including unused profiles."""
        self._only(whole, ("engine", "profile"), ())
        master, conf = self._engine(whole, ())
        profiles = self._table(whole, "profile", ())
        for name in profiles:
            place = ("profile", name)
            self._only(self._table(profiles, name, place[:1]), ("engine",), place)
            own, more = self._engine(profiles[name], place)
            if name == profile:
                master, conf = own or master, conf | more
        return master, conf

    def _engine(self, of: dict[str, Any], place: tuple[str, ...]) -> Settings:
        engine = self._table(of, "engine", place)
        place = (*place, "engine")
        self._only(engine, _KEYS, place)
        master = engine.get("master")
        if not isinstance(master, (str, type(None))):
            raise self._wrong("SKY-E610", 'master is a text, such as "spark://host:7077"', (*place, "master"))
        return master, dict(self._conf(self._table(engine, "conf", place), (*place, "conf"), ""))

    def _conf(self, table: dict[str, Any], place: tuple[str, ...], prefix: str) -> Iterator[tuple[str, str]]:
        """Yield settings by their full names, whether these are quoted keys or nested tables of TOML."""
        for key, value in table.items():
            name, at = prefix + key, (*place, key)
            if isinstance(value, dict):
                yield from self._conf(value, at, f"{name}.")
                continue
            if not isinstance(value, (str, int, float)):
                raise self._wrong("SKY-E610", f"{name} takes a text, a number, true or false", at)
            if wrong := setting_problem(name):
                raise self._wrong("SKY-E611", wrong, at)
            yield name, str(value).lower() if isinstance(value, bool) else str(value)

    def _table(self, of: dict[str, Any], name: str, place: tuple[str, ...]) -> dict[str, Any]:
        found = of.get(name, {})
        if not isinstance(found, dict):
            raise self._wrong("SKY-E610", f"{'.'.join((*place, name))} is a table: [{'.'.join((*place, name))}]", (*place, name))
        return found

    def _only(self, table: dict[str, Any], known: tuple[str, ...], place: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                inside = f" in [{'.'.join(place)}]" if place else ""
                hint = did_you_mean(key, known) or f"known: {one_of(known)}"
                raise self._wrong("SKY-E610", f"unknown key {key!r}{inside}", (*place, key), hint)

    def _wrong(self, code: str, said: str, place: tuple[str, ...], hint: str | None = None) -> SkybandError:
        return SkybandError(code, said, hint, Where(str(self.path), line_of(self.text, place), 1))


def setting_problem(name: str) -> str | None:
    """Return why the user may not set ``name``; None if the user may."""
    if not re.fullmatch(r"spark\.[A-Za-z0-9_.\-]{1,300}", name):
        return f"{name!r} is not a Spark setting: their names begin with spark."
    why = fixed_reason(name)
    return None if why is None else f"{name} may not be changed: {why}"

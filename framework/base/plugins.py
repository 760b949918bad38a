"""Registries of plugins: the built-in ones, and those of other packages, which entry points name.

A package offers a plugin in its ``pyproject.toml``, for instance::

    [project.entry-points."skyband.query_types"]
    median = "median_for_skyband.query_type:MEDIAN"

Entry points are looked up, and plugins imported, at the first look-up of a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from skyband.framework.base.errors import SkybandError

T = TypeVar("T")


class Registry(Generic[T]):
    """The plugins of one kind. ``group``: the entry-point group; ``what``: the kind in words ("query type").

    ``built_in`` returns the framework's own by name, in order. ``needs``: attributes that a plugin must have.
    """

    def __init__(self, group: str, what: str, built_in: Callable[[], Mapping[str, T]], needs: tuple[str, ...] = ()) -> None:
        self.group = group
        self.what = what
        self.needs = needs
        self._built_in = built_in
        self._found: dict[str, T] | None = None

    def all(self) -> Mapping[str, T]:
        """Return all plugins by name, built-in ones first.

        Raises SkybandError SKY-E204 if a plugin cannot be loaded, lacks an attribute, or has a name that another one has.
        """
        if self._found is None:
            found = dict(self._built_in())
            for point in entry_points(group=self.group):
                if point.name in found:
                    raise self._refused(point, f"{self.what} {point.name!r} already exists")
                found[point.name] = self._loaded(point)
            self._found = found
        return self._found

    def get(self, name: str) -> T | None:
        """Return the plugin called ``name``, or None. Raises as ``all`` does."""
        return self.all().get(name)

    @contextmanager
    def added(self, name: str, part: T) -> Iterator[None]:
        """Register ``part`` inside the context, for tests. Raises SkybandError SKY-E204 if the name exists."""
        before = dict(self.all())
        if name in before:
            raise SkybandError("SKY-E204", f"{self.what} {name!r} already exists")
        self._found = {**before, name: part}
        try:
            yield
        finally:
            self._found = before

    def _loaded(self, point: EntryPoint) -> T:
        try:
            part: T = point.load()
        except Exception as e:  # a plugin's import may raise anything
            raise self._refused(point, f"it cannot be loaded: {type(e).__name__}: {e}") from e
        lacking = [n for n in self.needs if not hasattr(part, n)]
        if lacking:
            raise self._refused(point, f"{point.value} is not a {self.what}: it lacks {', '.join(lacking)}")
        return part

    def _refused(self, point: EntryPoint, why: str) -> SkybandError:
        package = f" of package {point.dist.name}" if point.dist is not None else ""
        return SkybandError("SKY-E204", f"plugin {point.name!r}{package} ({self.group}): {why}", hint="fix the plugin, or uninstall it")

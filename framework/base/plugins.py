"""Parts of the framework by name: those it brings, and those of other packages, found by entry points.

A package offers a part in its ``pyproject.toml``, for instance::

    [project.entry-points."skyband.query_types"]
    median = "median_for_skyband.query_type:MEDIAN"

Imports nothing heavy: entry points are looked up, and plugins imported, when a name is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

from skyband.framework.base.errors import SkybandError

T = TypeVar("T")


class Registry(Generic[T]):
    """The parts of one kind. ``group``: the entry-point group; ``what``: a part in words ("query type").

    ``built_in`` gives the framework's own parts by name, in order. ``needs``: attributes that a part must have.
    """

    def __init__(self, group: str, what: str, built_in: Callable[[], Mapping[str, T]], needs: tuple[str, ...] = ()) -> None:
        self.group = group
        self.what = what
        self.needs = needs
        self._built_in = built_in
        self._found: dict[str, T] | None = None

    def all(self) -> Mapping[str, T]:
        """Every part by name, built-in ones first.

        Raises SkybandError SKY-E204 if a plugin cannot be loaded, lacks what a part must have, or takes a name that is taken.
        """
        if self._found is None:
            found = dict(self._built_in())
            for point in entry_points(group=self.group):
                if point.name in found:
                    raise self._refused(point, f"{self.what} {point.name!r} is there already")
                found[point.name] = self._loaded(point)
            self._found = found
        return self._found

    def get(self, name: str) -> T | None:
        """The part called ``name``, or None. Raises as ``all`` does."""
        return self.all().get(name)

    @contextmanager
    def added(self, name: str, part: T) -> Iterator[None]:
        """With ``part`` as one more of them inside, for tests of a part not installed. SkybandError SKY-E204 if the name is taken."""
        before = dict(self.all())
        if name in before:
            raise SkybandError("SKY-E204", f"{self.what} {name!r} is there already")
        self._found = {**before, name: part}
        try:
            yield
        finally:
            self._found = before

    def _loaded(self, point: EntryPoint) -> T:
        try:
            part: T = point.load()
        except Exception as e:  # whatever a plugin's import does, its name has to be told
            raise self._refused(point, f"it cannot be loaded: {type(e).__name__}: {e}") from e
        lacking = [n for n in self.needs if not hasattr(part, n)]
        if lacking:
            raise self._refused(point, f"{point.value} is no {self.what}: it lacks {', '.join(lacking)}")
        return part

    def _refused(self, point: EntryPoint, why: str) -> SkybandError:
        package = f" of package {point.dist.name}" if point.dist is not None else ""
        return SkybandError("SKY-E204", f"plugin {point.name!r}{package} ({self.group}): {why}", hint="mend the plugin, or uninstall it")

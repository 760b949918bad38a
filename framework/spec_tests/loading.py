"""A spec read for its tests, which touch neither its source nor its sink: variables that only name these need not be set."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Final

from skyband.framework.base.errors import SpecErrors
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.model import Plan
from skyband.framework.spec.load import Validated, validated_file

_PLACES: Final = (("source", "path"), ("source", "options"), ("sink", "path"))
_NAMED: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class _Environment(Mapping[str, str]):
    """The environment; a variable that is not set stands for a directory that is not there. Skyband's own are as they are."""

    def __contains__(self, name: object) -> bool:
        return name in os.environ or not str(name).startswith("SKYBAND_")

    def __getitem__(self, name: str) -> str:
        if name in os.environ or name.startswith("SKYBAND_"):
            return os.environ[name]
        return f"/variable-not-set/{name}"

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)


def environment() -> Mapping[str, str]:
    """The environment in which a spec is read for its tests."""
    return _Environment()


def load(path: str) -> tuple[Validated, Plan]:
    """The spec and its plan. Raises SpecErrors with all that is wrong with it, variables that are not set and that a test needs too."""
    found = validated_file(path, environment())
    if found.job is None:
        raise SpecErrors(validated_file(path).errors or found.errors)
    for at, text in found.job.variables:
        if at[:2] not in _PLACES and any(name not in os.environ for name in _NAMED.findall(text)):
            raise SpecErrors(validated_file(path).errors)
    return found, compile_job(found.job)

"""Replace ``${NAME}`` in string values from the environment, after parsing, so that no value changes the structure of a spec.

Every value that is put in is concealed from then on: no message, log or table shows it (``redaction``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skyband.framework.base.errors import did_you_mean
from skyband.framework.base.redaction import conceal

_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([^}]{0,200})\}|\$\{")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

ALLOWED: Final = "SKYBAND_VARIABLES"
"""Environment variable with the comma-separated names that specs may use; unset, they may use all but ``OPERATORS``."""
OPERATORS: Final = (
    "SKYBAND_CONF", "SKYBAND_SERVE_TOKEN", "SKYBAND_NOTIFY_COMMAND", "SKYBAND_NOTIFY_WEBHOOK", "SKYBAND_OPENLINEAGE_URL",
    "SKYBAND_CHANNELS", "SKYBAND_UNITY_URL", "SKYBAND_UNITY_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
)  # fmt: skip
"""Variables that no spec may use: Spark's settings, the token of ``serve``, where failures and alerts are sent, and credentials."""
OPERATOR_PREFIXES: Final = ("OPENLINEAGE_", "OTEL_")
"""No spec may use variables with these beginnings: the standard variables of clients, which may hold addresses and keys."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A reference that cannot be resolved, at ``start`` <= offset < ``end`` of the value."""

    code: str
    message: str
    hint: str | None
    start: int
    end: int


def resolve(text: str, env: Mapping[str, str]) -> tuple[str, set[str], list[Problem]]:
    """``text`` with every ``${NAME}`` replaced (``$${`` gives a literal ``${``), the names used, and what could not be resolved.

    Values are put in as they are: a ``${`` inside a value is not resolved again. O(len(text) + len of the values).
    """
    allowed = {n.strip() for n in env[ALLOWED].split(",")} if ALLOWED in env else None
    used: set[str] = set()
    problems: list[Problem] = []

    def replace(m: re.Match[str]) -> str:
        if m.group() == "$${":
            return "${"
        name = m.group(1)
        if name is None:
            problems.append(Problem("SKY-E107", "'${' without '}'", "write ${NAME}, or $${ for a literal ${", m.start(), m.end()))
            return m.group()
        if not _NAME.fullmatch(name):
            hint = "use ${NAME} without defaults or expressions, or $${ for a literal ${"
            problems.append(Problem("SKY-E107", f"{m.group()!r} is not a variable reference", hint, m.start(), m.end()))
            return m.group()
        if name in OPERATORS or name.startswith(OPERATOR_PREFIXES) or name in _of_channels(env):
            said = f"a spec may not use the environment variable {name}"
            problems.append(Problem("SKY-E119", said, "the variable is reserved for the person who runs the job", m.start(), m.end()))
            return m.group()
        if allowed is not None and name not in allowed:
            hint = f"to allow it, add it to the environment variable {ALLOWED}"
            problems.append(Problem("SKY-E119", f"a spec may not use the environment variable {name}", hint, m.start(), m.end()))
            return m.group()
        if name not in env:
            near = did_you_mean(name, [n for n in env if len(n) > 2])
            hint = f"set it, for instance: export {name}=..." + (f" ({near})" if near else "")
            problems.append(Problem("SKY-E106", f"environment variable {name} is not set", hint, m.start(), m.end()))
            return m.group()
        used.add(name)
        conceal(name, env[name])
        return env[name]

    return _REFERENCE.sub(replace, text), used, problems


def _of_channels(env: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the variables that the operator's file of channels uses. Raises SkybandError SKY-E660 if it cannot be read."""
    if not env.get("SKYBAND_CHANNELS"):
        return frozenset()
    from skyband.framework.alerts.channel_file import reserved

    return reserved(env)

"""The names of the columns of streams that the results of queries make up."""

from __future__ import annotations


def membership(of: str) -> str:
    """Return the name of the column that says whether an object is in the result of query ``of``."""
    return f"in_{of}"


def instant(of: str) -> str:
    """Return the name of the column with the instant of a change of the result of query ``of``."""
    return f"{of}_at"


def sign(of: str) -> str:
    """Return the name of the column with the sign of a change of the result of query ``of``."""
    return f"{of}_change"


def cause(of: str) -> str:
    """Return the name of the column with the cause of a change of the result of query ``of``."""
    return f"{of}_cause"


def given_column(of: str, name: str, user: bool) -> str:
    """Return the name in the stream of the column ``name`` of the changes of query ``of``; ``user``: the spec chose it."""
    return name if user else f"{of}_{name}"

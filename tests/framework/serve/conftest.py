"""One server for all tests that only ask it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.framework.serve.support import CANARY, Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of the small job, beside a file that nobody may read."""
    directory = tmp_path_factory.mktemp("served")
    (directory / "canary.csv").write_text(f"a,b\n1,{CANARY}\n")
    with served(directory) as running:
        yield running

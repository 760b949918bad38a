"""A server of S3's protocol for the tests of this directory, and a directory in it for each."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.object_store import object_store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with object_store(tmp_path_factory.mktemp("s3") / "server.log") as env:
        yield env


@pytest.fixture
def directory(store: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a directory of this test's own."""
    for name, value in store.items():
        monkeypatch.setenv(name, value)
    return f"s3://bucket/{uuid4().hex}"

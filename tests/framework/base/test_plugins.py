"""Parts by name: what is brought by other packages, and what is refused by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from skyband.framework.base import plugins
from skyband.framework.base.errors import SkybandError
from skyband.framework.base.plugins import Registry

GROUP = "skyband.test_parts"
PART = SimpleNamespace(name="part")


def registry(monkeypatch: pytest.MonkeyPatch, **points: str) -> Registry[SimpleNamespace]:
    found = [EntryPoint(name, value, GROUP) for name, value in points.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: [p for p in found if p.group == group])
    return Registry(GROUP, "part", lambda: {"own": SimpleNamespace(name="own")}, needs=("name",))


def test_plugins_come_after_the_built_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = registry(monkeypatch, theirs="tests.framework.base.test_plugins:PART")
    assert list(parts.all()) == ["own", "theirs"]
    assert parts.get("theirs") is not None and parts.get("theirs").name == "part"  # type: ignore[union-attr]
    assert parts.get("nobody") is None


@pytest.mark.parametrize(
    ("points", "said"),
    [
        ({"own": "tests.framework.base.test_plugins:PART"}, "plugin 'own' (skyband.test_parts): part 'own' already exists"),
        ({"gone": "tests.framework.no_such_module:X"}, "plugin 'gone' (skyband.test_parts): it cannot be loaded: ModuleNotFoundError"),
        ({"other": "tests.framework.base.test_plugins:GROUP"}, "tests.framework.base.test_plugins:GROUP is not a part: it lacks name"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_a_named_error(monkeypatch: pytest.MonkeyPatch, points: dict[str, str], said: str) -> None:
    with pytest.raises(SkybandError) as e:
        registry(monkeypatch, **points).all()
    assert e.value.code == "SKY-E204" and said in e.value.message


def test_a_part_is_added_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = registry(monkeypatch)
    with parts.added("more", PART):
        assert parts.get("more") is PART
        with pytest.raises(SkybandError, match="'own' already exists"), parts.added("own", PART):
            pass
    assert parts.get("more") is None

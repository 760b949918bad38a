"""``skyband render``: the same job with everything said; nothing of the environment that was not asked for; no secret."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.spec.load import validate_text
from skyband.jobs.cli import main
from tests.framework.spec.examples import ENV, OTHERS, SENSORS, other


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)


def render(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *arguments: str) -> str:
    path = tmp_path / "spec.yaml"
    path.write_text(text)
    capsys.readouterr()
    assert main(["render", str(path), *arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize("text", [SENSORS, *map(other, OTHERS)])
def test_what_is_rendered_is_the_same_job(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = render(tmp_path, capsys, text)
    file = str(tmp_path / "spec.yaml")
    (one, none), (two, errors) = validate_text(text, ENV, file), validate_text(shown, ENV, file)
    assert one is not None and two is not None and not none, [e.render() for e in errors]
    assert fingerprint(compile_job(one)) == fingerprint(compile_job(two))
    # Rendered once more it is what it is: nothing is left to be said.
    assert render(tmp_path, capsys, shown) == shown
    said, more = yaml.safe_load(text), yaml.safe_load(shown)
    assert set(said) <= set(more) and more["run"]["trigger"] == "once" and more["run"]["keep"] == "90 days"
    assert more["quality"]["max_rejected"] == said.get("quality", {}).get("max_rejected", "1%")
    assert more["source"]["unique"] == said["source"].get("unique", "checked")


def test_values_of_the_environment_are_shown_by_name_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, value = next((n, v) for n, v in ENV.items() if f"${{{n}}}" in SENSORS)
    shown = render(tmp_path, capsys, SENSORS)
    assert f"${{{name}}}" in shown and value not in shown
    shown = render(tmp_path, capsys, SENSORS, "--show", name)
    assert f"${{{name}}}" not in shown and value in shown
    path = str(tmp_path / "spec.yaml")
    assert main(["render", path, "--show", "UNKNOWN"]) == 2 and "SKY-E201 the spec does not use" in capsys.readouterr().err
    monkeypatch.setenv("DB_PASSWORD", "hunter2")
    assert main(["render", path, "--show", "DB_PASSWORD"]) == 2 and "never shown" in capsys.readouterr().err


def test_a_secret_is_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHO", "hunter2")
    text = SENSORS.replace('"temp is not null"', "\"sensor <> '${WHO}'\"")
    assert "hunter2" not in render(tmp_path, capsys, text) and "sensor <> ''${WHO}''" in render(tmp_path, capsys, text)
    bad = tmp_path / "bad.yaml"
    bad.write_text(SENSORS.replace("watermark", "watermerk"))
    assert main(["render", str(bad), "--format", "json"]) == 2 and "SKY-E110" in capsys.readouterr().out

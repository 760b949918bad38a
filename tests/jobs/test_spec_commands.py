"""``skyband init``, ``validate`` and ``explain``."""

import argparse
from pathlib import Path

import pytest

from skyband.framework.base.errors import CODES, SkybandError, SpecErrors
from skyband.framework.spec.load import validate_file
from skyband.framework.spec.parsing.assemble import PROFILE
from skyband.framework.spec.schema.json_schema import SCHEMA_PATH, schema_text
from skyband.jobs.answer import show
from skyband.jobs.authoring import explain, init, schema, validate
from skyband.jobs.cli import main
from tests.framework.spec.examples import ENV, SENSORS


def run(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    subparsers = parser.add_subparsers()
    for command in (init, schema, validate, explain):
        command.add_parser(subparsers)
    args = parser.parse_args(argv)
    answer = args.run(args)
    show(answer, "text")
    return int(answer.code)


def test_init_writes_a_spec_that_validates_and_explains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "first.yaml"
    assert run("init", str(path)) == 0
    assert f"skyband validate {path}" in capsys.readouterr().out
    assert validate_file(path, {})[1] == []
    assert run("validate", str(path)) == 0
    assert "good (2 queries)" in capsys.readouterr().out
    assert run("explain", str(path), "--rate", "2") == 0
    assert "shared by 2 queries" in capsys.readouterr().out


def test_init_never_overwrites(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine")
    with pytest.raises(SkybandError) as e:
        run("init", str(path))
    assert e.value.code == "SKY-E202" and path.read_text() == "mine"
    with pytest.raises(SkybandError) as e:
        run("init", str(tmp_path / "nowhere" / "x.yaml"))
    assert e.value.code == "SKY-E203"
    assert run("init", str(tmp_path)) == 0 and (tmp_path / "job.yaml").exists()


def test_init_puts_the_schema_beside_the_spec(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / init.SCHEMA
    assert run("init", str(tmp_path / "a.yaml")) == 0
    assert (tmp_path / "a.yaml").read_text().startswith(f"# yaml-language-server: $schema={init.SCHEMA}\n")
    assert kept.read_text(encoding="utf-8") == schema_text() and init.SCHEMA.startswith(".")
    capsys.readouterr()
    assert run("schema") == 0
    assert capsys.readouterr().out == schema_text()
    kept.write_text('{"title": "Skyband job", "of": "an older version"}')
    assert run("init", str(tmp_path / "b.yaml")) == 0
    assert kept.read_text(encoding="utf-8") == schema_text()
    for other in ('{"title": "mine"}', "mine", "[" * 9000):
        kept.write_text(other)
        (tmp_path / "b.yaml").unlink()
        assert run("init", str(tmp_path / "b.yaml")) == 0
        assert kept.read_text() == other


def test_a_schema_beside_the_data_is_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.json"
    rows.write_text("".join(f'{{"id": "{n}", "ts": "2024-01-01T00:00:0{n}Z", "x": {n}.5}}\n' for n in range(9)))
    for name in ("a.yaml", "b.yaml"):
        assert main(["init", str(tmp_path / name), "--from", str(rows)]) == 0
        assert main(["validate", "--data", str(tmp_path / name)]) == 0, capsys.readouterr().err
    assert (tmp_path / init.SCHEMA).exists()


def test_the_examples_name_the_schema_beside_them() -> None:
    for path in (SCHEMA_PATH.parent).glob("*.yaml"):
        assert path.read_text(encoding="utf-8").startswith(f"# yaml-language-server: $schema={SCHEMA_PATH.name}\n"), path


def test_validate_tells_all_mistakes_of_all_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(SENSORS)
    bad.write_text(SENSORS.replace("k: 20", "k: 0").replace("watermark", "watermerk"))
    assert run("validate", str(good), str(bad), str(tmp_path / "none.yaml")) == 2
    shown = capsys.readouterr()
    assert "good.yaml: good (3 queries)" in shown.out
    assert "bad.yaml: 2 mistakes" in shown.err and "bad.yaml:8:28 SKY-E110" in shown.err and "SKY-E100" in shown.err
    with pytest.raises(SpecErrors):
        run("explain", str(bad))


def test_explain_shows_no_variables_value(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**ENV, "WHO": "hunter2"}.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / "spec.yaml"
    path.write_text(SENSORS.replace('"temp is not null"', "\"sensor <> '${WHO}'\""))
    assert run("explain", str(path)) == 0
    shown = capsys.readouterr().out
    assert "hunter2" not in shown and "sensor <> '${WHO}'" in shown


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"job: a\nsource: \xff\n")
    _, errors = validate_file(path, {})
    assert [(e.code, e.where.line, e.where.col) for e in errors if e.where] == [("SKY-E100", 2, 9)]


@pytest.mark.parametrize("rate", ["0", "-1", "x", "nan", "inf"])
def test_a_bad_rate_is_refused(rate: str) -> None:
    with pytest.raises(SkybandError, match="SKY-E201 --rate takes a number above 0"):
        run("explain", "x.yaml", "--rate", rate)


def test_every_code_in_use_is_registered() -> None:
    import re

    root = Path(__file__).parents[2]
    used = set()
    for part in ("edge", "framework", "jobs", "operators", "airflow_dags"):
        for path in (root / part).rglob("*.py"):
            used |= set(re.findall(r"SKY-E\d{3}\b", path.read_text(encoding="utf-8")))
    assert used <= set(CODES)


def test_a_profile_is_chosen_by_an_option_or_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(PROFILE, "")  # so that it is put back
    path = tmp_path / "spec.yaml"
    path.write_text(SENSORS + "profiles: {dev: {job: job-of-dev, queries: {anomalies: {k: 3}}}, prod: }\n")

    def explained(*argv: str) -> str:
        monkeypatch.setenv(PROFILE, "")
        assert main(["explain", str(path), *argv]) == 0
        return capsys.readouterr().out

    assert [n for n in ("dev", "prod", "") if "job job-of-dev" in explained("--profile", n)] == ["dev"]
    assert main(["validate", "--profile", "dev", str(path)]) == 0
    assert "good (3 queries, profile dev)" in capsys.readouterr().out
    monkeypatch.setenv(PROFILE, "dve")
    assert main(["validate", str(path)]) == 2
    assert "SKY-E109" in capsys.readouterr().err
    assert main(["schema", "--fragment"]) == 0 and '"$ref": "#/$defs/Fragment"' in capsys.readouterr().out

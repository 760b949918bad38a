"""Environment variables: resolved after parsing, in text only, and never printed."""

import os

import pytest

from skyband.framework.spec.load import validate_text
from skyband.framework.spec.parsing.document import resolve
from tests.framework.spec.examples import ENV, SENSORS


def test_references_escapes_and_problems() -> None:
    env = {"A": "1", "B": "${A}"}
    assert resolve("x${A}y${A}", env)[0] == "x1y1"
    assert resolve("${B}", env)[0] == "${A}"
    assert resolve("$${A} $A $", env) == ("${A} $A $", set(), [])
    for text, code, start, end in (
        ("ab${C}", "SKY-E106", 2, 6),
        ("${A:-x}", "SKY-E107", 0, 7),
        ("a${A", "SKY-E107", 1, 3),
        ("${}", "SKY-E107", 0, 3),
    ):
        problems = resolve(text, env)[2]
        assert [(p.code, p.start, p.end) for p in problems] == [(code, start, end)]


def test_a_missing_variable_is_marked_where_it_stands() -> None:
    _, errors = validate_text(SENSORS, {"LANDING": "/l"}, "spec.yaml")
    assert [(e.code, e.where.line, e.where.col, e.where.length) for e in errors if e.where] == [("SKY-E106", 31, 15, 12)]


def test_a_value_cannot_change_the_structure() -> None:
    evil = """x"
queries: none
job: evil # """
    job, errors = validate_text(SENSORS, {**ENV, "LANDING": evil})
    assert errors == [] and job is not None
    assert job.job == "sensor-anomalies" and job.source.path == f"{os.getcwd()}/{evil}/sensors/"


def test_numbers_may_come_from_variables() -> None:
    job, errors = validate_text(SENSORS.replace("k: 20", 'k: "${K}"'), {**ENV, "K": "7"})
    assert errors == [] and job is not None
    _, errors = validate_text(SENSORS.replace("k: 20", 'k: "${K}"'), {**ENV, "K": "topsecret"})
    assert [e.code for e in errors] == ["SKY-E112"]
    assert "topsecret" not in str(errors[0])


def test_no_message_shows_a_variables_value() -> None:
    places = {
        "job: sensor-anomalies": 'job: "${S}"',
        "k: 20": 'k: "${S}"',
        '"temp is not null"': '"${S}"',
        '"a.sensor <> b.sensor", carry': '"${S}", carry',
        "10 minutes": '"${S}"',
        "scoring: closest": 'scoring: "${S}"',
        "column: ts,": 'column: "${S}",',
        "carry: [temp]": 'carry: ["${S}"]',
        "table: anomalies,": 'table: "${S}",',
        '"0 * * * *"': '"${S}"',
        "temp: double": 'temp: "${S}"',
    }
    for old, new in places.items():
        assert old in SENSORS
        _, errors = validate_text(SENSORS.replace(old, new, 1), {**ENV, "S": "hunter2 secret-value"})
        assert errors, old
        for e in errors:
            assert "hunter2" not in str(e) and "secret-value" not in str(e), (old, str(e))


def test_secrets_written_into_the_file_are_masked() -> None:
    for options in (
        "{password: hunter2, heder: [1]}",
        '{"kafka.sasl.jaas.config": "hunter2", heder: [1]}',
        "{api_key: hunter2, token: hunter2, x: [1]}",
    ):
        _, errors = validate_text(SENSORS.replace("{header: true}", options), ENV)
        assert errors
        assert all("hunter2" not in e.render() for e in errors)
        _, errors = validate_text(SENSORS.replace("{header: true}", options[:-1] + ", x: ${Y}}"), ENV)
        assert errors
        assert all("hunter2" not in e.render() for e in errors)


def test_a_wrong_secret_is_not_quoted() -> None:
    _, errors = validate_text(SENSORS.replace("{header: true}", "{password: [hunter2]}"), ENV)
    assert [e.code for e in errors] == ["SKY-E112"]
    assert "hunter2" not in errors[0].message


def test_the_jobs_text_form_holds_no_options() -> None:
    job, _ = validate_text(SENSORS.replace("{header: true}", "{nullValue: hunter2}"), ENV)
    assert job is not None and "hunter2" not in repr(job) + str(job)


@pytest.mark.parametrize("old, new", [("job: sensor-anomalies", 'job: "x-${S}"'), ("name: plausible_temp", 'name: "${S}"')])
def test_a_name_that_is_stored_does_not_come_from_the_environment(old: str, new: str) -> None:
    job, errors = validate_text(SENSORS.replace(old, new), {**ENV, "S": "hunter2"})
    assert job is None and [e.code for e in errors] == ["SKY-E119"] and "hunter2" not in errors[0].render()


def test_whoever_runs_the_job_says_which_variables_specs_may_use() -> None:
    job, errors = validate_text(SENSORS, {**ENV, "SKYBAND_VARIABLES": "LANDING, WAREHOUSE"})
    assert job is not None, errors
    text = SENSORS.replace("temp is not null", "sensor <> '${AWS_SECRET}'")
    for env in ({"AWS_SECRET": "hunter2"}, {}):
        _, errors = validate_text(text, {**ENV, "SKYBAND_VARIABLES": "LANDING, WAREHOUSE", **env})
        assert [e.code for e in errors] == ["SKY-E119"] and "AWS_SECRET" in errors[0].message and "hunter2" not in errors[0].render()
    _, errors = validate_text(SENSORS, {**ENV, "SKYBAND_VARIABLES": ""})
    assert [e.code for e in errors] == ["SKY-E119", "SKY-E119"]


def test_the_job_knows_what_came_from_the_environment() -> None:
    text = SENSORS.replace("k: 20", "k: '${K}'").replace("column: score", "column: '${C}'")
    job, errors = validate_text(text, {**ENV, "K": "7", "C": "score"})
    assert job is not None, errors
    assert dict(job.variables) == {
        ("source", "path"): "${LANDING}/sensors/",
        ("quality", "tables", 0, "column"): "${C}",
        ("queries", "anomalies", "k"): "${K}",
        ("sink", "path"): "${WAREHOUSE}/sensor_anomalies",
    }

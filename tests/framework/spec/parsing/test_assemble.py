"""Included files, profiles and parameters: what the job is then, and where mistakes are told."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from skyband.framework.base.errors import SkybandError
from skyband.framework.plan.compile import compile_job
from skyband.framework.plan.facts import describe
from skyband.framework.plan.fingerprint import fingerprint
from skyband.framework.spec.load import validate_file, validate_text
from skyband.framework.spec.models.job import Job
from skyband.framework.spec.parsing.assemble import PROFILE, read_text
from tests.framework.spec.examples import SENSORS
from tests.seeds import cases
from tests.test_readme import merged

SOURCE = """source:
  format: csv
  path: "in/${site}"
  schema: {id: string, ts: timestamp, temp: double}
  id: [id]
  event_time: {column: ts, watermark: "${wait}"}
window: {time: 7 days}
scoring: {hot: {expression: temp, direction: max}}
parameters: {wait: 10 minutes, k: 5, carry: [temp]}
profiles:
  dev: {window: {time: 1 day}}
  prod: {sink: {path: "${WAREHOUSE}/${site}"}}
"""
JOB = """job: "heat-${site}"
include: parts/_source.yaml
parameters: {site: berlin, k: 7}
queries:
  top: {type: topk, scoring: hot, k: "${k}", carry: "${carry}", where: "temp > ${least}"}
sink: {path: out}
"""
ENV = {"WAREHOUSE": "/warehouse", "least": "3"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "_source.yaml").write_text(SOURCE)
    (tmp_path / "berlin.yaml").write_text(JOB)
    return tmp_path


def job_of(directory: Path, text: str = JOB, **env: str) -> Job:
    (directory / "berlin.yaml").write_text(text)
    job, errors = validate_file(directory / "berlin.yaml", {**ENV, **env})
    assert job is not None, "\n".join(e.render() for e in errors)
    return job


def mistakes(directory: Path, text: str = JOB, part: str = SOURCE, **env: str) -> list[SkybandError]:
    (directory / "berlin.yaml").write_text(text)
    (directory / "parts" / "_source.yaml").write_text(part)
    job, errors = validate_file(directory / "berlin.yaml", {**ENV, **env})
    assert job is None and errors
    return errors


def said(errors: list[SkybandError]) -> list[str]:
    """``file:line:column code`` of each."""
    return [f"{Path(e.where.file).name}:{e.where.line}:{e.where.col} {e.code}" for e in errors if e.where is not None]


def test_a_family_of_jobs_from_one_template(directory: Path) -> None:
    job = job_of(directory)
    query: Any = job.queries["top"]
    assert (job.job, query.k, query.carry, query.where) == ("heat-berlin", 7, ("temp",), "temp > 3")
    assert job.source.path == str(directory / "in" / "berlin") and job.sink.path == str(directory / "out")
    assert job.source.event_time.watermark == 600_000_000
    other = job_of(directory, JOB.replace("berlin", "oslo").replace(", k: 7", ""))
    query = other.queries["top"]
    assert (other.job, query.k, other.source.path) == ("heat-oslo", 5, str(directory / "in" / "oslo"))


def test_a_profile_lies_over_the_spec(directory: Path) -> None:
    assert job_of(directory, SKYBAND_PROFILE="").window.time == 7 * 86_400_000_000
    dev = job_of(directory, SKYBAND_PROFILE="dev")
    assert dev.window.time == 86_400_000_000 and dev.sink.path.endswith("/out")
    prod = job_of(directory, SKYBAND_PROFILE="prod")
    assert prod.sink.path == "/warehouse/berlin"
    own = job_of(
        directory, JOB + "profiles: {prod: {parameters: {k: 9}, queries: {top: {every: 1 hour}}}, empty: }\n", SKYBAND_PROFILE="prod"
    )
    query: Any = own.queries["top"]
    assert (query.k, query.every, own.sink.path) == (9, 3_600_000_000, "/warehouse/berlin")
    assert job_of(directory, JOB + "profiles: {empty: }\n", SKYBAND_PROFILE="empty").sink.path == str(directory / "out")


def test_only_the_environment_is_concealed(directory: Path) -> None:
    """A parameter is no secret: names may be made of it. A value that has something of the environment is one, wherever it came through."""
    written = dict(job_of(directory).variables)
    assert written == {("queries", "top", "where"): "temp > ${least}"}
    written = dict(job_of(directory, JOB.replace("k: 7", 'wait: "${WAIT}"'), WAIT="1 minute").variables)
    assert written[("source", "event_time", "watermark")] == "${WAIT}"
    prod = dict(job_of(directory, SKYBAND_PROFILE="prod").variables)
    assert prod[("sink", "path")] == "${WAREHOUSE}/berlin"
    errors = mistakes(directory, JOB.replace("site: berlin", 'site: "${SITE}"'), SITE="bonn")
    assert said(errors) == ["berlin.yaml:1:6 SKY-E119"] and "bonn" not in errors[0].render()


def test_the_fingerprint_is_of_the_resolved_spec(directory: Path) -> None:
    whole = yaml.safe_load(JOB.replace('"${k}"', "7").replace('"${carry}"', "[temp]").replace("${site}", "berlin"))
    source = yaml.safe_load(SOURCE.replace("${site}", "berlin").replace("${wait}", "10 minutes"))
    for name in ("parameters", "profiles", "include"):
        whole.pop(name, None), source.pop(name, None)
    assert fingerprint(compile_job(job_of(directory))) == fingerprint(compile_job(job_of(directory, yaml.safe_dump({**source, **whole}))))


@pytest.mark.parametrize(
    "text, part, told",
    [
        # A value is told where it is said: in the fragment, in the spec, or as a parameter.
        (JOB, SOURCE.replace("direction: max", "direction: mux"), ["_source.yaml:8:46 SKY-E113"]),
        (JOB.replace("k: 7", "k: ten"), SOURCE, ["berlin.yaml:3:31 SKY-E112"]),
        (JOB, SOURCE.replace("10 minutes", "10 minuets"), ["_source.yaml:9:20 SKY-E115"]),
        (JOB, SOURCE.replace("[temp]", "[tmp]"), ["_source.yaml:9:46 SKY-E120"]),
        (JOB.replace("temp > ", "tmp > ").replace("${least}", "3"), SOURCE, ["berlin.yaml:5:73 SKY-E130"]),
        (JOB, SOURCE.replace("expression: temp", 'expression: "temp + ${k} + tmp"'), ["_source.yaml:8:29 SKY-E130"]),
        (JOB, SOURCE.replace("  id: [id]\n", ""), ["_source.yaml:1:1 SKY-E111"]),
        (JOB + "window: {tyme: 1 day}\n", SOURCE, ["berlin.yaml:7:10 SKY-E110"]),
        (JOB, SOURCE.replace("{id: string,", "{id: string"), ["_source.yaml:4:25 SKY-E101"]),
        # Parameters.
        (JOB.replace("k: 7", "kk: 7"), SOURCE, ["berlin.yaml:3:28 SKY-E109"]),
        (JOB.replace("k: 7", "k: 7, wait: {a: 1}"), SOURCE.replace('"${wait}"', '"${wait} x"'), ["_source.yaml:6:39 SKY-E109"]),
        (JOB.replace("site: berlin, ", ""), SOURCE, ["berlin.yaml:1:12 SKY-E106", "_source.yaml:3:13 SKY-E106"]),
        (JOB.replace("k: 7", "1k: 7"), SOURCE, ["berlin.yaml:3:28 SKY-E116"]),
        (JOB.replace("k: 7", "k: "), SOURCE, ["berlin.yaml:3:28 SKY-E112"]),
        (JOB.replace("parameters: {site: berlin, k: 7}", "parameters: [1]"), SOURCE, ["berlin.yaml:3:13 SKY-E112"]),
        (JOB.replace("k: 7", "k: 7, k: 8"), SOURCE, ["berlin.yaml:3:34 SKY-E102"]),
        # Included files.
        (JOB.replace("_source", "none"), SOURCE, ["berlin.yaml:2:10 SKY-E108"]),
        (JOB + "include: x.yaml\n", SOURCE, ["berlin.yaml:7:1 SKY-E102"]),
        (JOB, SOURCE + "include: other.yaml\n", ["_source.yaml:13:1 SKY-E108"]),
        (JOB, "just text\n", ["_source.yaml:1:1 SKY-E108"]),
        (JOB, "", ["_source.yaml:1:1 SKY-E108"]),
        (JOB.replace("include: ", "include: {a: b} #"), SOURCE, ["berlin.yaml:2:10 SKY-E108"]),
        # Profiles.
        (JOB + "profiles: [dev]\n", SOURCE, ["berlin.yaml:7:11 SKY-E112"]),
        (JOB + "profiles: {dev: 3, 2: {}}\n", SOURCE, ["berlin.yaml:7:17 SKY-E112", "berlin.yaml:7:20 SKY-E116"]),
        (JOB + "profiles: {dev: {include: x.yaml}}\n", SOURCE, ["berlin.yaml:7:18 SKY-E110"]),
    ],
)  # fmt: skip
def test_mistakes_are_told_where_they_are(directory: Path, text: str, part: str, told: list[str]) -> None:
    errors = mistakes(directory, text, part)
    assert said(errors) == told, "\n".join(e.render() for e in errors)
    for e in errors:
        assert e.where is not None and e.where.text is not None


def test_a_variable_that_a_parameter_says_is_told_with_where_to_look(directory: Path) -> None:
    for error in mistakes(directory, JOB.replace("site: berlin", "site: '${SITE}'")):
        assert error.code == "SKY-E106" and "a parameter in it, says ${SITE}" in str(error.hint)
    (error,) = mistakes(directory, JOB.replace("k: 7", 'wait: "${k}"'))
    assert error.code == "SKY-E106" and error.hint == "parameters do not refer to each other"


def test_a_mistake_of_a_profile_is_told_there(directory: Path) -> None:
    errors = mistakes(directory, JOB + "profiles:\n  dev: {window: {time: 3}}\n", SKYBAND_PROFILE="dev")
    assert said(errors) == ["berlin.yaml:8:24 SKY-E115"]
    (error,) = mistakes(directory, SKYBAND_PROFILE="prd")
    assert error.code == "SKY-E109" and "prod" in str(error.hint) and said([error]) == ["_source.yaml:10:1 SKY-E109"]
    _, (error,) = validate_text(SENSORS, {"LANDING": "a", "WAREHOUSE": "b", PROFILE: "prod"})
    assert error.code == "SKY-E109" and "no profiles" in str(error.hint)


def test_a_spec_reads_nothing_elsewhere(directory: Path) -> None:
    below = directory / "jobs"
    below.mkdir()
    outside = directory / "parts" / "_source.yaml"
    (below / "link.yaml").symlink_to(outside)
    (below / "way").symlink_to(directory / "parts")
    (below / "inner.yaml").symlink_to(below / "good.yaml")
    (below / "good.yaml").write_text(SOURCE)
    os.mkfifo(below / "pipe.yaml")
    (below / "dir.yaml").mkdir()
    (below / "secret.txt").write_text("window: {count: 1}\n")
    (below / "large.yaml").write_text("#" * 300_000)
    names = [
        "../parts/_source.yaml",
        str(outside),
        f"file://{outside}",
        "link.yaml",
        "way/_source.yaml",
        "pipe.yaml",
        "dir.yaml",
        "secret.txt",
    ]
    for name in [*names, "large.yaml", "${HOME}.yaml", "/dev/zero", "", ".", "[good.yaml]"]:
        (below / "job.yaml").write_text(JOB.replace("parts/_source.yaml", f'["{name}"]' if name != "[good.yaml]" else "[[good.yaml]]"))
        job, errors = validate_file(below / "job.yaml", ENV)
        assert job is None and [e.code for e in errors] == ["SKY-E108"], (name, errors)
    for name in ("good.yaml", "./good.yaml", "inner.yaml", "[good.yaml, good.yaml]"):
        (below / "job.yaml").write_text(JOB.replace("parts/_source.yaml", name))
        assert validate_file(below / "job.yaml", ENV)[1] == [], name
    (below / "job.yaml").write_text(JOB.replace("parts/_source.yaml", str(["good.yaml"] * 21)))
    assert [e.code for e in validate_file(below / "job.yaml", ENV)[1]] == ["SKY-E108"]


def test_secrets_are_masked_in_every_file_and_profile(directory: Path) -> None:
    text = JOB + "profiles: {dev: {source: {options: {password: hunter2, k: 1}}}, prod: {source: {options: {token: tango3}}}}\n"
    part = SOURCE.replace("{wait:", "{password: sierra1, wait:").replace("10 minutes", "10 minuets")
    for profile in ("", "dev", "prod"):
        shown = "\n".join(e.render() for e in mistakes(directory, text, part, SKYBAND_PROFILE=profile))
        assert "minuets" in shown
        assert not any(s in shown for s in ("hunter2", "tango3", "sierra1")), shown
    told = describe(str(directory / "berlin.yaml"))["text"]
    assert "heat-${site}" in told and "minuets" in told and not any(s in told for s in ("hunter2", "tango3", "sierra1"))


def test_a_parameter_that_a_secret_is_made_of_is_masked(directory: Path) -> None:
    text = JOB.replace("k: 7", "k: 7, pw: hunter2, half: tango3, other: sierra1, kk: 1")
    text += "source: {options: {password: '${pw}', token: 'a${half}'}}\n"
    text += "profiles: {prod: {source: {options: {secret: '${other}'}}, parameters: {pw: delta4, 1: 2}}, dev: 3}\n"
    for profile in ("", "prod"):
        shown = "\n".join(e.render() for e in mistakes(directory, text, SKYBAND_PROFILE=profile))
        assert "kk: 1" in shown and not any(s in shown for s in ("hunter2", "tango3", "sierra1", "delta4")), shown
    assert "hunter2" not in describe(str(directory / "berlin.yaml"))["text"]


def test_what_expands_to_too_much_is_refused() -> None:
    tree = "parameters: {p: x}\n" + "".join(f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}\n" for n in range(1, 30)).replace("*a0", "1")
    loops = "parameters: {p: &p ['${p}'], q: &q {q: '${q}'}}\nx: *p\ny: *q\nz: '${p}'\n"
    long = f"parameters: {{p: {'x' * 20_000}}}\nx:\n" + "- a${p}\n" * 100
    nodes = f"parameters: {{p: [{'1, ' * 5000}]}}\nx:\n" + "- ${p}\n" * 10
    deep = "profiles: {dev: " + "{a: " * 150 + "}" * 150 + "}\na: " + "{a: " * 150 + "}" * 150 + "\n"
    odd = "profiles: &p {dev: {profiles: *p, parameters: {[1]: 2}, source: {password: '${x}'}}}\nparameters: {[1]: 2, x: &x [*x]}\n"
    assert validate_text("job: x\n" + odd, {PROFILE: "dev"})[1]
    both = "profiles: {dev: &a {a: *a, b: *a}}\na: &b {a: *b, b: *b}\n"
    for text in (tree + tree.replace("parameters", "profiles").replace("a", "b"), loops, long, nodes, deep, both):
        _, errors = validate_text("job: x\n" + text, {PROFILE: "dev"} if "dev" in text else {})
        assert "SKY-E103" in {e.code for e in errors}, text[:80]


VALUES = st.recursive(
    st.one_of(st.integers(0, 9), st.sampled_from(["a", "b c", "x-${p}", "${p}", "$${p}"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=8,
)
LAYERS = st.lists(st.dictionaries(st.sampled_from(["source", "window", "queries"]), VALUES, max_size=3), min_size=3, max_size=3)


def filled(value: Any, parameter: Any) -> Any:
    """By definition: the parameter for a whole reference, its text inside another text."""
    if isinstance(value, dict):
        return {k: filled(v, parameter) for k, v in value.items()}
    if isinstance(value, list):
        return [filled(v, parameter) for v in value]
    if value == "${p}":
        return parameter
    return value.replace("$${p}", "\0").replace("${p}", str(parameter)).replace("\0", "${p}") if isinstance(value, str) else value


@settings(max_examples=cases(40))
@given(LAYERS, st.one_of(st.integers(0, 9), st.sampled_from(["text", "two words"])), st.randoms(use_true_random=False))
def test_layers_are_merged_and_filled_as_defined(tmp_path_factory: pytest.TempPathFactory, layers: Any, p: Any, rng: random.Random) -> None:
    directory = tmp_path_factory.getbasetemp() / "layers"
    directory.mkdir(exist_ok=True)
    low, own, top = layers
    (directory / "low.yaml").write_text(
        yaml.safe_dump({**low, "parameters": {"p": "unused"}}, default_flow_style=rng.choice([True, False]))
    )
    spec = {**own, "job": "x", "include": "low.yaml", "parameters": {"p": p}, "profiles": {"one": top, "two": {"job": "never"}}}
    doc = read_text(str(directory / "spec.yaml"), yaml.safe_dump(spec), {PROFILE: "one"})
    used = "${p}" in str(filled([low, own, top, ["$${p}"]], "\0")[:3]) or "\0" in str(filled([low, own, top], "\0"))
    if used:
        assert doc.data == filled(merged(merged({**low, "job": "x"}, own), top), p)
        assert not [e for e in doc.errors if e.code != "SKY-E109"], doc.errors

"""Jobs of former versions keep the rules of their sets of tokens, and a rebuild makes them by the present ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skyband.framework.plan.fingerprint import compare, fingerprint
from skyband.framework.plan.former import as_made, former_sets
from skyband.framework.plan.model import Plan
from skyband.framework.plan.nodes import TokenNode
from skyband.framework.spec.models.words import FORMER_WORDS, WORDS
from skyband.jobs.spec import load_plan
from tests.specs import plan_of_text, spec_text

SPEC = spec_text(
    "sets",
    "{id: bigint, ts: timestamp, body: string}",
    window="{count: 10}",
    tokens={
        "w": "{column: body}",
        "own": '{column: body, words: "[a-z]+", min_tokens: 2}',
        "parts": '{column: body, separator: ","}',
    },
    queries={"twins": "{type: similar_sets, tokens: w, min_score: 0.5}"},
)
SAME = {"column": "body", "lower": False, "stop_words": [], "ngrams": 1, "least": 1, "most": 10000, "separator": None}
KEPT = {
    "w": SAME | {"words": "[\\pL\\pN_]+", "lower": True},
    "own": SAME | {"words": "[a-z]+", "lower": True, "least": 2},
    "parts": SAME | {"separator": ",", "words": None},
}
"""The tokens of the spec's fingerprint as a former version wrote it."""


def tokens_of(plan: Plan) -> dict[str, TokenNode]:
    return {t.name: t for t in plan.intake.tokens}


def test_a_job_of_a_former_version_goes_on_by_its_rules() -> None:
    plan = plan_of_text(SPEC)
    kept = fingerprint(plan) | {"tokens": KEPT}
    assert compare(kept, fingerprint(plan))
    made = as_made(plan, kept)
    assert compare(kept, fingerprint(made)) == [] and fingerprint(made) == kept
    assert former_sets(made) == ["w", "own", "parts"]
    former = tokens_of(made)
    assert (former["w"].words, former["own"].words, former["parts"].words) == (FORMER_WORDS, "[a-z]+", None)
    assert not any(t.composes or t.skips_short for t in former.values())


def test_a_job_of_this_version_and_a_new_one_go_by_the_present_rules() -> None:
    plan = plan_of_text(SPEC.replace("w: {column: body}", "w: {column: body, normalize: none, short: reject}"))
    for kept in (fingerprint(plan), {}, {"tokens": {}}):
        assert as_made(plan, kept) == plan
    assert former_sets(plan) == [] and tokens_of(plan)["w"].words == WORDS


@pytest.mark.parametrize(
    ("given", "differences"),
    [
        ("normalize: none, short: reject", []),
        ("words: '[\\pL\\pN_]+'", []),
        ("normalize: nfc", ["tokens.w.normalize is new (nfc)"]),
        ("short: skip", ["tokens.w.short is new (skip)"]),
        (f"words: '{WORDS}'", [f"tokens.w.words was {FORMER_WORDS}, now {WORDS}"]),
    ],
)
def test_what_the_spec_says_itself_counts(given: str, differences: list[str]) -> None:
    plan = plan_of_text(SPEC.replace("w: {column: body}", f"w: {{column: body, {given}}}"))
    kept = fingerprint(plan) | {"tokens": KEPT}
    assert compare(kept, fingerprint(as_made(plan, kept))) == differences


def test_commands_read_what_the_job_was_made_by_and_a_rebuild_does_not(tmp_path: Path) -> None:
    spec, home = tmp_path / "spec.yaml", tmp_path / "out" / "_skyband"
    spec.write_text(SPEC)
    assert former_sets(load_plan(str(spec))) == []
    home.mkdir(parents=True)
    made = json.dumps({"generation": "g", "fingerprint": {"tokens": KEPT}})
    for text, former in ((made, True), ("null", False), ("{", False), ('{"fingerprint": 1}', False)):
        (home / "job.json").write_text(text)
        assert bool(former_sets(load_plan(str(spec)))) == former, text
    (home / "job.json").write_text(made)
    assert former_sets(load_plan(str(spec), rebuild=True)) == []

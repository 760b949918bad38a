"""Random damage to specs: the text, the structure, the values. ``python -m tests.framework.spec.fuzz [cases] [first seed]`` runs many."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import yaml

from skyband.framework.base.errors import CODES
from skyband.framework.spec.load import validate_text
from skyband.framework.spec.parsing.assemble import PROFILE
from tests.framework.base.test_terminal import steering
from tests.framework.spec.examples import ENV, FAMILY, OTHERS, SENSORS, other

ROOT = Path(__file__).parents[3]
FILES = sorted([*ROOT.glob("specs/*.yaml"), *ROOT.glob("framework/queries/*/example.yaml"), *ROOT.glob("tests/framework/spec/*.yaml")])
BASES = [SENSORS, FAMILY, FAMILY, *map(other, OTHERS), *(f.read_text(encoding="utf-8") for f in FILES)]

ODD = [
    None,
    True,
    "",
    " ",
    0,
    -1,
    10**40,
    -(10**400),
    1e308,
    float("nan"),
    float("inf"),
    [],
    {},
    [[]],
    {"": ""},
    "x" * 5000,
    "9" * 5000,
    "\x00",
    "\x1b[2J\u202e\x9b",
    "\ud800",
    "\u00b2",
    "\u0663",
    "\U0001f469\u200d\U0001f680",
    "a\nb\rc\u2028d",
    "${X}",
    "${",
    "$${",
    "${LANDING}",
    "1 day " * 500,
    "9" * 400 + " days",
    "99999999999999 weeks",
    "1e999",
    "0x10",
    "1_0",
    "01",
    "2001-01-01",
    "struct(" * 26 + "x" + ")" * 26,
    "(" * 400 + "x" + ")" * 400,
    "not " * 900 + "x",
    "- " * 900 + "1",
    "a.x" + " + a.x" * 3000,
    "x in (" + "1," * 3000 + "1)",
    "'",
    "`",
    "/*",
    "--",
    "select 1",
    "*",
    "?",
    ":x",
    "@x",
    "{{x}}",
    "%s",
    "a.*",
    "x'1'",
    "interval",
    "case",
    "cast(x as",
    "decimal(" + "9" * 5000 + ",1)",
    "a.b.c",
    "-",
    "~",
    "/dev/zero",
    "file:///",
    "\\",
    "9" * 5000 + " rows",
    "* * * * " + "9" * 5000,
    "\u00b2 * * * *",
    "*/" + "9" * 5000 + " * * * *",
    "\u00b2 days",
    "decimal(\u0663,1)",
]
SNIPPETS = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ": ",
    ",",
    "'",
    '"',
    "#",
    "- ",
    "*a",
    "&a ",
    "!!",
    "!a ",
    "|",
    ">",
    "${",
    "<<: ",
    "? ",
    "---\n",
    "...\n",
    "%",
    "@",
    "`",
    "\t",
    "\n",
    "\r",
    "\x00",
    "\x1b",
    "\x85",
    "\u2028",
    "\ufeff",
    "\ud800",
    "\U0001f680",
    "[" * 300,
    "{a: " * 300,
    "- " * 300,
    "9" * 5000,
    "\\x1b",
    '"\\e[2J"',
    "yes",
    "null",
    ".nan",
]


def mutant(seed: int) -> str:
    """A damaged spec."""
    rng = random.Random(seed)
    text = rng.choice(BASES)
    kind = rng.randrange(5)
    if kind == 0:
        return text[: rng.randrange(len(text))]
    if kind == 1:
        raw = bytearray(text.encode())
        for _ in range(rng.randint(1, 8)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        return raw.decode("utf-8", "replace")
    if kind == 2:
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(SNIPPETS) + text[at + rng.choice((0, 0, 1, 5)) :]
        return text
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError:
        return text[::-1]
    for _ in range(rng.randint(1, 3)):
        _damage(rng, data)
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=rng.random() < 0.5, default_flow_style=rng.choice((None, True, False))))


def _damage(rng: random.Random, data: Any) -> None:
    """Change, rename, repeat or remove one value; what is repeated is written as an alias."""
    places: list[tuple[Any, Any]] = []
    left = [data]
    seen: set[int] = set()
    while left:
        at = left.pop()
        if id(at) in seen:
            continue
        seen.add(id(at))
        for key in list(at) if isinstance(at, dict) else range(len(at)):
            places.append((at, key))
            if isinstance(at[key], dict | list):
                left.append(at[key])
    if not places:
        return
    at, key = rng.choice(places)
    what = rng.randrange(5)
    if what == 0 and isinstance(at, dict):
        at[rng.choice([x for x in ODD if isinstance(x, str)])] = at.pop(key)
    elif what == 1:
        del at[key]
    elif what == 2:
        other_at, other_key = rng.choice(places)
        if other_key in other_at if isinstance(other_at, dict) else other_key < len(other_at):
            at[key] = other_at[other_key]
    else:
        at[key] = rng.choice(ODD)


def check(text: str) -> None:
    """Assert what holds for any text: no traceback, no defect, places inside the file, nothing that steers a terminal."""
    job, errors = validate_text(text, ENV | {PROFILE: "dev"} if "profiles" in text else ENV, "spec.yaml")
    assert (job is None) == bool(errors)
    lines = 1 + sum(text.count(c) for c in "\n\r\u2028\u2029\x85")
    for e in errors:
        assert e.code in CODES and e.code != "SKY-E900", str(e)
        assert e.where is not None and 1 <= e.where.line <= lines and e.where.col >= 1, str(e)
        assert e.where.text is None or e.where.col <= len(e.where.text) + 1, str(e)
        assert not steering(e.render()), ascii(e.render())


def main(cases: int = 20_000, first: int = 1_000_000) -> None:
    """Check so many mutants; one that fails is named by its seed."""
    for seed in range(first, first + cases):
        try:
            check(mutant(seed))
        except Exception as e:
            raise AssertionError(f"seed {seed}") from e
    print(f"{cases:,} damaged specs: each was checked, or told what is wrong with it")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

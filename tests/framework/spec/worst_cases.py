"""Specs of nearly 250 KB that are as slow to check as a machine can write them, and a way to measure one.

``python -m tests.framework.spec.worst_cases`` checks each in a process of its own and prints seconds and megabytes; names as arguments
choose some of them.
"""

from __future__ import annotations

import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count

SIZE = 250_000
LIMIT = 20
_SOURCE = "job: x\nsource: {format: parquet, path: /in, id: [id], event_time: {column: ts}, schema: {id: bigint, ts: timestamp, x: double"
_REST = "window: {count: 10}\nsink: {path: /out}\n"
_SCORING = "scoring: {f: {expression: x, direction: max}}\n"
_TOP = "queries: {q: {type: topk, scoring: f, k: 3}}\n"


def fill(item: Callable[[int], str], room: int) -> str:
    """As many items as there is room for."""
    parts, left = [], room
    for i in count():
        part = item(i)
        left -= len(part)
        if left < 0:
            return "".join(parts)
        parts.append(part)
    raise AssertionError


def spec(columns: str = "", transform: str = "", scoring: str = _SCORING, queries: str = _TOP, rest: str = "") -> str:
    """A whole spec."""
    return f"{_SOURCE}{columns}}}}}\n{transform}{scoring}{queries}{_REST}{rest}"


def name(i: int) -> str:
    """A name unlike most others."""
    rng = random.Random(i)
    return "".join(rng.choice("abcdefghijklmnop") for _ in range(7)) + str(i)


def derive(text: str) -> str:
    """Derived columns over and over."""
    return spec(transform="transform:\n" + fill(lambda i: f'- derive: {{d{i}: "{text}"}}\n', SIZE - 600))


def where(text: str) -> str:
    """Queries with this condition over and over."""
    return spec(queries="queries:\n" + fill(lambda i: f'  q{i}: {{type: topk, scoring: f, k: 3, where: "{text}"}}\n', SIZE - 600))


def long_sql(item: str, join: str) -> str:
    """Few but long derived columns."""
    one = join.join([item] * (19_000 // (len(item) + len(join))))
    return derive(one)


def nested(opening: str, closing: str, levels: int) -> str:
    """Calls inside one another, over and over."""
    return derive(opening * levels + "x" + closing * levels)


CASES: dict[str, Callable[[], str]] = {
    "struct 26 deep": lambda: spec(transform='transform: [{derive: {d: "' + "struct(" * 26 + "x" + ")" * 26 + '"}}]\n'),
    "decimal[ 26 deep": lambda: spec(transform='transform: [{derive: {d: "' + "decimal[" * 26 + "x" + "]" * 26 + '"}}]\n'),
    "many struct 5 deep": lambda: nested("struct(", ")", 5),
    "many struct 6 deep": lambda: nested("struct(", ")", 6),
    "many abs 20 deep": lambda: nested("abs(", ")", 20),
    "many signs": lambda: nested("- ", "", 900),
    "many maps of types": lambda: derive("cast(x as " + "map<int," * 20 + "int" + ">" * 20 + ")"),
    "many short derived": lambda: derive("x+1"),
    "many calls derived": lambda: derive("concat(x)"),
    "many unknown functions": lambda: derive("foo(bar(baz(x)))"),
    "long sums": lambda: long_sql("x", "+"),
    "long ors": lambda: long_sql("x=1", " or "),
    "long calls": lambda: derive("coalesce(" + ",".join(["upper(x)"] * 400) + ")"),
    "wide calls": lambda: derive("coalesce(" + ",".join(["upper(x)"] * 50) + ")"),
    "long in": lambda: derive("x in (" + ",".join("1" * 1900) + ")"),
    "long strings": lambda: derive("'" + "a" * 19_000 + "'"),
    "unclosed strings": lambda: derive("'" + "''" * 9_000),
    "many quotes": lambda: derive("'" * 999),
    "columns and derived": lambda: spec(
        columns=fill(lambda i: f",c{i}: int", SIZE // 2),
        transform="transform:\n" + fill(lambda i: f"- derive: {{d{i}: c{i}+1}}\n", SIZE // 2 - 900),
    ),
    "columns and wrong names in SQL": lambda: spec(
        columns=fill(lambda i: f",{name(i)}: int", SIZE // 2),
        transform="transform:\n" + fill(lambda i: f"- derive: {{{name(-i - 1)}: {name(i)[::-1]}x}}\n", SIZE // 2 - 900),
    ),
    "columns and wrong names in id": lambda: spec(columns=fill(lambda i: f",{name(i)}: int", SIZE // 2)).replace(
        "id: [id]", "id: [" + fill(lambda i: f"{name(i)[::-1]}z,", SIZE // 2 - 900) + "]"
    ),
    "columns and wrong names in queries": lambda: spec(
        columns=fill(lambda i: f",{name(i)}: int", SIZE // 2),
        queries="queries:\n" + fill(lambda i: f"  q{i}: {{type: topk, scoring: f, k: 3, where: z{name(i)} > 1}}\n", SIZE // 2 - 900),
    ),
    "columns and queries": lambda: spec(
        columns=fill(lambda i: f",c{i}: int", SIZE // 2),
        queries="queries:\n" + fill(lambda i: f"  q{i}: {{type: topk, scoring: f, k: 3, where: c{i} > 1}}\n", SIZE // 2 - 900),
    ),
    "columns of unknown type and queries": lambda: spec(
        columns=fill(lambda i: f",c{i}: what", SIZE // 2),
        queries="queries:\n" + fill(lambda i: f"  q{i}: {{type: topk, scoring: f, k: 3, where: c{i} > 1}}\n", SIZE // 2 - 900),
    ),
    "many queries": lambda: where("x > 1"),
    "many skylines": lambda: spec(
        queries="queries:\n" + fill(lambda i: f"  q{i}: {{type: skyline, dimensions: {{x: min}}}}\n", SIZE - 600)
    ),
    "many carries": lambda: spec(
        columns=fill(lambda i: f",c{i}: int", SIZE // 2),
        queries="queries: {q: {type: topk, scoring: f, k: 3, carry: [" + fill(lambda i: f"c{i},", SIZE // 2 - 900) + "]}}\n",
    ),
    "long expressions": lambda: where("+".join(["x"] * 1900) + " > 1"),
    "wrong long expressions": lambda: where("+".join(["y"] * 15_000) + " > 1"),
    "deep expressions": lambda: where("(" * 5000 + "x" + ")" * 5000 + " > 1"),
    "not not": lambda: where("not " * 5000 + "x > 1"),
    "long in of expressions": lambda: where("x in (" + ",".join("1" * 15_000) + ")"),
    "huge numbers": lambda: where("x > " + "1" * 39_000),
    "fractions": lambda: where("x > 1." + "1" * 30_000 + "e99"),
    "bad characters": lambda: where("?" * 30_000),
    "many parameters of no use": lambda: spec(
        rest="parameters: {" + fill(lambda i: f"{name(i)}: 1, ", SIZE // 2) + "z: 1}\n",
        transform="transform:\n" + fill(lambda i: f'- where: "${{{name(-i - 1)}}}"\n', SIZE // 2 - 900),
    ),
    "many parameters in texts": lambda: spec(
        rest=f"parameters: {{p: {'x + ' * 2_000}1}}\n", transform="transform:\n" + fill(lambda i: '- where: "${p} > 1"\n', SIZE - 9_900)
    ),
    "many parameters that are lists": lambda: spec(
        rest="parameters: {p: [" + fill(lambda i: f"c{i},", SIZE // 2) + "]}\n",
        queries="queries:\n" + fill(lambda i: f'  q{i}: {{type: topk, scoring: f, k: 3, carry: "${{p}}"}}\n', SIZE // 2 - 900),
    ),
    "many fields of a profile": lambda: spec(
        queries="queries:\n" + fill(lambda i: f"  q{i}: {{type: topk, scoring: f, k: 3}}\n", SIZE // 2),
        rest="profiles:\n  dev:\n    queries:\n" + fill(lambda i: f"      q{i}: {{k: 4, kk: 4}}\n", SIZE // 2 - 900),
    ),
    "many scorings": lambda: spec(
        scoring="scoring:\n  f: {expression: x}\n" + fill(lambda i: f"  s{i}: {{expression: x+{i}}}\n", SIZE - 900)
    ),
    "many terms": lambda: spec(
        scoring="scoring:\n  f: {combine: sum, terms: [" + fill(lambda i: "{abs_difference: x},", SIZE - 900) + "]}\n"
    ),
    "unknown fields": lambda: spec(rest=fill(lambda i: f"{name(i)}: 1\n", SIZE - 900)),
    "unknown fields in one line": lambda: "{" + fill(lambda i: f"{name(i)}: 1,", SIZE - 900) + "}",
    "wrong types in one line": lambda: spec(columns=fill(lambda i: f",c{i}: dubble", SIZE - 900)),
    "the same key": lambda: fill(lambda i: "job: x\n", SIZE),
    "secrets in one line": lambda: spec().replace(
        "path: /in", "path: /in, options: {" + fill(lambda i: f"key{i}: !a b,", SIZE - 900) + "}"
    ),
    "secrets": lambda: spec().replace("path: /in", "path: /in, options: {" + fill(lambda i: f"key{i}: !a b,\n ", SIZE - 900) + "}"),
    "aliases": lambda: (
        "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(20))
    ),
    "merges": lambda: "a: &a {" + fill(lambda i: f"k{i}: 1,", 9_000) + "}\n" + fill(lambda i: f"b{i}: {{<<: *a}}\n", SIZE - 9_900),
    "merges of merges": lambda: "a0: &a0 {x: 1}\n" + fill(lambda i: f"a{i + 1}: &a{i + 1} {{<<: [*a{i}, *a{i}], y{i}: 1}}\n", SIZE - 900),
    "merge lists": lambda: "a: &a {x: 1}\nb: {<<: [" + fill(lambda i: "*a,", SIZE - 900) + "]}\n",
    "flow depth": lambda: "a: " + "[" * 120_000 + "]" * 120_000,
    "flow depth of mappings": lambda: "a: " + "{a: " * 60_000,
    "flow keys": lambda: "? " * 120_000,
    "block depth": lambda: "".join(" " * i + f"a{i}:\n" for i in range(700)),
    "dashes": lambda: "- " * 120_000,
    "many nodes": lambda: "a: [" + "x," * 120_000 + "]",
    "errors to recover from": lambda: fill(lambda i: f"k{i}: ]\n", SIZE),
    "late errors to recover from": lambda: fill(lambda i: f"a{i}: b\n", SIZE - 900) + fill(lambda i: f"k{i}: ]\n", 800),
    "late errors after long values": lambda: "a: '" + "x " * 124_000 + "'\n" + fill(lambda i: f"k{i}: ]\n", 800),
    "secrets beside mistakes": lambda: "{" + fill(lambda i: f"? [] : x, key{i}: a,", SIZE - 900) + "}",
    "errors of quotes": lambda: fill(lambda i: f'k{i}: "\n', SIZE),
    "unquoted variables": lambda: fill(lambda i: f"k{i}: {{a: ${{X}}b}}\n", SIZE),
    "control characters": lambda: fill(lambda i: "a: \x01\n", SIZE),
    "variables": lambda: spec(rest="run: {trigger: '" + "${NOPE}" * 30_000 + "'}\n"),
    "names of variables": lambda: spec(rest=fill(lambda i: f"a{i}: ${{{name(i)}}}\n", SIZE - 900)),
    "one long plain value": lambda: "job: " + "a " * 120_000,
    "one long quoted value": lambda: 'job: "' + "\\x41" * 60_000 + '"',
    "one long folded value": lambda: "job: >\n" + "  a\n\n" * 40_000,
    "comments": lambda: "#\n" * 120_000,
    "documents": lambda: "---\n" * 60_000,
    "tags": lambda: fill(lambda i: f"a{i}: !!python/object:os.system x\n", SIZE),
    "a long number": lambda: spec().replace("count: 10", "count: " + "9" * 200_000),
    "long numbers": lambda: spec().replace("k: 3", "k: 1e999999999").replace("count: 10", "count: 1" + "_1" * 100_000),
    "a long duration": lambda: spec().replace("count: 10", "time: " + "1 day " * 40_000),
    "a long duration with a fraction": lambda: spec().replace("count: 10", "time: " + "9" * 100_000 + ".5 days"),
    "a long size": lambda: spec(rest="run: {max_bytes: " + "9" * 100_000 + " MB}\n"),
    "unclosed variables": lambda: spec(rest="run: {trigger: '" + "${" * 120_000 + "'}\n"),
    "unquoted unclosed variables": lambda: "a: {b: " + "${" * 120_000 + "\n",
    "what looks like secrets": lambda: "a: [" + "key" * 80_000 + "\n",
    "a long cron": lambda: spec(rest="schedule: {cron: '" + "1," * 100_000 + "1 * * * *'}\n"),
    "a wide cron": lambda: spec(rest="schedule: {cron: '0-" + "9" * 100_000 + " * * * *'}\n"),
    "rules": lambda: spec(rest="quality:\n  rows:\n" + fill(lambda i: f"  - {{name: r{i}, expect: x>1}}\n", SIZE - 900)),
    "checks": lambda: spec(
        rest="quality:\n  tables:\n"
        + fill(lambda i: f"  - {{table: {name(i)}, expectation: expect_column_to_exist, column: x}}\n", SIZE - 900)
    ),
    "types": lambda: spec(columns=fill(lambda i: f",c{i}: decimal({i},{i})", SIZE - 900)),
    "line ends": lambda: "\r" * SIZE,
    "nothing that can be read": lambda: "\x85\u2028" * 50_000,
}
"""Name -> a spec's text."""


def measured(which: str) -> tuple[float, float, int]:
    """(seconds, megabytes at most in use, mistakes) of checking one, here."""
    from skyband.framework.spec.load import validate_text
    from skyband.framework.spec.parsing.assemble import PROFILE

    text = CASES[which]()
    validate_text(spec(transform="transform: [{derive: {d: concat(x)}}]\n"), {})  # what is read but once
    begun = time.process_time()
    _, errors = validate_text(text, {"LANDING": "x"} | ({PROFILE: "dev"} if "profiles:" in text else {}), "spec.yaml")
    "\n\n".join(e.render() for e in errors)
    return time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, len(errors)


def limited() -> None:
    """End this process after ``LIMIT`` seconds of processor time."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 1))


def all_measured(names: list[str]) -> Iterator[tuple[str, str]]:
    """What a process for each says. It ends after ``LIMIT`` seconds of processor time, however long others keep it waiting."""
    for which in names or list(CASES):
        command = [sys.executable, "-m", __spec__.name, "--one", which]
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited)
        late = f"more than {LIMIT} seconds" if done.returncode == -signal.SIGXCPU else ""
        yield which, late or done.stdout.strip() or done.stderr.strip()[-300:]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print("{:.2f} s  {:.0f} MB  {} mistakes".format(*measured(sys.argv[2])))
    else:
        for which, said in all_measured(sys.argv[1:]):
            print(f"{which:40} {said}", flush=True)

"""An argument of a command, or of a function of ``skyband``, that cannot be used is named by an error of ours."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import skyband
from skyband.jobs.arguments import MOST, listed, positive, texts, whole, whole_number
from skyband.jobs.cli import COMMANDS, GROUPS, command_line, main
from skyband.jobs.parser import leaves
from tests.framework.verify import small
from tests.jobs.test_machines import NEAR, known
from tests.spark.cuts import stream
from tests.spark.jobs import write_spec

NUMBERS = ("", "x", "-1", "1e26", "1" + "0" * 26, "-" + "9" * 30, "9" * 5000, "nan", "inf", "-inf", "0x10", "\udcff")
PATHS = ("a\0b", "\udcff", "x" * 5000, "/proc/self/mem", "not/there", "/dev/null/x")
NOT_YET = {"verify"}
"""Commands whose numbers have a budget of their own to be held to."""


def numbers() -> Iterator[tuple[str, argparse.Action]]:
    """(command, option) of all commands' options that are read as anything but text."""
    for parser in leaves(command_line()):
        for action in parser._actions:
            if action.type is not None and parser.prog.split()[1] not in NOT_YET:
                yield parser.prog.removeprefix("skyband "), action


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = write_spec(tmp_path_factory.mktemp("arguments"), queries=NEAR)
    known(small.make(path, stream(2, 60)))
    return path


@pytest.mark.parametrize(("command", "option"), [pytest.param(c, a, id=f"{c} {a.option_strings[0]}") for c, a in numbers()])
def test_a_number_that_an_option_does_not_take_is_named(command: str, option: argparse.Action, capsys: pytest.CaptureFixture[str]) -> None:
    (name, *_) = option.option_strings
    # Arguments are read before anything is looked at: there need be no spec.
    spec = [] if command == "demo" else ["spec"]
    for given in NUMBERS:
        word = f"-n{given or 'x'}" if name == "-n" else f"{name}={given}"
        assert main([*command.split(), *spec, word]) == 2, given
        err = capsys.readouterr().err
        assert err.startswith(f"SKY-E201 {name} takes a ") and len(err) < 300, err


def test_every_numeric_option_is_read_by_them() -> None:
    found = {f"{command} {action.option_strings[0]}" for command, action in numbers()}
    assert {"query --limit", "query --k", "sql --limit", "history --limit", "preview -n", "preview --sample", "explain --rate"} <= found
    assert not [a for _, a in numbers() if a.type in (int, float)]


@pytest.mark.parametrize("given", PATHS)
@pytest.mark.parametrize(
    "words",
    [["validate", "{}"], ["explain", "{}"], ["query", "{}", "near"], ["sql", "{}", "select 1"], ["status", "{}"], ["run", "{}", "--once"],
     ["why", "{}", "near", "1"], ["test", "{}"], ["report", "{}"], ["init", "{}/x.yaml"], ["init", "--from", "{}", "{dir}/new.yaml"],
     ["report", "{spec}", "--out", "{}"], ["quality", "{spec}", "--docs", "{}/x"], ["query", "{spec}", "{}"],
     ["query", "{spec}", "near", "--at", "{}"],
     ["query", "{spec}", "near", "--window", "{}"], ["query", "{spec}", "near", "--key", "grp={}"], ["sql", "{spec}", "select '{}"],
     ["why", "{spec}", "near", "{}"]],
    ids=" ".join,
)  # fmt: skip
def test_a_name_that_cannot_be_one_is_refused(
    words: list[str], given: str, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main([w.replace("{spec}", str(spec)).replace("{dir}", str(tmp_path)).replace("{}", given) for w in words])
    err = capsys.readouterr().err
    # A file may well be written by such a name.
    assert code in (1, 2) or (code == 0 and words[2:3] in (["--out"], ["--docs"]))
    assert ("SKY-E" in err or code == 0) and "SKY-E900" not in err and "Traceback" not in err


class Odd:
    """A number by ``__index__`` alone."""

    def __index__(self) -> int:
        return 2


VALUES: tuple[Any, ...] = (
    None, -1, 0, 1, 10**26, -(10**26), 1.5, float("nan"),
    float("inf"), True, "", "x", "\0", "\udcff", b"x", [], {}, {"a": 1}, {"grp": None},
    {"grp": 3}, {"grp": "\0"}, {3: "x"}, object(), dt.date(2020, 1, 1), dt.datetime.min, dt.datetime.max,
    dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14))), np.int64(3), np.float64("nan"), np.datetime64("2020"), Odd(), len,
    ["a", "\0"], "../out/near", "9" * 5000, pd.NaT, pd.Timestamp(2024, 1, 2), range(3), "2024-01-02", "9999999999999999 days",
    "99999999999999999999 rows", Path("x"), "x" * 5000,
)  # fmt: skip
CALLS: dict[str, Callable[[skyband.Job, Any], Any]] = {
    "load path": lambda job, v: skyband.load(v),
    "load env": lambda job, v: skyband.load(job.path, v),
    "validate path": lambda job, v: skyband.validate(v),
    "validate env": lambda job, v: skyband.validate(job.path, v),
    "validate data": lambda job, v: skyband.validate(job.path, data=v),
    "explain rate": lambda job, v: job.explain(v),
    "graph language": lambda job, v: job.graph(v),
    "sql statement": lambda job, v: job.sql(v),
    "sql limit": lambda job, v: job.sql("select 1", v),
    "table name": lambda job, v: job.table(v),
    "query name": lambda job, v: job.query(v),
    "query at": lambda job, v: job.query("near", at=v),
    "query k": lambda job, v: job.query("near", k=v),
    "query window": lambda job, v: job.query("near", window=v),
    "query key": lambda job, v: job.query("near", key=v),
    "query limit": lambda job, v: job.query("near", limit=v),
    "ask limit": lambda job, v: job.ask("near", limit=v),
}


@pytest.mark.parametrize("call", CALLS)
def test_whatever_python_gives_is_answered_or_named(spec: Path, call: str) -> None:
    job = skyband.load(spec)
    refused = 0
    for value in VALUES:
        try:
            CALLS[call](job, value)
        except skyband.SkybandError as e:
            refused += 1
            assert e.code != "SKY-E900" and e.message and len(e.message) < 6_000, (value, e)
        except skyband.SpecErrors as e:
            refused += 1
            assert {x.code for x in e.errors} == {"SKY-E100"}, (value, e)
    assert refused > 5 or call in ("validate path", "validate data")


@pytest.mark.parametrize("value", [3, b"x", object(), "all", ["\udcff"], [3]])
def test_what_a_run_is_given_is_looked_at_first(spec: Path, value: Any) -> None:
    with pytest.raises(skyband.SkybandError) as e:
        skyband.load(spec).run(demote=value)
    assert e.value.code == "SKY-E201" and "demote" in e.value.message
    with pytest.raises(skyband.SkybandError) as e:
        skyband.load(spec).run(log="loud")  # type: ignore[arg-type]
    assert e.value.code == "SKY-E201" and "log" in e.value.message


def test_what_the_issue_names(spec: Path) -> None:
    job = skyband.load(spec)
    for said, call in {
        "is not the name of a file": lambda: skyband.load("\0"),
        "at takes an instant, not a date": lambda: job.query("near", at=dt.date(2020, 1, 1)),  # type: ignore[arg-type]
        "limit takes a whole number from 0 to 1,000,000,000, not -1": lambda: job.query("near", limit=-1),
        "the job has no table '../out/near'": lambda: job.table("../out/near"),
    }.items():
        with pytest.raises((skyband.SkybandError, skyband.SpecErrors)) as e:
            call()
        assert said in str(e.value)


def test_numbers_of_every_kind_are_taken() -> None:
    assert [whole_number("n", v) for v in (0, MOST, np.int64(3), Odd())] == [0, MOST, 3, 2]
    assert whole("--n")("12") == 12 and positive("r", 1) == 1.0 and positive("r", np.float64(0.5)) == 0.5 and positive("r", "2e3") == 2000.0
    assert texts("env", {"A": "b"}) == {"A": "b"} and listed("d", ("a",)) == ["a"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["qurey"], "invalid choice: 'qurey' (did you mean 'query'?)"),
        (["replay_rejected"], "invalid choice: 'replay_rejected' (did you mean 'replay-rejected'?)"),
        (["zzz"], "invalid choice: 'zzz' (choose from init, validate, "),
        (["query", "spec", "best", "--fromat", "json"], "unrecognized arguments: --fromat json (did you mean '--format'?)"),
        (["query", "spec", "best", "--format=jsno"], "argument --format: invalid choice: 'jsno' (did you mean 'json'?)"),
        (["queries", "ad"], "argument VERB: invalid choice: 'ad' (did you mean 'add'?)"),
        (["queries", "remove", "spec", "best", "--frmat=json"], "unrecognized arguments: --frmat=json (did you mean '--format'?)"),
        (["query", "spec", "best", "more"], "unrecognized arguments: more\n"),
    ],
)
def test_a_misspelled_command_choice_or_option_gets_the_nearest(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_the_help_lists_every_command_once_below_its_task(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    page = capsys.readouterr().out
    starts = [line.split()[0] for line in page.splitlines() if line.startswith("  ") and not line.startswith("   ")]
    assert sorted(starts) == sorted([name.replace("_", "-") for name in COMMANDS] + ["-h,", "--version"])
    assert all(f"\n{title}:\n" in page for title in GROUPS)

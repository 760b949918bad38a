"""Random damage to what a job keeps below ``_skyband``, and every command over it.

A command says what is wrong by a code of its own (never SKY-E900), in a bounded time. One that shows changes nothing; one that writes
changes nothing outside of the sink. ``python -m tests.framework.streaming.job.fuzz [cases] [first seed] [spark | local]`` runs many, over
a job that Spark ran, or the local engine: then runs and rebuilds go on without Spark, and do what they do to a sink that is whole.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.job.layout import Layout
from skyband.jobs.cli import main
from tests.spark.cuts import stream
from tests.spark.jobs import write_file, write_spec

NEAR = "  near: {type: topk_pairs, scoring: near, k: 3, carry: [x]}\n"
SHOWING: list[list[str]] = [
    ["status"], ["history"], ["plan"], ["quality"], ["rejected"], ["verify"], ["query", "near"], ["query", "near", "--k", "2"],
    ["why", "near", "10005"], ["sql", "select * from near_now"], ["sql", "show tables"], ["sql", "select * from near_rows"],
    ["report", "--out", "{out}"], ["validate"], ["validate", "--data"], ["explain"], ["views"], ["graph"], ["preview"],
]  # fmt: skip
WRITING: list[list[str]] = [
    ["run", "--quiet"], ["run", "--quiet", "--rebuild-results"], ["maintain"], ["rebuild", "--quiet"], ["rebuild", "--quiet", "--added"],
    ["rebuild", "--undo"], ["rebuild", "--drop-old"], ["replay-rejected", "{rows}"], ["reset", "--yes"],
]  # fmt: skip
SECONDS = 120
"""After which a command hangs."""

TEXTS = [b"", b"null", b"[]", b"{}", b"1", b"true", b'"x"', b"\0" * 64, b"\xff\xfe\x80", b"{" * 5_000,
         b"[" * 100_000, b'{"a":' * 3_000, b"v1\n",
         b"v1\nnull\nnull\nnull", b"v1\n[]\n[]\n-", b"v1\n{}\n{}\n{}", b"1e999", b"-" * 10, b"{\"job\": 1e999}", b"9" * 5_000]  # fmt: skip
VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 10**18, 10**40, -(10**40), 1e308, "", "x", "..", ".", "/", "../../victim", "/tmp", "a/b", "\0", "\ud800",
    "x" * 100_000, "²",
    [], {}, [[]], [None], {"": None}, [1, 2, 3], ["../../victim"], {"../../victim": {}}, "next", "old", "file:///etc/passwd", "file:///%00",
    "http://[", "2020-01-01T00:00:00+00:00", "2020-01-01", "9999-12-31T23:59:59+00:00",
]  # fmt: skip
PLANTS = [
    "swap.json", "taken.json", "sent.json", "alerts.json", "drop.json", "files.json", "run.json", "rest.json",
    "replayed/x.json", "replayed/..json",
    "checkpoint/offsets/999", "checkpoint/offsets/1²", "checkpoint/commits/999999999999999999999",
    "checkpoint/commits/x", "checkpoint/sources/0/99",
    "checkpoint/sources/0/99.compact", "checkpoint/sources/0/1²", "checkpoint/sources/1/7", "filling/0", "next/_skyband/job.json",
    "next/_skyband/swap.json", "back/_skyband/job.json", "old/_skyband/job.json", "gone/x", "added/_skyband/job.json",
    "control/finish-1.json",
    "control/finish-x.json", "engine.lock", "lock", "x", "..x", "logs/engine-20200101T000000Z-1.log", "checkpoint/state/0/0/9.zip",
    "checkpoint/state/0/0/9²9.changelog", "state/0/0123456789abcdef.list", "state/0/0123456789abcdef.0", "state/x/0123456789abcdef.list",
    "state/../../../victim/0123456789abcdef.list", "control/wake-x.json", "control/drop-1.json", "control/flush-0.json",
]  # fmt: skip


class Failed(AssertionError):
    """A command that did what no command may do."""


class Hangs(BaseException):
    """A command takes too long."""


class Place:
    """A copy of a job (its spec, source and sink in one directory) that a case may damage; a directory of somebody else's is beside it."""

    def __init__(self, made: Path, directory: Path) -> None:
        self.made, self.directory = made, directory
        self.job = directory / "job"
        self.spec = self.job / "spec.yaml"
        self.out = directory / "out" / "r.html"
        self.rows = directory / "out" / "rows.csv"

    def fresh(self) -> Layout:
        """The job as it was made. A checkpoint names its place, so the copy is always at the same one."""
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.copytree(self.made, self.job, symlinks=True)
        (self.directory / "victim" / "_delta_log").mkdir(parents=True)
        (self.directory / "victim" / "_delta_log" / "0.json").write_text("theirs")
        self.out.parent.mkdir()
        self.rows.write_text("id,ts,grp,x,y,side\n7,2020-01-01 00:00:00,p,1,1,a\n")
        return Layout(str(self.job / "out"))

    def everything(self, but: Path | None = None) -> dict[str, tuple[Any, ...]]:
        """All files, directories and links, but those below ``but``, in a form that changes with them; without what commands write."""
        found: dict[str, tuple[Any, ...]] = {}
        todo = [str(self.directory)]
        while todo:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    if entry.path in (str(self.out.parent), str(but)):
                        continue
                    s = entry.stat(follow_symlinks=False)
                    is_dir = entry.is_dir(follow_symlinks=False)
                    # A directory's time and size change with what is in it, which is listed itself.
                    found[entry.path] = (s.st_mode, s.st_ino) if is_dir else (s.st_mode, s.st_ino, s.st_size, s.st_mtime_ns, s.st_nlink)
                    if is_dir:
                        todo.append(entry.path)
        return found


def damage(rng: random.Random, layout: Layout) -> str:
    """Damages something below ``_skyband``, sometimes of a table; what was done."""
    home, root = layout.home, layout.root
    files = sorted(p for p in home.rglob("*") if p.is_file() and not p.is_symlink())
    if rng.random() < 0.15:
        files = sorted(p for p in root.rglob("*") if p.is_file() and not p.is_symlink())
    own = [p for p in files if p.suffix == ".json" and p.parent == home]
    path = rng.choice(own if own and rng.random() < 0.4 else files)
    name = path.relative_to(root)
    kind = rng.choice(
        ["text", "value", "value", "bytes", "cut", "swap", "plant", "plant", "gone", "directory", "link", "pipe", "huge", "repeat"]
    )
    if kind == "plant":
        path = home / rng.choice(PLANTS)
        name = path.relative_to(root)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(rng.choice([*TEXTS, *(p.read_bytes() for p in rng.sample(files, 3)), _journal(rng)]))
    elif kind == "text":
        path.write_bytes(rng.choice(TEXTS))
    elif kind == "value":
        path.write_bytes(_changed(rng, path.read_bytes()))
    elif kind == "bytes":
        data = bytearray(path.read_bytes() or b"\0")
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(bytes(data))
    elif kind == "cut":
        data = bytes(path.read_bytes())
        path.write_bytes(data[: rng.randrange(len(data) + 1)])
    elif kind == "repeat":
        path.write_bytes(path.read_bytes() * rng.randint(2, 5))
    elif kind == "swap":
        other = rng.choice(files)
        a, b = path.read_bytes(), other.read_bytes()
        path.write_bytes(b)
        other.write_bytes(a)
    elif kind == "huge":
        with path.open("r+b") as file:
            file.truncate(600 << 20)
    else:
        path = rng.choice([path, path, *path.parents][: max(2, len(path.relative_to(home).parts) + 1)]) if home in path.parents else path
        name = path.relative_to(root)
        was = path.is_dir()
        if was:
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        if kind == "directory":
            if was:
                path.write_bytes(b"x")
            else:
                path.mkdir()
        elif kind == "link":
            path.symlink_to(rng.choice([root.parent.parent / "victim", Path("/etc/passwd"), root / "nowhere", root, path]))
        elif kind == "pipe":
            os.mkfifo(path)
    return f"{kind} {name}"


def _journal(rng: random.Random) -> bytes:
    names = [
        "near",
        "near_now",
        "runs",
        "heads",
        "theirs",
        "../victim",
        "../../victim",
        "/tmp",
        "",
        ".",
        "job.json",
        "checkpoint",
        "lock",
        "x",
    ]
    some = lambda: rng.sample(names, rng.randint(0, 3))  # noqa: E731
    said = {
        "from": rng.choice(["next", "back", "added", "../../victim", "..", "", "old"]),
        "to": rng.choice(["old", "gone", "..", "../../../victim"]),
        "out": [some(), some()], "in": [some(), some()],
    }  # fmt: skip
    return json.dumps(said).encode()


def _changed(rng: random.Random, data: bytes) -> bytes:
    """JSON with one value, key or element changed; of lines of JSON one of them."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    whole = "\n".join(lines)
    for text in [whole, *rng.sample(lines, len(lines))[:200]]:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        made = json.dumps(_odd(rng, value))
        return whole.replace(text, made, 1).encode("utf-8", "surrogateescape")
    return rng.choice(TEXTS)


def _odd(rng: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        made = dict(value)
        match rng.randrange(6):
            case 0:
                del made[key]
            case 1:
                made[rng.choice(["x", "", "..", "../../victim", key + "x"])] = made.pop(key)
            case 2:
                made[rng.choice(["x", "", "../../victim"])] = rng.choice(VALUES)
            case _:
                made[key] = _odd(rng, made[key])
        return made
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [*value[:at], _odd(rng, value[at]), *value[at + 1 :]]
    if isinstance(value, str) and value[:1] in ("{", "[") and rng.random() < 0.7:
        with contextlib.suppress(ValueError):
            return json.dumps(_odd(rng, json.loads(value)))
    return rng.choice(VALUES)


def _no_spark(*_: object, **__: object) -> None:
    raise SkybandError("SKY-E300", "there is no engine in this test")


@contextlib.contextmanager
def bounded(seconds: int) -> Iterator[None]:
    """Raises Hangs inside when so many seconds have passed."""

    def late(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


SPARK_STARTS = (
    "skyband.framework.streaming.spark.session.get_session",
    "skyband.framework.why.source.get_session",
    "skyband.framework.verify.brute_force.sample.get_session",
)


def asked(command: list[str], place: Place) -> tuple[int | str, str]:
    """The exit code of a command (or what it raised), and what it said."""
    name, *rest = command
    out, err = io.StringIO(), io.StringIO()
    words = [name, str(place.spec), *(a.format(out=place.out, rows=place.rows) for a in rest)]
    with contextlib.ExitStack() as stack:
        for engine in SPARK_STARTS:
            with contextlib.suppress(AttributeError, ImportError):
                stack.enter_context(patch(engine, _no_spark))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        try:
            with bounded(SECONDS):
                code: int | str = main(words)
        except Hangs:
            code = f"hangs\n{traceback.format_exc()}"
        except BaseException:
            code = traceback.format_exc()
    return code, out.getvalue() + err.getvalue()


def case(seed: int, place: Place, showing: list[list[str]], writing: list[list[str]]) -> list[str]:
    """Damages a fresh job as ``seed`` says, and runs the commands over it; what they did wrong."""
    rng = random.Random(seed)
    layout = place.fresh()
    what = " and ".join(damage(rng, layout) for _ in range(rng.choice([1, 1, 1, 2])))
    before = place.everything()
    wrong = []
    for command in showing:
        wrong += [f"seed {seed}, {what}: {w}" for w in _held(command, place, before, None)]
    for command in writing:
        outside = place.everything(but=layout.root)
        wrong += [f"seed {seed}, {what}: {w}" for w in _held(command, place, outside, layout.root)]
    return wrong


def _held(command: list[str], place: Place, before: dict[str, tuple[Any, ...]], sink: Path | None) -> Iterator[str]:
    code, said = asked(command, place)
    if isinstance(code, str):
        yield f"{command} raised {code}\n{said[-2000:]}"
    elif code not in (0, 1, 2, 3, 4) or "SKY-E900" in said or "Traceback" in said:
        yield f"{command} ended with {code}: {said[-3000:]}"
    elif code in (2, 3) and not re.search(r"SKY-E\d{3}", said):
        yield f"{command} ended with {code} and named no error: {said[-2000:]}"
    after = place.everything(but=sink)
    if sink is not None and after != before:
        # What is put back goes into the source.
        after = {p: s for p, s in after.items() if p in before or not p.startswith(str(place.job / "in"))}
    if after != before:
        odd = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
        yield f"{command} changed {sorted(odd)[:10]}"


def run(made: Path, directory: Path, cases: int, first: int, tell: Callable[[str], object] = print) -> int:
    """How many cases went wrong."""
    place, bad = Place(made, directory), 0
    for seed in range(first, first + cases):
        wrong = case(seed, place, SHOWING, WRITING)
        for w in wrong:
            tell(w)
        bad += bool(wrong)
        if (seed - first + 1) % 100 == 0:
            tell(f"{seed - first + 1:,} cases, {bad:,} of them wrong")
    return bad


def engine_made(directory: Path, engine: str = "spark") -> None:
    """A job that an engine has run, twice, and rebuilt, at the place where its copies are: a checkpoint names its own."""
    job = directory / "job"
    job.mkdir(parents=True)
    spec = write_spec(job, queries=NEAR, **({"partition": True, "buckets": 2} if engine == "local" else {}))
    if engine == "local":
        spec.write_text(spec.read_text().replace("run: {", "run: {engine: local, "))
    write_file(job, "0.csv", stream(1, 120)[:60], at=0)
    for step in (["run", "--quiet"], ["rebuild", "--quiet"], ["run", "--quiet", "--finish"]):
        if step[-1] == "--finish":
            write_file(job, "1.csv", stream(1, 120)[60:], at=10)
        code = main([step[0], str(spec), *step[1:]])
        assert code == 0, f"{step} ended with {code}"


if __name__ == "__main__":
    many = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    start = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    by = sys.argv[3] if len(sys.argv) > 3 else "spark"
    with tempfile.TemporaryDirectory(prefix="skyband-fuzz-") as scratch:
        at = Path(scratch) / "place"
        engine_made(at, by)
        if by == "local":
            # A file that waits: runs over a damaged sink have something to do.
            write_file(at / "job", "2.csv", stream(2, 20), at=20)
        shutil.copytree(at / "job", Path(scratch) / "made")
        failed = run(Path(scratch) / "made", at, many, start)
    print(f"{many:,} cases, {failed:,} of them wrong")
    # Whatever Spark has left behind shall not keep this process.
    sys.stdout.flush()
    os._exit(1 if failed else 0)

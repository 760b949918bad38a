"""Describe specs for the loader by asking Skyband's command, with a cache in files. Standard library only.

Airflow parses its directory repeatedly, and once more for every task. Validating a spec takes 20 ms and starting Python half a second, so
the answers are cached under a hash of everything that they depend on.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time as clock
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

FORMAT: Final = 1
"""The format of the data, that of ``skyband.framework.plan.facts``."""
SECONDS: Final = 20.0
"""Seconds for all specs that are not cached; Airflow gives a file 30. The next parse asks for the rest."""
SHARE: Final = 25
"""Specs per process."""
GOOD_FOR: Final = 24 * 3600.0
"""Seconds that facts of a valid spec are cached. They also depend on tables of queries, which the job validates again."""
BROKEN_FOR: Final = 120.0
"""Seconds that findings of a broken spec are cached: something missing may exist by then."""
_SCHEDULED: Final = re.compile(r"""^(?:schedule|"schedule"|'schedule')[ \t]*:""", re.MULTILINE)
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_BETWEEN: Final = re.compile(r"""[\s,:\[\]{}"']+""")
_AIRFLOWS: Final = ("AIRFLOW__", "_AIRFLOW", "__AIRFLOW", "AIRFLOW_CONN_", "AIRFLOW_VAR_")

Fact = dict[str, Any]


def specs(directories: str) -> list[Path]:
    """Return the sorted ``.yaml`` and ``.yml`` files of directories (separated as in PATH) with a line that begins with ``schedule:``."""
    found: set[Path] = set()
    for directory in filter(None, directories.split(os.pathsep)):
        path = Path(directory).absolute()
        found.update(p for p in path.glob("*.y*ml") if p.suffix in (".yaml", ".yml") and not p.name.startswith((".", "_")))
    return [p for p in sorted(found) if p.is_file() and _SCHEDULED.search(_read(p))]


def command(named: str | None) -> list[str]:
    """Return Skyband's command as words: ``named`` (in shell syntax), else the checkout's own, else the one on PATH."""
    if named:
        return shlex.split(named)
    here = Path(os.path.realpath(__file__)).parents[2] / ".venv" / "bin" / "skyband"
    return [str(here) if here.exists() else shutil.which("skyband") or "skyband"]


def environment() -> dict[str, str]:
    """Return the environment for Skyband's processes: this one without Airflow's configuration, which contains passwords."""
    return {k: v for k, v in os.environ.items() if not k.startswith(_AIRFLOWS)}


def facts(paths: Sequence[Path], words: Sequence[str]) -> list[Fact]:
    """Return the facts of specs, in their order, from the cache or from the command ``words``; specs that took too long are left out.

    If the command cannot be run, specs that are not cached are broken, with that as their finding.
    """
    keys = {path: _key(path, words) for path in paths}
    known = {path: kept for path in paths if (kept := _kept(keys[path])) is not None}
    missing = [path for path in paths if path not in known]
    if missing:
        found = _ask_all(missing, words)
        known |= found
        _keep({keys[path]: fact for path, fact in found.items() if fact.get("format") == FORMAT})
    return [known[path] for path in paths if path in known]


def broken(path: Path, findings: str) -> Fact:
    """Return the fact of a spec that cannot be used."""
    return {"file": str(path), "job": None, "findings": findings, "schedule": None, "text": ""}


def _ask_all(paths: Sequence[Path], words: Sequence[str]) -> dict[Path, Fact]:
    """Ask about many specs by several processes, so that a parse is fast even if a whole directory is new."""
    many = max(1, min(os.cpu_count() or 1, len(paths) // SHARE))
    with ThreadPoolExecutor(many) as pool:
        return {path: fact for part in pool.map(lambda n: _ask(paths[n::many], words), range(many)) for path, fact in part.items()}


def _ask(paths: Sequence[Path], words: Sequence[str]) -> dict[Path, Fact]:
    found: dict[Path, Fact] = {}
    try:
        child = subprocess.Popen(
            [*words, "airflow", "describe", *map(str, paths)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=environment(), start_new_session=True,
        )  # fmt: skip
    except OSError as e:
        return {p: broken(p, _not_run(words, e.strerror or str(e))) for p in paths}
    late = threading.Event()

    def stop() -> None:
        late.set()
        child.kill()

    timer = threading.Timer(SECONDS, stop)
    timer.start()
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.append(child.stderr.read() if child.stderr else ""), daemon=True)
    reader.start()
    try:
        assert child.stdout is not None
        for path, line in zip(paths, child.stdout, strict=False):
            found[path] = _checked(path, line)
        child.wait()
        reader.join()
    finally:
        timer.cancel()
        child.stdout.close() if child.stdout else None
    if late.is_set():
        print(f"skyband: {len(paths) - len(found)} of {len(paths)} specs are left for the next parse", file=sys.stderr)
        return found
    last = (errors[0].strip().splitlines() or ["no reason given"])[-1]
    return {p: found[p] if p in found else broken(p, _not_run(words, last)) for p in paths}


def _checked(path: Path, line: str) -> Fact:
    try:
        fact = json.loads(line)
    except ValueError:
        fact = None
    if not isinstance(fact, dict) or fact.get("format") != FORMAT:
        return broken(path, "the loader and the command are of different versions: run `skyband airflow install` again")
    return fact


def _not_run(words: Sequence[str], why: str) -> str:
    return f"the command {shlex.join(words)} cannot be run: {why}\n  hint: SKYBAND_COMMAND names the command of the pipeline's environment"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _key(path: Path, words: Sequence[str]) -> str:
    """Return a hash of what the facts depend on: the text and included texts, the path, the command, and named variables."""
    text = _read(path)
    named = dict.fromkeys(word for word in _BETWEEN.split(text) if word.endswith((".yaml", ".yml")) and not word.startswith(("/", "..")))
    included = (path.parent / word for word in named)  # perhaps more than are included, which is harmless
    text += "".join(_read(file) for file in included if file.is_file())
    names = {*_VARIABLE.findall(text), "SKYBAND_ALLOWED_ROOTS", "SKYBAND_PROFILE", "SKYBAND_VARIABLES"}
    on = [FORMAT, str(path), text, list(words), sorted((n, os.environ.get(n)) for n in names)]
    return hashlib.sha256(json.dumps(on).encode()).hexdigest()


def _directory() -> Path:
    """Return the directory of the cache, which only this user may write to, since DAGs are made from it."""
    base = os.environ.get("SKYBAND_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "skyband")
    return Path(base) / "airflow"


def _kept(key: str) -> Fact | None:
    try:
        file = _directory() / f"{key}.json"
        at = file.lstat()
        if at.st_uid != os.getuid():
            return None
        fact: Fact = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return fact if 0 <= clock.time() - at.st_mtime < (BROKEN_FOR if fact["findings"] else GOOD_FOR) else None


def _keep(found: Mapping[str, Fact]) -> None:
    """Cache facts, and remove old ones. If the cache cannot be written, the next parse asks again."""
    try:
        directory = _directory()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.stat().st_uid != os.getuid() or directory.stat().st_mode & 0o022:
            return
        for key, fact in found.items():
            temporary = directory / f".{key}.{os.getpid()}"
            temporary.write_text(json.dumps(fact), encoding="utf-8")
            os.replace(temporary, directory / f"{key}.json")
        for old in directory.iterdir():
            if clock.time() - old.stat().st_mtime > GOOD_FOR:
                old.unlink(missing_ok=True)
    except OSError as e:
        print(f"skyband: facts of specs cannot be cached: {e}", file=sys.stderr)

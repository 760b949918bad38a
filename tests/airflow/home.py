"""A real Airflow with a home of its own: its database, its directory of specs, the loader of this checkout, this checkout's command."""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.spark.jobs import write_file, write_spec

ROOT = Path(__file__).resolve().parents[2]
BIN = ROOT / ".venv-airflow" / "bin"
COMMAND = shlex.join(["env", f"PYTHONPATH={ROOT}", sys.executable, "-P", "-m", "skyband.jobs.cli"])
FAR = "  far5: {type: topk_pairs, scoring: far, k: 5, carry: [x]}\n"
CHECK = "  tables:\n    - {{table: far5, expectation: expect_column_values_to_be_between, column: score, max_value: {most}}}\n"


@dataclass
class Home:
    """Below ``directory``: ``airflow`` is AIRFLOW_HOME, ``specs`` the directory of specs, ``cache`` what the loader keeps."""

    directory: Path
    more: dict[str, str] = field(default_factory=dict)

    @property
    def specs(self) -> Path:
        return self.directory / "specs"

    @property
    def env(self) -> dict[str, str]:
        own = {
            "AIRFLOW_HOME": str(self.directory / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "airflow_dags"),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "SKYBAND_COMMAND": COMMAND,
            "SKYBAND_SPECS": str(self.specs),
            "SKYBAND_CACHE": str(self.directory / "cache"),
            "SKYBAND_MASTER": "local[2]",
        }
        return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SKYBAND_FAILPOINT")} | own | self.more

    def airflow(self, *arguments: str, seconds: float = 600) -> subprocess.CompletedProcess[str]:
        """A command of Airflow, to its end."""
        return subprocess.run(
            [BIN / "airflow", *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            start_new_session=True,
        )

    def python(self, code: str, seconds: float = 300) -> str:
        """What ``code`` prints in Airflow's Python."""
        done = subprocess.run([BIN / "python", "-c", code], env=self.env, capture_output=True, text=True, timeout=seconds, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of Airflow's database."""
        with sqlite3.connect(f"file:{self.directory}/airflow/airflow.db?mode=ro", uri=True) as db:
            return db.execute(sql).fetchall()

    def states(self) -> dict[str, str]:
        """Task -> state, of the newest run."""
        return dict(
            self.rows("select task_id, state from task_instance where run_id = (select run_id from dag_run order by id desc limit 1)")
        )

    def events(self) -> dict[str, dict[str, Any]]:
        """Asset -> what its newest event carries."""
        found = self.rows("select a.name, e.extra from asset_event e join asset a on a.id = e.asset_id order by e.id")
        return {name: json.loads(extra) for name, extra in found}

    def job(
        self, name: str, files: int = 2, schedule: str = "{cron: '@daily', retries: {count: 2, wait: 1 second}}", check: str = ""
    ) -> Path:
        """A small job below ``directory/name``, its spec among the others; the job's directory."""
        place = self.directory / name
        place.mkdir()
        for n in range(files):
            write_file(place, f"{n}.csv", ROWS[50 * n : 50 * (n + 1)], at=n)
        spec = write_spec(place, max_files=1, job=name, queries=FAR)
        text = spec.read_text().replace("  max_rejected: 100%\n", f"  max_rejected: 100%\n{check}")
        self.specs.mkdir(exist_ok=True)
        temporary = self.specs / f".{name}"
        temporary.write_text(f"{text}schedule: {schedule}\n")
        spec.unlink()
        temporary.rename(self.specs / f"{name}.yaml")
        return place


def _rows() -> list[list[Any]]:
    import random

    from tests.spark.jobs import stamp

    rng = random.Random(7)
    return [[i, stamp(i), "g", rng.random(), rng.random(), "ab"[i % 2]] for i in range(2000)]


ROWS = _rows()

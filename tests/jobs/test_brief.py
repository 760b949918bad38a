"""What a run has Spark compile with: its first compiler alone, where it is over soon or has Spark move blocks only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import pytest

from skyband.framework.base.errors import SkybandError
from skyband.framework.streaming.spark import session
from skyband.jobs.cli import main
from skyband.jobs.running import streaming
from tests.spark.cuts import stream, write
from tests.spark.jobs import write_spec

RULE = '  rows:\n    - {name: sane_x, expect: "x < 1000000"}\n'


@pytest.mark.parametrize(
    ("little", "rule", "how", "brief"),
    [
        (True, False, "--once", True),
        (True, True, "--once", True),
        (True, False, "--continuous", False),
        (False, False, "--once", True),
        (False, False, "--finish", True),
        # A rule of rows: Spark reads, and has much to do.
        (False, True, "--once", False),
        (False, False, "--continuous", False),
    ],
)
def test_who_is_brief(
    little: bool, rule: bool, how: str, brief: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write_spec(tmp_path)
    assert RULE in spec.read_text()
    if not rule:
        spec.write_text(spec.read_text().replace(RULE, ""))
    write(tmp_path, stream(1, 20), 1)
    asked: list[bool] = []

    def no_spark(*_: Any, quick: bool, **__: Any) -> NoReturn:
        asked.append(quick)
        raise SkybandError("SKY-E300", "there is none here")

    monkeypatch.setattr(session, "get_session", no_spark)
    monkeypatch.setattr(streaming, "QUICK_BYTES", 1 << 20 if little else 0)
    assert main(["run", str(spec), how]) == 3 and "there is none here" in capsys.readouterr().err
    assert asked == [brief]

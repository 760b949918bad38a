"""Every example of the tests validates, quickly and without the heavy libraries."""

import subprocess
import sys
from pathlib import Path

import pytest

from skyband.framework.queries.registry import QUERY_TYPES
from skyband.framework.queries.topk_pairs.query_type import TopKPairs
from skyband.framework.spec.load import validate_text
from skyband.framework.spec.models.scoring import GlobalScoring
from skyband.framework.spec.models.source import SourceColumn
from tests.framework.spec.examples import ENV, OTHERS, SENSORS, other


def test_the_sensor_example_validates_with_defaults_and_units() -> None:
    job, errors = validate_text(SENSORS, ENV)
    assert errors == [] and job is not None
    assert job.source.path == "/data/landing/sensors/"
    assert job.source.options == {"header": "true"}
    assert job.source.event_time.watermark == 600_000_000
    assert job.source.columns["pm25"] == SourceColumn(type="double", source_name="PM2.5")
    assert job.source.unique == "checked"
    assert job.window.time == 7 * 86_400_000_000
    assert isinstance(job.scoring["closest"], GlobalScoring)
    assert isinstance(job.queries["twins"], TopKPairs)
    assert job.queries["twins"].every == 3_600_000_000
    assert job.run.trigger == "once"
    assert job.quality.tables[0].model_extra == {"column": "score"}


def test_every_query_type_has_an_example() -> None:
    assert set(OTHERS) == set(QUERY_TYPES.all())


@pytest.mark.parametrize("query_type", OTHERS)
def test_other_examples_validate(query_type: str) -> None:
    job, errors = validate_text(other(query_type), ENV)
    assert errors == [] and job is not None


def test_the_example_of_every_type_validates() -> None:
    for name, kind in QUERY_TYPES.all().items():
        job, errors = validate_text(kind.example, ENV)
        assert errors == [] and job is not None
        assert {q.type for q in job.queries.values()} == {name}


def test_a_type_that_there_is_not_is_told_with_those_there_are() -> None:
    job, errors = validate_text(other("topk").replace("type: topk", "type: topk_loyalties"), ENV)
    assert job is None and {(e.code, e.message) for e in errors} == {("SKY-E113", "'type' cannot be 'topk_loyalties'")}
    assert all(e.where is not None and e.where.line >= 24 for e in errors)


def test_validating_a_file_loads_no_heavy_library(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(SENSORS.replace("k: 20", "k: 0"))
    code = (
        "import sys\n"
        "from skyband.framework.spec.load import validate_file\n"
        f"job, errors = validate_file({str(path)!r}, {ENV!r})\n"
        "assert [e.code for e in errors] == ['SKY-E114'], errors\n"
        "heavy = {'pyspark', 'py4j', 'numba', 'llvmlite', 'pandas', 'pyarrow', 'deltalake', 'great_expectations'} & set(sys.modules)\n"
        "print(*sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_no_query_type_loads_the_compiler_before_its_operators_run() -> None:
    """A preview and spec tests then switch it off: kernels that are compiled cannot be mixed with those that are not."""
    code = (
        "import sys\n"
        "from skyband.framework.plan.compile import compile_job\n"
        "from skyband.framework.queries.registry import QUERY_TYPES\n"
        "from skyband.framework.spec.load import validate_text\n"
        "for name, kind in QUERY_TYPES.all().items():\n"
        f"    job, errors = validate_text(kind.example, {ENV!r})\n"
        "    assert job is not None and compile_job(job).operators, name\n"
        "    print(name, *sorted({'numba', 'llvmlite'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == list(QUERY_TYPES.all())

"""A file with many different mistakes reports all of them, each with its line and column."""

from pathlib import Path

from skyband.framework.spec.load import validate_file
from tests.framework.spec.examples import ENV

HERE = Path(__file__).parent


def test_every_mistake_is_reported_in_one_run_at_its_place() -> None:
    path = HERE / "ten_mistakes.yaml"
    job, errors = validate_file(path, ENV)
    assert job is None
    text = path.read_text().splitlines()
    found = [(e.code, e.where.line, text[e.where.line - 1][e.where.col - 1 :][: e.where.length]) for e in errors if e.where]
    assert found == [
        ("SKY-E113", 5, "timestmap"),
        ("SKY-E120", 6, "tss"),
        ("SKY-E110", 7, "watermerk"),
        ("SKY-E132", 9, "air_tmie"),
        ("SKY-E134", 12, "rand"),
        ("SKY-E115", 13, "7 dayz"),
        ("SKY-E130", 18, "a.air_tim"),
        ("SKY-E114", 20, "0"),
        ("SKY-E130", 20, "b.rout"),
        ("SKY-E113", 21, "topk_pears"),
        ("SKY-E121", 22, "gapp"),
        ("SKY-E115", 22, "no"),
        ("SKY-E104", 23, "${WAREHOUSE}"),
    ]
    hints = " ".join(e.hint or "" for e in errors)
    for meant in ("timestamp", "ts", "watermark", "air_time", "topk_pairs", "gap", "route"):
        assert f"did you mean '{meant}'" in hints or f"did you mean 'a.{meant}'" in hints or f"did you mean 'b.{meant}'" in hints, meant


def test_an_error_shows_its_line_with_a_caret() -> None:
    _, errors = validate_file(HERE / "ten_mistakes.yaml", ENV)
    shown = next(e for e in errors if e.code == "SKY-E110").render().splitlines()
    assert shown[0].endswith("ten_mistakes.yaml:7:28 SKY-E110 unknown field 'watermerk' in source.event_time")
    at = shown[1].index("watermerk")
    assert shown[2] == " " * at + "^" * len("watermerk")
    assert shown[3] == "  hint: did you mean 'watermark'?"

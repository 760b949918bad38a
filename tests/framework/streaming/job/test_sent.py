"""How far changes have been sent: noted durably, of one generation, query by query."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from skyband.framework.plan.nodes import KafkaNode
from skyband.framework.streaming.job.generations import staged
from skyband.framework.streaming.job.layout import JobFile, Layout
from skyband.framework.streaming.job.sent import NOTHING, Sent, all_sent
from skyband.jobs.spec import load_plan
from tests.framework.streaming import checkpoints
from tests.spark.jobs import write_spec

JOB = JobFile("small", "abc", {}, 2, None)


def test_what_is_noted_is_there_for_the_next_run_of_this_generation_alone(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "out"))
    layout.home.mkdir(parents=True)
    sent = Sent(layout, JOB)
    assert sent.upto("a") == NOTHING < -1
    sent.moved(["a", "b"], 4)
    sent.moved(["a", "c"], 6)
    later = Sent(layout, JOB)
    assert [later.upto(q) for q in "abc"] == [6, NOTHING, 6]
    later.forget(["c", "d"])
    assert [Sent(layout, JOB).upto(q) for q in "ac"] == [6, NOTHING]
    assert Sent(layout, replace(JOB, generation="def")).upto("a") == NOTHING
    (layout.home / "sent.json").write_text("{")
    assert Sent(layout, JOB).upto("a") == NOTHING


def test_a_job_at_rest_has_noted_its_last_batch(tmp_path: Path) -> None:
    plan = load_plan(str(write_spec(tmp_path)))
    layout = Layout(plan.sink)
    checkpoints.make(layout.home, batches=2)
    assert all_sent(plan, layout, JOB)
    plan = replace(plan, kafka=KafkaNode((("far5", "t"), ("far3", "t")), ()))
    assert not all_sent(plan, layout, JOB)
    Sent(layout, JOB).moved(["far5"], 1)
    assert not all_sent(plan, layout, JOB)
    Sent(layout, JOB).moved(["far5", "far3"], 1)
    assert all_sent(plan, layout, JOB)
    # What is built beside it is nobody's yet.
    assert staged(plan, layout).kafka is None

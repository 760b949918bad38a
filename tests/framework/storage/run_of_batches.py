"""A run without Spark: takes the sink's lock and commits batches, as a job does. A process of the tests in ``test_paused``.

Arguments: the sink, how many batches there are in all.
"""

from __future__ import annotations

import sys

from skyband.framework.base.errors import SkybandError
from skyband.framework.base.failpoints import failpoint
from skyband.framework.streaming.job.layout import Layout
from skyband.framework.streaming.job.locks import one_run
from skyband.framework.tables.writing.factory import writer_for
from skyband.framework.tables.writing.sink import Sink
from tests.framework.tables.plans import make_plan, random_changes
from tests.framework.tables.writing.test_sink import commit

GENERATION = "g"


def sink_at(root: str) -> Sink:
    return Sink(make_plan(root), writer_for(root), GENERATION)


def main(root: str, batches: int) -> None:
    with one_run(Layout(root), "job", lambda text: print(text, flush=True)):
        sink = sink_at(root)
        sink.ensure_all()
        last = sink.last_run()
        changes = random_changes(sink.plan, 3, batches, 4)
        for number in range(0 if last is None else last["batch_id"] + 1, batches):
            failpoint("batch.before")
            commit(sink, changes, number)


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except SkybandError as e:
        print(e.code, flush=True)
        sys.exit(3)

"""Private parts of PySpark in its Python workers: the modules they run, and how they encode values of the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

WORKER_MODULES: Final = ("pyspark.worker", "pyspark.sql.pandas.serializers")
"""Modules that every Python worker imports."""
STATEFUL_MODULES: Final = (
    "pyspark.sql.streaming.stateful_processor_api_client", "pyspark.sql.streaming.stateful_processor_util",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
)  # fmt: skip
"""Modules that workers of ``transformWithState`` import too."""
DRIVER_WORKER: Final = "pyspark.sql.streaming.transform_with_state_driver_worker"
"""The module of the driver worker, as the JVM names it on the command line."""


def run_daemon() -> None:
    """Run PySpark's daemon, which forks a worker whenever the JVM asks for one. Does not return before the JVM ends."""
    from pyspark import daemon

    daemon.manager()


def pickle_state_plainly(handle: StatefulProcessorHandle) -> None:
    """Pickle values of the state without looking for NumPy values in them: ours are tuples of plain values.

    PySpark searches each value by a module of its tests, whose imports take a third of a second of a worker's first batch.
    """
    private: Any = handle
    client = private._statefulProcessorApiClient
    client._serialize_to_bytes = lambda schema, values: client.pickleSer.dumps(schema.toInternal(values))

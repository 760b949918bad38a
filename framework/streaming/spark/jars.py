"""Which packages the engine needs for a plan: of its source's format, of object storage if a path of the spec is there, of Kafka."""

from __future__ import annotations

from skyband.framework.plan.model import Plan
from skyband.framework.sources.kafka_client import AVRO, JAR
from skyband.framework.sources.registry import source_format
from skyband.framework.storage.settings import ENGINE_JARS, scheme_of


def packages(plan: Plan) -> tuple[str, ...]:
    """Maven coordinates for ``get_session``, each once."""
    schemes = {scheme_of(path) for path in (plan.source.path, plan.sink) if path is not None}
    stored = (jar for scheme, jars in ENGINE_JARS.items() if scheme in schemes for jar in jars)
    source, kafka = plan.source, [] if plan.kafka is None else [JAR]
    avro = [AVRO] if source.format == "kafka" and dict(source.options).get("value") == "avro" else []
    return tuple(dict.fromkeys((*source_format(source.format).jars, *avro, *stored, *kafka)))

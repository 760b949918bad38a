"""Which signals of OpenTelemetry its standard variables ask for. Imports nothing of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOLS: Final = ("", "http/protobuf")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The signals to send. ``notes``: what the variables ask for that Skyband does not do."""

    metrics: bool = False
    traces: bool = False
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.metrics or self.traces

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Wanted:
        """Return what ``env`` asks for: nothing if it names neither an endpoint nor an exporter."""
        if _value(env, "OTEL_SDK_DISABLED") == "true":
            return cls()
        notes: list[str] = []
        metrics, traces = (_wants(env, signal, notes) for signal in ("METRICS", "TRACES"))
        return cls(metrics, traces, tuple(dict.fromkeys(notes)))


def _wants(env: Mapping[str, str], signal: str, notes: list[str]) -> bool:
    exporter_variable, protocol_variable = f"OTEL_{signal}_EXPORTER", f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL"
    exporter = _value(env, exporter_variable)
    to = env.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or env.get(ENDPOINT)
    if exporter == "none" or not (exporter or to):
        return False
    if exporter not in ("", "otlp"):
        # Other programs may use the variable for another exporter, beside an endpoint that Skyband has no reason to use.
        notes.append(f"{exporter_variable} names an exporter that Skyband does not have: it has otlp")
        return False
    protocol = _value(env, protocol_variable) or _value(env, "OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol not in _PROTOCOLS:
        name = protocol_variable if env.get(protocol_variable) else "OTEL_EXPORTER_OTLP_PROTOCOL"
        notes.append(f"{name} names a protocol that Skyband does not use: it sends http/protobuf")
        return False
    return True


def _value(env: Mapping[str, str], name: str) -> str:
    return env.get(name, "").strip().lower()

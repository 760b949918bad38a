"""Metrics and traces of runs, for Prometheus and OpenTelemetry: one list of metrics, from which dashboard and alert rules are rendered."""

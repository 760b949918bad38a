"""Alerts on results: messages about changes of results to channels that the operator has configured. Imports no Spark."""

"""The SQL and the scoring expressions of a spec: parsed, typed and checked without Spark."""

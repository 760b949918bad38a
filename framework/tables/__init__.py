"""The Delta tables of a job: their columns, exactly-once writing, results derived from changes, reading without Spark."""

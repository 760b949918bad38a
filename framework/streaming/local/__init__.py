"""The engine that runs a job in this process, without Spark."""

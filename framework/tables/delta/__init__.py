"""Delta tables without Spark: read, commit data files, prove ownership, fence off earlier holders."""

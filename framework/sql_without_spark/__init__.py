"""Spark SQL evaluated over columns without Spark, with the values that Spark gives."""

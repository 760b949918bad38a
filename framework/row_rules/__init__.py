"""Rules on rows (``quality.rows``), as conditions in Spark SQL and in Python."""

"""Which rows are valid: rules of ``quality.rows``, as Spark SQL and as Python has them."""

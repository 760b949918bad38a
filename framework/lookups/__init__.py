"""Look-up tables: reading them, checking them, and joining them to rows in memory. Spark joins them in ``streaming.rows.lookups``."""

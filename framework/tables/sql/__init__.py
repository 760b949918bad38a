"""SQL over the tables: DuckDB statements, views for other systems, and rows joined to their source."""

"""The tables and views of jobs for PostgreSQL clients, read-only: DuckDB behind the PostgreSQL wire protocol (``skyband serve``)."""

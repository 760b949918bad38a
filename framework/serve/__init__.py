"""Serve the tables and views of jobs to PostgreSQL clients, read-only: DuckDB behind the PostgreSQL wire protocol (``skyband serve``)."""

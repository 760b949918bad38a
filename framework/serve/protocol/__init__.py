"""PostgreSQL's protocol: messages, SCRAM, types and their values, and statements that the server carries out without DuckDB."""

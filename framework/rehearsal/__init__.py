"""A job rehearsed in this process, without Spark: its own reading, order, operators and tables, for rows that fit in memory."""

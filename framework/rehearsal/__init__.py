"""Run a job in this process without Spark, for rows that fit in memory: the job's own intake, order, operators and tables."""

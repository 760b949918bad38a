"""How Spark is started, spoken to and stopped. Knows nothing of jobs, but what the plan says of packages."""

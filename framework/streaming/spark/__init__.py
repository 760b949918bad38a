"""Start, configure and stop Spark. Knows nothing of jobs, except which packages a plan needs."""

"""The first rows of a source as the job would see them, without Spark: what is accepted, what is rejected and why."""

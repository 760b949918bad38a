"""Commands that read the tables of a job."""

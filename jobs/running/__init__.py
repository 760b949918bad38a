"""Commands that run a job or change its sink."""

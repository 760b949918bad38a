"""Shows the first rows of a source as the job would process them: which are accepted and which are rejected, and why."""

"""Verify the tables of a job: replay the change streams, reconcile counts, and recompute results by brute force."""

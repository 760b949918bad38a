"""Proving a job's tables right: the change streams replayed, results recomputed by brute force from the definition."""

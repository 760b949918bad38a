"""Recompute results from the source by brute force, and compare a sample of them."""

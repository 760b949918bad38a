"""Explain why an item is, was or never was in a result: its stays from the tables, the rest by brute force over the source."""

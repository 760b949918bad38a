"""Replay the changes of every query, and compare the derived tables with them."""

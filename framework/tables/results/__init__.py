"""Derive results from changes, check them, and read them as of an instant."""

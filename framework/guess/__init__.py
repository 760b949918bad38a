"""Drafts a spec from a file: the types of its columns, its id, event time and score. Marks guesses as such. Imports no Spark."""

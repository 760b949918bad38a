"""One run: from the source's rows to committed tables."""

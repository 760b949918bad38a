"""Generated rows."""

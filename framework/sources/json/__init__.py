"""JSON files."""

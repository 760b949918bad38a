"""What query types about groups of rows share."""

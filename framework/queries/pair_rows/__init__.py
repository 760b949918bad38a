"""What query types whose items are pairs of rows share."""

"""What query types about pairs of rows with a score share."""

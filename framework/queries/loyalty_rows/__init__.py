"""What query types about the loyalty of objects share."""

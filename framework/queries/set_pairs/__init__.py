"""What query types about pairs of sets of tokens share."""

"""Top-k pairs with a cap per object: no object in more than c pairs of a result (docs/algorithms Theorem D)."""

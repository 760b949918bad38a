"""Top-k pairs where objects can be deleted: no skyband, but the best alive pairs of every window (docs/algorithms D2 "Deletions")."""

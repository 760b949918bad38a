"""How rows of the source become blocks of columns for a bucket."""

"""Several sources that are read as one stream."""

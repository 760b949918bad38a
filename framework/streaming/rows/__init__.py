"""Turn rows of the source into blocks of columns for buckets."""

"""State that is made, moved or divided apart from a run: new queries, more buckets, other partitions."""

"""What a job keeps on disk beside its tables, and who may write it."""

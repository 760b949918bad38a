"""Which results would have been other with other rows or another spec, computed beside the job's tables."""

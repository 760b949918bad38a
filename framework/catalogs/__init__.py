"""Register a job's tables in a catalog, and find sources by their names there. Imported only by jobs that name a catalog."""

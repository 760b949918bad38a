"""OpenLineage: events of runs with their datasets, columns and checks. Off unless who runs the job names a receiver."""

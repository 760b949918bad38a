"""Write micro-batches to the tables exactly once, and keep the tables small."""

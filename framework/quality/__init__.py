"""Data quality on tables: Great Expectations at the end of a run."""

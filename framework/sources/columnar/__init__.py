"""What Parquet, ORC and Delta share: files and tables that state their column types."""

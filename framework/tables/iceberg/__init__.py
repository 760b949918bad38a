"""Iceberg metadata over the Parquet files of the job's Delta tables, for readers that know Iceberg only."""

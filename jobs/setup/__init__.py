"""Commands that prepare a machine, a shell or Airflow for Skyband."""

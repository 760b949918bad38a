"""Reconcile the row counts of the tables with each other and with the source."""

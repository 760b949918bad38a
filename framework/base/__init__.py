"""Modules that all other packages use: errors, messages, redaction, units. Imports no other package of the framework."""

"""Tests of the plugin: run ``pytest`` where it is installed."""

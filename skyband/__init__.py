"""Skyband: exact continuous queries over sliding windows, declared in YAML."""

__version__ = "0.1.0"

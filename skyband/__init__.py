"""Skyband: exact continuous queries over sliding windows, declared in YAML."""

"""Shards of a bucket: where they run, and what they send to it."""

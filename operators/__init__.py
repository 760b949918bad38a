"""Operators over sliding windows: pure Python, NumPy and Numba; no Spark and nothing of the framework."""

"""The project that ``skyband init --plugin`` writes: a query type, a scoring function, a source format and an expectation, with tests.

Its files are part of Skyband's own tests and are written as they are, but for the names in ``jobs/authoring/init.py``.
"""

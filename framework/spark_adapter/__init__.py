"""The only place that uses private parts of PySpark and Spark: calls into the JVM, patches of PySpark's classes, its worker modules.

Each use is a small function with the reason for it. ``tests/framework/spark_adapter`` checks each use against the installed PySpark; the
message of a failed check says what to do.
"""

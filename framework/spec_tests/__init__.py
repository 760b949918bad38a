"""The tests of a spec (``tests:``): run them in memory or on Spark, compare the tables, record them."""

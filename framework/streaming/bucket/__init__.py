"""A bucket of keys: its order, its state and its operators, in a Python worker of Spark."""

"""The tests of a spec (``tests:``): run without Spark or through it, held against what they expect, recorded."""

"""The tests of a spec (``tests:``): run without the engine or through it, held against what they expect, recorded."""

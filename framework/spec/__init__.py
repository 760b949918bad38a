"""From a YAML spec to a checked `Job`: reading with positions, models, checks (``load``). Imports neither Spark, Numba nor pandas."""

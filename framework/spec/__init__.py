"""From a YAML spec to a checked `Job`: reading with positions, models, checks. Imports neither Spark, Numba nor pandas."""

from skyband.framework.spec.load import load_job, validate_file, validate_text
from skyband.framework.spec.models import Job

__all__ = ["Job", "load_job", "validate_file", "validate_text"]

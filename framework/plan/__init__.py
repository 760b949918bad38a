"""From a `Job` to a `Plan`, its explanation and its fingerprint."""

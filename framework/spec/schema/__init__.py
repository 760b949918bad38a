"""The JSON schema of a spec, for editors: ``python -m skyband.framework.spec.schema`` writes it."""
